"""The state on disk: every record until all sinks have settled it, the ledger of objects, positions and cursors.

outbox        the interface for the other rooms
opening       takes the directory, opens the database or replaces a damaged one, and reads the state
maintenance   the log in memory, its trimming and cleaning
consumers     the way of each sink through the log: cursors, backfills, selections, dead letters
ledger        the last exported state of every object, and the informer that has the object
appender      a batch of changes into records, ledger and position in one transaction; turns of the event loop
store         access to the database: one writer, readers with short transactions, bodies by sequence number
writer        the writer thread with group commit
log           records and bodies in the database, and the removal of those that nobody needs
commits       write transactions as data, for other replicas
copied_state  a copy of the whole database for another replica, and the database of a replica that follows
integrity     damage of a database: for `kubedelta state check`, and wherever reading raised
inspection    the state of another process
encryption    encryption of objects' content, and the keys in the database
storage       the database file and the state directory
errors        exceptions of this room

``Outbox.open`` takes the directory (``opening``). From then on, an informer's batch goes through ``appender``, which
numbers its records, and ``writer``, which commits log, ledger and position together; only then are the records
distributed. One thread owns the only connection that writes; jobs that wait while a transaction runs share the next. A
sink that falls behind reads the log with ``Outbox.read``, or gets the items of a backfill, which lies in front of the
log: a snapshot, a compacted backlog, a Gap, a replay.

Twice a second (once while no record comes), ``Outbox.maintain`` saves the cursors and trims the log: its start moves to
the smallest cursor, or to the start of what is retained for replays. A trimmed record stays in the file while it holds
the last state of an object or a backfill has it. The cleaner (``maintenance``) removes the others in bulk: once as many
records were trimmed as the last pass kept, and at least 4 MiB of them, or at once if the disk is nearly full.

With several replicas, each transaction is handed on as data (``commits``), and counts as committed when the replicas in
sync have it; a follower applies it to a copy of this database (``copied_state``).

It fails in three ways. On a full disk the writer waits and repeats, and jobs that free space run alone, ahead of the
others (``writer``). On damage (``Damaged``) it leaves a mark and ends, and the next start begins a new database behind
all numbers that left (``opening``). A state that only the operator can make usable raises ``StateError``, and nothing
in the directory changes.

A module has one concept as a whole. Its class comes first, and runs on the event loop; behind the class stand the SQL
and the decisions, mostly as functions on a connection, which the class hands to the writer (``Store.write``) or to a
reader (``Store.ask``).

Log, ledger, positions and cursors are one database, because they change in one transaction. Segment files append twice
as fast, but every tool of this field with a file format of its own took years to stop losing data, each time because
two files that were saved separately disagreed. LMDB needs its size in advance, and never shrinks.

Invariants, each with its test:

- The ledger has exactly the exported objects, each from its first record to its ``deleted``, with the number of the
  record that has its last state; that record stays as long as the object does. An object exists while a row names an
  informer for it and no other row replaces that row (``ledger.PRESENT``). The informer's own store names the
  replaced record (``Change.before``), so the ledger is never searched for that. ``tests/bridge/outbox/test_ledger.py``,
  ``tests/properties/test_outbox.py``
- A possible delivery counts as a delivery. Compaction leaves out the ``added`` of an object that came and went only if
  the sink cannot have received it: not handed out in this run, and not in the log when this run began.
  ``tests/properties/test_compaction.py``
- A pause outlasts the process: it is in the cursor's row, and a crash resumes no sink.
  ``tests/bridge/app/admin/test_operations.py``
- Order and age never depend on the wall clock: order is the sequence, and ages are counted while the bridge runs.
  ``tests/bridge/outbox/test_retention.py``
"""

from bridge.outbox.appender import Turns, utc_now
from bridge.outbox.commits import Capture
from bridge.outbox.consumers.backfill import Backfill
from bridge.outbox.consumers.compaction import why_full
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.consumers.dead_letters import DeadLetters
from bridge.outbox.consumers.selections import (
    EVERYTHING,
    JudgedRecords,
    LastState,
    Moved,
    Selections,
    StoredSelection,
)
from bridge.outbox.consumers.sink_cursors import SinkCursors
from bridge.outbox.consumers.snapshot_plans import Snapshots
from bridge.outbox.copied_state import BaseCopy
from bridge.outbox.encryption import OPTION as KEY_FILES_OPTION
from bridge.outbox.encryption import Cipher, EncryptionKey
from bridge.outbox.errors import Damaged, OtherCluster, OtherShard, StateError, StateUnusable, UnknownFormat
from bridge.outbox.inspection import StateInspection, look_at
from bridge.outbox.ledger import Ledger, LedgerObject, covering
from bridge.outbox.log.cleaner import CleanerPolicy
from bridge.outbox.log.retention import Retention
from bridge.outbox.log.statements import Decide
from bridge.outbox.opening import number_of_now
from bridge.outbox.outbox import Outbox
from bridge.outbox.storage.directory_lock import FILE, is_held, unusable
from bridge.outbox.storage.state_directory import shard_in
from bridge.outbox.store import condition

__all__ = [
    "EVERYTHING",
    "FILE",
    "KEY_FILES_OPTION",
    "Backfill",
    "BaseCopy",
    "Capture",
    "Cipher",
    "CleanerPolicy",
    "Damaged",
    "DeadLetters",
    "Decide",
    "EncryptionKey",
    "JudgedRecords",
    "LastState",
    "Ledger",
    "LedgerObject",
    "Moved",
    "OtherCluster",
    "OtherShard",
    "Outbox",
    "Retention",
    "Selections",
    "SinkCursor",
    "SinkCursors",
    "Snapshots",
    "StateError",
    "StateInspection",
    "StateUnusable",
    "StoredSelection",
    "Turns",
    "UnknownFormat",
    "condition",
    "covering",
    "is_held",
    "look_at",
    "number_of_now",
    "shard_in",
    "unusable",
    "utc_now",
    "why_full",
]
