"""Observers of facts: metrics, log lines, and the state of things at one moment."""

from bridge.telemetry.log_stream import set_up_logging
from bridge.telemetry.logs import Logs
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.observers import Observer, Telemetry
from bridge.telemetry.status import (
    CircuitState,
    InformerState,
    InformerStatus,
    SinkState,
    SinkStatus,
    Snapshot,
    StatusSource,
)

__all__ = [
    "CircuitState",
    "InformerState",
    "InformerStatus",
    "Logs",
    "Metrics",
    "Observer",
    "SinkState",
    "SinkStatus",
    "Snapshot",
    "StatusSource",
    "Telemetry",
    "set_up_logging",
]
