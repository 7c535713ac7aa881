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
_Number = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Sink = Annotated[str, Meta(min_length=1, max_length=512)]
_Id = Annotated[str, Meta(max_length=64)]


class SentLetter(msgspec.Struct, frozen=True):
    """A dead letter as a former leader sends it."""

    number: Annotated[int, Meta(ge=1, lt=1 << 62)]
    """On that replica."""
    sink: _Sink
    record: bytes
    """Encoded as in the dead letters, with the sequence number with which it left."""
    reason: _Text
    parked: bool
    answer: _Text
    retrying: bool = False
    """It was marked for retry: the destination may have it. False from an earlier version."""


class LetterNumbering(msgspec.Struct, frozen=True):
    """By what the numbers of dead letters are recognised that a destination stored as delivered: see ``Starts`` and
    ``Progress``."""

    start: _Id
    """The present start of the replica."""
    ends: Annotated[dict[_Id, _Number], Meta(max_length=1000)]
    """Id of an earlier start → the newest of its records that the replica has."""
    cursors: Annotated[dict[_Sink, _Id], Meta(max_length=MOST_LETTERS)]
    """Sinks of dead letters that were marked for retry → the ids of their cursors."""


class LetterPage(msgspec.Struct, frozen=True):
    """Some dead letters of a replica, by their numbers."""

    replica: Annotated[str, Meta(max_length=512)]
    """Its name."""
    left: _Number
    """All dead letters that it still has."""
    letters: Annotated[tuple[SentLetter, ...], Meta(max_length=MOST_LETTERS)]
    numbering: LetterNumbering | None = None
    """None if no dead letter is marked for retry, and from an earlier version."""
