"""From the outbox to the sinks: a worker for each sink fetches, delivers, retries, and settles.

aside              records that wait for a part of the destination
attempts           a sink behind its circuit breaker; times, counts and reports each attempt
circuit            when an attempt is allowed (pure)
destination_facts  what a destination has stored, and says about itself; why a sink makes no attempts
fencing            a destination that knows another leader
lane_worker        the worker of sinks that deliver record by record, several at once
lanes              the records in the lanes, and the fetches that they came with
parking            rejected records, and later records of the same object
ports              the interfaces that a worker needs
sink_worker        the common part of all workers
transaction_worker  the worker of sinks that deliver in transactions
worker             the worker of sinks that take batches
workqueue          client-go's WorkQueue

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
"""

from bridge.delivery.attempts import MakeContent
from bridge.delivery.circuit import Retry
from bridge.delivery.destination_facts import report_halt
from bridge.delivery.fencing import HeldLease
from bridge.delivery.lane_worker import MAX_RECORDS, LaneWorker
from bridge.delivery.sink_worker import SinkWorker, WorkerSettings
from bridge.delivery.transaction_worker import TransactionWorker
from bridge.delivery.worker import Worker

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
