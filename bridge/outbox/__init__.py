"""What must survive: records until every sink has settled them, the ledger of objects, positions, cursors.

Outbox       opens the database; append, read, tidy
Intake       a batch of changes → records, ledger and position in one transaction
Ledger       which objects were told, which informer has them, which cluster they are of
Sinks        every sink's cursor, and what it is told out of turn: snapshot, compacted backlog, Gap, replay
Letters      dead letters
Store        one writer thread with group commit, readers with short transactions
Holder       the directory: who holds it, whether its files are there, and the mark for the next start
integrity    what of the file cannot have been written; wal: what of its log is missing
clearing     what nobody needs any more leaves, much at once
compaction, backlog   decisions alone: what is told of a long backlog, when it is too long, what may leave
"""

from bridge.outbox.backlog import Bounds
from bridge.outbox.errors import OtherCluster, StateError
from bridge.outbox.outbox import Keeping, Outbox

__all__ = ["Bounds", "Keeping", "OtherCluster", "Outbox", "StateError"]
