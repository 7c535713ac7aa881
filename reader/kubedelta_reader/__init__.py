"""Reads a stream of kubedelta: which objects exist, what became of each, and what a gap made uncertain.

A stream tells everything, and leaves the rules to its reader: a record may come again, behind newer ones; a snapshot
says which objects exist no more, by not having them; a gap stands for records that never come; some deletes end no
object. This package has these rules, once. It does no I/O and has no clock: who reads the records (from Kafka, NATS, a
webhook, a file) hands them over, and keeps the state in a store of their own::

    reader = Reader(MemoryStore())
    for line in lines:
        for step in reader.apply(structured(line)):
            match step:
                case Changed(key, event, before): ...
                case Deleted(key, event, last): ...

events    makes an Event of a record, in each form that sinks send
reader    the rules: what each event is for a reader of states, as steps
sources   where records are read, with a position to go on from: files, Kafka, NATS
stores    where a reader keeps the objects: in memory, or in SQLite

Invariants, each with its test:

- However often, and however late, records come again: behind all of them the reader has the state of the newest record
  of each object. ``tests/reader/test_against_a_model.py``
- Without a gap the objects are those that the bridge knows; with gaps, every object that differs is uncertain, or is
  lacking and of a resource that the gap names. A snapshot settles both. ``tests/reader/test_against_a_model.py``
- What a record means is the same for every implementation. ``reader/vectors`` has streams, and what has to come out;
  this package and a reader in Go agree on all of them. ``tests/reader/test_vectors.py``
- The state and the position in the stream are one transaction of the store, so a reader that is killed goes on as if it
  had not been. ``tests/reader/test_stores.py``

Why steps, and not a table of objects alone. A table answers "what exists"; an audit, a cache and a notification need
to know whether a delete was seen or inferred, whether an object only left a selection, and whether anything may be
missing.

Why order is by ``sequence``. It is the number of the record in the bridge's log, and ascends over restarts, takeovers
and epochs; a resourceVersion is opaque, and comes again where etcd is restored from a backup.
"""

from kubedelta_reader.events import Event, NotAnEvent, Record, binary, envelope, row, structured
from kubedelta_reader.reader import (
    Changed,
    Deleted,
    EpochBegan,
    GapFound,
    Left,
    Older,
    Reader,
    Repeated,
    SnapshotBegan,
    SnapshotCancelled,
    SnapshotEnded,
    Step,
    TermBegan,
    Unknown,
)
from kubedelta_reader.stores import Known, MemoryStore, SqliteStore, StateStore

__all__ = [
    "Changed",
    "Deleted",
    "EpochBegan",
    "Event",
    "GapFound",
    "Known",
    "Left",
    "MemoryStore",
    "NotAnEvent",
    "Older",
    "Reader",
    "Record",
    "Repeated",
    "SnapshotBegan",
    "SnapshotCancelled",
    "SnapshotEnded",
    "SqliteStore",
    "StateStore",
    "Step",
    "TermBegan",
    "Unknown",
    "binary",
    "envelope",
    "row",
    "structured",
]
