"""Reports the facts about a destination that a receipt has."""

from __future__ import annotations

from bridge.facts import DestinationChanged, DestinationCreated, DestinationLost, Report
from sinks.base import Receipt


def report_destination(report: Report, sink: str, receipt: Receipt, *, delivered: bool) -> None:
    """``delivered``: the sink has delivered records in this run."""
    if receipt.created:
        report(DestinationCreated(sink, receipt.created, again=delivered))
    if receipt.lost:
        report(DestinationLost(sink, receipt.lost))
    if receipt.changed:
        report(DestinationChanged(sink, receipt.changed))
