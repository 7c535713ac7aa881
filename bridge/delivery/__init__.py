"""Carries changes from the informers into the outbox, and from the outbox to the sinks, with a worker for each sink.

attempts        makes an attempt at a sink: through its circuit, under the Lease, timed, counted and reported
backfills       begins snapshots, on demand and by schedule, and replays
backpressure    takes the informers' batches into the outbox, and keeps each sink's backlog within its bounds
circuit         the circuit breaker: when an attempt may begin
lane_worker     the worker of sinks that deliver record by record, several at once
live_tail       shows what is committed to people who watch
selecting       puts the sinks' selections into effect, and exports the difference
sink_feed       the records of a sink in order: the log, with backfills in between; and the feeds of an outbox
sink_pipeline   makes, runs and ends a sink's feed and its worker
sink_worker     the common part of all workers, and the way of rejected records into the dead letters
worker          the workers of sinks that take batches, and of sinks that deliver in transactions
workqueue       a queue of keys to work on, after client-go

An informer's batch goes through ``Exporter`` into the outbox, whose commit distributes the records to the listener of
every sink. A sink's ``SinkFeed`` reads its listener and, in front of the log, its backfills; ``view_of`` makes of each
record the one that a sink with a selection gets. Beside this way stand those who change it: ``Backpressure`` compacts
or drops a backlog, or stops the intake, and ``Selecting`` and ``SnapshotSchedule`` append or plan records for a single
sink.

A worker takes records from the feed in the order of the log, hands them to its sink, and reads
the Receipt: stored records are done, a rejected record becomes a dead letter, and later records of its object are
parked behind it; pending records are tried again before newer ones of their objects. A fetch is settled when every
record of it is stored or a dead letter, so a crash repeats what was in flight, with the same ids. Attempts go through a
circuit: after five failures in a row, or while the destination is unavailable, none begins before a pause is over, and
then a single one decides. Where only a part of the destination fails (a topic), its records wait aside, and those of
other objects go past.

Invariant, with its tests:

- Later records of an object wait behind its rejected record (``on_rejected: park``). Records before its first dead
  letter are delivered again only after a crash. ``tests/bridge/delivery/test_worker.py``,
  ``tests/contracts/test_refusals.py``
"""

from bridge.delivery.attempts import HeldLease, MakeContent, WorkerSettings, report_halt
from bridge.delivery.circuit import Retry
from bridge.delivery.lane_worker import MAX_RECORDS, LaneWorker
from bridge.delivery.sink_worker import SinkWorker
from bridge.delivery.worker import TransactionWorker, Worker

__all__ = [
    "MAX_RECORDS",
    "HeldLease",
    "LaneWorker",
    "MakeContent",
    "Retry",
    "SinkWorker",
    "TransactionWorker",
    "Worker",
    "WorkerSettings",
    "report_halt",
]
