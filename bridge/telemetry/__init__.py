"""Observers of facts: metrics and log lines."""

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
