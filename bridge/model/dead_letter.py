"""Dead letters, as values between the workers (delivery) and the outbox, and between replicas."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

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


# ── From one replica to another ──────────────────────────────────────────────

MOST_LETTERS = 200
"""Dead letters of a page."""
LONGEST_TEXT = 1 << 16
"""Characters of a reason, and of an answer."""
_Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]


class SentLetter(msgspec.Struct, frozen=True):
    """A dead letter as a former leader sends it."""

    number: Annotated[int, Meta(ge=1, lt=1 << 62)]
    """On that replica."""
    sink: Annotated[str, Meta(min_length=1, max_length=512)]
    record: bytes
    """Encoded as in the dead letters, with the sequence number with which it left."""
    reason: _Text
    parked: bool
    answer: _Text


class LetterPage(msgspec.Struct, frozen=True):
    """Some dead letters of a replica, by their numbers."""

    replica: Annotated[str, Meta(max_length=512)]
    """Its name."""
    left: Annotated[int, Meta(ge=0, lt=1 << 62)]
    """All dead letters that it still has."""
    letters: Annotated[tuple[SentLetter, ...], Meta(max_length=MOST_LETTERS)]
