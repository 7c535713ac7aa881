"""Sources: where the records of a stream are read, with a position to go on from.

files    the file of a file sink with its closed parts (extra ``files``, for compressed ones)
kafka    topics, one or all partitions (extra ``kafka``)
lines    whole lines of plain and compressed files
nats     a stream of JetStream (extra ``nats``)
parts    which closed parts a file has, and their order
source   the promise of every Source, and its errors

A source gives batches of records, and says where the next batch begins. What a record says is asked of the record
(``Record.event``), and what it means, of the Reader. State and position are saved in one transaction::

    store = SqliteStore("cluster.db")
    reader = Reader(store)
    async with FileSource("audit.jsonl") as source:
        await source.resume(store.position)
        async for batch in source.follow():
            with store.transaction():
                for record in batch:
                    for step in reader.apply(record.event(), record.partition): ...
                store.position = source.position

``follow`` waits for further records and never ends, and says by an empty batch that the reader has caught up; ``read``
ends at the present end, and may be called again. Both continue where the other one stopped. Without ``resume`` a source
begins with the oldest record.

A source says nothing of Kubernetes or of CloudEvents, so it has no opinion about records of other programs: they come
as they are, and ``Record.event`` raises NotAnEvent. ``lost`` tells that some were removed before they were read (by a
retention): then a state is only right again behind a snapshot.

The modules of clients are imported by name (``kubedelta_reader.sources.files``), so that each needs its own extra
alone.

Invariants, each with its test:

- Whoever is killed at any moment and goes on from the saved position misses no record, whatever is rotated, compressed
  or taken back meanwhile. ``tests/reader/sources``
- Behind kills of reader and bridge, snapshots and gaps, the state is that of the cluster, from whichever source.
  ``tests/scenarios/test_readers_know_the_cluster.py``
"""

from kubedelta_reader.sources.source import NoDestination, Source, Unavailable

__all__ = ["NoDestination", "Source", "Unavailable"]
