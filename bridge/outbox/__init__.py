"""The state on disk: every record until all sinks have settled it, the ledger of objects, positions and cursors.

consumers     a cursor for each sink, backfills, compaction, dead letters
errors        exceptions of this room
log           records: appending, encoding, cleaning
maintenance   the log in memory, its trimming and cleaning
objects       the ledger: which objects were exported, in which version
outbox        the interface for the other rooms
rebuild       the new database in place of a damaged one
recovery      opens the state at a start, and repairs what can be repaired
storage       the database and the files of the state directory
store         one writer, readers with short transactions, bodies by sequence number
writer        the writer thread with group commit
"""

from bridge.outbox.consumers.backfill import Backfill
from bridge.outbox.consumers.backlog import drop_through, why_full
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.consumers.dead_letters import DeadLetters
from bridge.outbox.consumers.sink_cursors import SinkCursors
from bridge.outbox.errors import Damaged, OtherCluster, StateError, StateUnusable, UnknownFormat
from bridge.outbox.log.appender import utc_now
from bridge.outbox.log.cleaner import CleanerPolicy
from bridge.outbox.log.retention import Retention
from bridge.outbox.objects.ledger import Ledger
from bridge.outbox.objects.ledger_sql import covering
from bridge.outbox.outbox import Outbox
from bridge.outbox.storage.directory_lock import FILE, is_held, unusable
from bridge.outbox.storage.inspection import LedgerObject, StateInspection, look_at

__all__ = [
    "FILE",
    "Backfill",
    "CleanerPolicy",
    "Damaged",
    "DeadLetters",
    "Ledger",
    "LedgerObject",
    "OtherCluster",
    "Outbox",
    "Retention",
    "SinkCursor",
    "SinkCursors",
    "StateError",
    "StateInspection",
    "StateUnusable",
    "UnknownFormat",
    "covering",
    "drop_through",
    "is_held",
    "look_at",
    "unusable",
    "utc_now",
    "why_full",
]
