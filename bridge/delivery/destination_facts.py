"""What a destination has stored, what it says about itself in a receipt, and why a sink makes no attempts."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.facts import (
    DestinationChanged,
    DestinationCreated,
    DestinationGone,
    DestinationLost,
    Report,
    SinkFenced,
)
from bridge.model.status import PauseCause
from sinks.base import Receipt, RetryLater, SinkUnavailable


@dataclass(frozen=True, slots=True)
class Suspended:
    """No attempt begins until an operator resumes the sink."""

    cause: PauseCause
    reason: str
    """Why the destination ended deliveries; empty if an operator paused the sink."""

    @property
    def by_destination(self) -> bool:
        return self.cause is not PauseCause.OPERATOR


def report_destination(report: Report, sink: str, receipt: Receipt, *, delivered: bool) -> None:
    """``delivered``: the sink has delivered records in this run."""
    if receipt.created:
        report(DestinationCreated(sink, receipt.created, again=delivered))
    if receipt.lost:
        report(DestinationLost(sink, receipt.lost))
    if receipt.changed:
        report(DestinationChanged(sink, receipt.changed))


def opening_failure(error: SinkUnavailable) -> RetryLater:
    return RetryLater(str(error), fenced=error.fenced, doubted=error.doubted)


def pause_cause(failure: RetryLater) -> PauseCause:
    """Whether the failure ends deliveries, and why."""
    return PauseCause.FENCED if failure.fenced else PauseCause.GONE if failure.gone else PauseCause.NONE


def report_halt(report: Report, sink: str, reason: str, cause: PauseCause) -> None:
    """The destination ended deliveries, now or before this start."""
    report(SinkFenced(sink, reason) if cause is PauseCause.FENCED else DestinationGone(sink, reason))
