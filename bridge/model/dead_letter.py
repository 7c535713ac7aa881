"""Dead letters, as values between the workers (delivery) and the outbox."""

from __future__ import annotations

import msgspec

from bridge.model.record import Record


class NewDeadLetter(msgspec.Struct, frozen=True):
    """A record that is to be added to the dead letters."""

    record: Record
    reason: str
    parked: bool
    """True if the record was never tried, because an earlier record of its object was rejected."""
    answer: str = ""
    """The beginning of the destination's answer, without secrets; empty if the reason is all of it."""


class RetriedDeadLetter(msgspec.Struct, frozen=True):
    """A dead letter that an operator marked for retry."""

    number: int
    record: Record
