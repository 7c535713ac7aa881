"""How far a sink has come, as its destination stores it, in one transaction with the records."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from bridge.model.versions.beyond import Beyond
from bridge.model.versions.frontier import MOST_RETIRED, Point

LARGEST = 1 << 20
"""Bytes of a progress that is read back."""
MOST_PARTS = 10_000
_VERSION = 1

_Key = Annotated[str, Meta(min_length=1, max_length=32)]
_Text = Annotated[str, Meta(max_length=4096)]


class LettersBefore(msgspec.Struct, frozen=True):
    """Dead letters that a replica has delivered, perhaps without noting it: see ``Progress``."""

    start: str
    out: int
    letters: tuple[int, ...]


class SharedProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything up to here is stored, in numbers that every replica of an election understands."""

    sequence: int = 0
    """The largest number that has left."""
    informers: Annotated[dict[_Key, Point | None], Meta(max_length=10_000)] = {}
    """See ``Frontier.informers``."""
    retired: Annotated[tuple[_Key, ...], Meta(max_length=2 * MOST_RETIRED)] = ()
    """See ``Frontier.retired``."""
    beyond: Annotated[dict[_Text, Beyond], Meta(max_length=10_000)] = {}
    """What is stored beyond ``informers``, and in no part."""
    parts: Annotated[int, Meta(ge=0, le=MOST_PARTS)] = 0
    """So many further values of ``beyond`` are stored beside the progress (``BeyondPart``)."""
    letters: Annotated[dict[str, LettersBefore], Meta(max_length=100)] = {}
    """Ids of cursors of other replicas → the dead letters that their last transaction delivered. Those of 16
    cursors stay, the last that delivered some."""


class BeyondPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of ``SharedProgress.beyond`` that later transactions need not repeat."""

    number: int
    """From 0. A part replaces an earlier one with its number."""
    beyond: Annotated[dict[_Text, Beyond], Meta(max_length=10_000)]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Everything up to here is stored, together with this value. But for ``term`` and ``frontier`` it means something
    only to the state directory that numbered the records."""

    v: int = _VERSION
    owner: str = ""
    """The open sink that stored this: random. Another owner has taken the destination over."""
    number: int = 0
    """Of the owner's transaction, from 1; 0 when it took over."""
    term: int = 0
    """Of the owner as the leader of an election; 0 without one."""
    start: str = ""
    """The start of the bridge on its state directory that numbered the records (``Starts``); empty for no progress."""
    cursor: str = ""
    """The id of the sink's cursor: a sink that was forgotten and came back has another one."""
    backfills: int = 0
    """Backfills of the cursor that had ended."""
    out: int = 0
    """The log is settled through this sequence number."""
    item: int | None = None
    """Items of the present backfill are settled through this index; None in the log."""
    letters: tuple[int, ...] = ()
    """Numbers of the dead letters that this transaction delivered."""
    memory: bytes = b""
    """The memory of the sink after the transaction (``StatefulSink``)."""
    frontier: SharedProgress | None = None
    """The same for any replica; None without an election."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Progress).decode
_decode_part = msgspec.json.Decoder(BeyondPart).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def encode_progress(progress: Progress | BeyondPart) -> bytes:
    return _encode(progress)


def decode_progress(stored: bytes) -> Progress:
    """Raises ValueError for bytes that are no progress of this version."""
    _require_size(stored)
    try:
        found = _decode(stored)
    except _UNREADABLE as error:
        raise ValueError(str(error)) from error
    if found.v != _VERSION:
        raise ValueError(f"version {found.v}, and this kubedelta reads version {_VERSION}")
    return found


def decode_part(stored: bytes) -> BeyondPart:
    """Raises ValueError."""
    _require_size(stored)
    try:
        return _decode_part(stored)
    except _UNREADABLE as error:
        raise ValueError(str(error)) from error


def _require_size(stored: bytes) -> None:
    if len(stored) > LARGEST:
        raise ValueError(f"{len(stored)} bytes, and {LARGEST} are the most")
