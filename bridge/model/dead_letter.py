"""Dead letters, between the worker that cannot deliver a record and the outbox that keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.model.record import Record


@dataclass(frozen=True, slots=True)
class NewDeadLetter:
    """A record on its way into the dead letters."""

    record: Record
    reason: str
    parked: bool
    """It was not tried: an earlier record of its object was rejected."""
    answer: str = ""
    """The beginning of what the destination answered, without anything secret; empty where it said nothing more."""


@dataclass(frozen=True, slots=True)
class RetriedDeadLetter:
    """A dead letter that is to be delivered again."""

    number: int
    record: Record
