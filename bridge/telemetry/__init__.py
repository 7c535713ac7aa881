"""Observers of facts: metrics and log lines.

counters        counters by resource and by sink
gauges          gauges of a status snapshot
log_stream      one stream of log lines, with the libraries' lines
log_throttle    which of many equal failures are logged
logs            facts of resources as log lines
metrics         the registry, and its text form
observers       passes each fact to every observer
process_logs    facts of the process as log lines
sink_logs       facts of sinks as log lines
state_logs      facts of the state as log lines
throttled_log   logs a failure, throttled
"""

from bridge.telemetry.log_stream import set_up_logging
from bridge.telemetry.logs import Logs
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.observers import Observer, Telemetry

__all__ = [
    "Logs",
    "Metrics",
    "Observer",
    "Telemetry",
    "set_up_logging",
]
