"""Durable state of the bridge: records until every sink has settled them, the ledger of objects, positions, cursors.

Outbox          opens the database; append, read, maintain
Appender        turns a batch of changes into records, ledger rows and a position, in a single transaction
Ledger          the exported objects, the informer that has each, and the cluster they belong to
SinkCursors     the cursor of every sink, with its backfill: snapshot, compacted backlog, Gap or replay
DeadLetters     records that a sink rejected, and those parked behind them
Store           a writer thread with group commit, readers with short transactions
StateDirectory  the lock, the identity of the files, and the mark for the next start
integrity       finds damage in the file; wal: finds transactions missing from the write-ahead log
clearing        the log cleaner: removes records that no sink and no object needs, in bulk
compaction, backlog   pure decisions: the records left of a long backlog, its bounds, the end of the log
"""

from bridge.outbox.consumers.backlog import Bounds
from bridge.outbox.errors import OtherCluster, StateError
from bridge.outbox.outbox import Outbox, Retention

__all__ = ["Bounds", "OtherCluster", "Outbox", "Retention", "StateError"]
