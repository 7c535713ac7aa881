"""From the outbox to the sinks: a worker for each sink fetches, delivers, retries, and settles.

attempts      a sink behind its circuit breaker; times, counts and reports each attempt
circuit       when an attempt is allowed (pure)
lanes         the worker of sinks that deliver record by record, several at once
parking       rejected records, and later records of the same object
ports         the interfaces that a worker needs
sink_worker   what both kinds of worker share
worker        the worker of sinks that take batches
workqueue     client-go's WorkQueue
"""

from bridge.delivery.circuit import Retry
from bridge.delivery.lanes import MAX_RECORDS, LaneWorker
from bridge.delivery.sink_worker import SinkWorker
from bridge.delivery.worker import Worker

__all__ = ["MAX_RECORDS", "LaneWorker", "Retry", "SinkWorker", "Worker"]
