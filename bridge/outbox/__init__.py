"""The state on disk: every record until all sinks have settled it, the ledger of objects, positions and cursors.

consumers     a cursor for each sink, backfills, compaction, dead letters
errors        exceptions of this room
log           records: appending, encoding, cleaning
maintenance   the log in memory, its trimming and cleaning
objects       the ledger: which objects were exported, in which version
outbox        the interface for the other rooms
recovery      opens the state at a start, and repairs what can be repaired
storage       the database and the files of the state directory
store         one writer, readers with short transactions, bodies by sequence number
writer        the writer thread with group commit
"""

from bridge.outbox.consumers.backlog import Bounds
from bridge.outbox.errors import OtherCluster, StateError
from bridge.outbox.log.retention import Retention
from bridge.outbox.outbox import Outbox

__all__ = ["Bounds", "OtherCluster", "Outbox", "Retention", "StateError"]
