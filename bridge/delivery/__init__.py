"""From the outbox to the sinks: a worker for each sink fetches, delivers, retries, and settles.

attempts        what a destination has stored, and says about itself; why a sink makes no attempts; a destination
                that knows another leader; a sink behind its circuit breaker; times, counts and reports each attempt
backpressure    keeps each backlog within its bounds
circuit         when an attempt is allowed (pure)
feeds           appends an informer's batch to the outbox; joins the outbox, the processor and the feeds
lane_worker     records that wait for a part of the destination; the records in the lanes, and the fetches that they
                came with; the worker of sinks that deliver record by record, several at once
live_tail       shows what is committed to people who watch
ports           the interfaces that a worker needs
selecting       the meaning of a sink's `select` on a cluster; puts the sinks' selections into effect, and exports
                the difference
sink_feed       makes the content of records, in a thread where that takes long; the records of the log as a sink
                with a selection gets them; judges records of the log by the present selection of a sink; the records
                of one sink in order: the log, with backfills in between
sink_pipeline   creates a sink, its feed and the worker that delivers to it; begins and ends the pipelines of the
                configured sinks
sink_worker     rejected records, and later records of the same object; the common part of all workers
snapshots       snapshots on demand and by schedule
worker          the worker of sinks that take batches; the worker of sinks that deliver in transactions
workqueue       client-go's WorkQueue

A worker takes records in the order of the log (``ports.RecordSource``), hands them to its sink, and reads the Receipt:
stored records are done, a rejected record becomes a dead letter, and later records of its object are parked behind it;
pending records are tried again before newer ones of their objects. A fetch is settled when nothing of it is left, so a
crash repeats what was in flight, with the same ids. Attempts go through a circuit: after five failures in a row, or
while the destination is unavailable, none begins before a pause is over, and then a single one decides. Where only a
part of the destination fails (a topic), its records wait aside, and those of other objects go past.

Invariant, with its tests:

- Later records of an object wait behind its rejected record (``on_rejected: park``). Records before its first dead
  letter are delivered again only after a crash. ``tests/bridge/delivery/test_worker.py``,
  ``tests/contracts/test_refusals.py``

From an informer into the outbox, and from the outbox to each sink's worker.

An informer's batch goes through ``Exporter`` into the outbox, whose commit distributes the records to the listener of
every sink. A sink's ``SinkFeed`` reads its listener and, in front of the log, its backfills; ``sink_view`` makes of
each record the one that a sink with a selection gets; and a worker of ``delivery`` takes from the feed and settles
there. Beside this way stand those who change it: ``Backpressure`` compacts or drops a backlog, or stops the intake, and
``Selecting`` and ``Snapshots`` append or plan records for a single sink.
"""

from bridge.delivery.attempts import HeldLease, MakeContent, report_halt
from bridge.delivery.circuit import Retry
from bridge.delivery.lane_worker import MAX_RECORDS, LaneWorker
from bridge.delivery.sink_worker import SinkWorker, WorkerSettings
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
