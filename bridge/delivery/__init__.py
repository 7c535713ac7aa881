"""From the outbox to the sinks: one worker per sink takes, delivers, retries, buries, settles.

Worker      for sinks that take batches
LaneWorker  for sinks that deliver record by record, over a WorkQueue of lanes
Attempts    the sink behind its circuit: one attempt at a time, or one for each lane
Parking     what was rejected, and what waits behind it
"""

from bridge.delivery.circuit import Retry
from bridge.delivery.lanes import MAX_RECORDS, LaneWorker
from bridge.delivery.sink_worker import SinkWorker
from bridge.delivery.worker import Worker

__all__ = ["MAX_RECORDS", "LaneWorker", "Retry", "SinkWorker", "Worker"]
