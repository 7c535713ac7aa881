"""Observers of facts: metrics and log lines.

gauges              gauges of a status snapshot
log_stream          one stream of log lines, with the libraries' lines
logs                facts of resources as log lines
metrics             the registry, and its text form
observers           passes each fact to every observer
process_logs        facts of the process and of the election as log lines
resource_counters   counters between the API server and the outbox
sink_counters       counters between the outbox and the destinations
sink_logs           facts of sinks as log lines
state_counters      counters of the database, of the state, of the election and of traces
state_logs          facts of the state as log lines
throttled_log       the bridge's logger; logs a repeated failure every half minute
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
