"""How far a sink has come, as its destination stores it, in one transaction with the records."""

from __future__ import annotations

import msgspec

LARGEST = 1 << 20
"""Bytes of a progress that is read back."""
_VERSION = 1


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Everything up to here is stored, together with this value. But for ``term`` it means something only to the state
    directory that numbered the records, and to copies of it."""

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
    """The memory of the sink after the transaction (``Receipt.memory``)."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Progress).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def encode_progress(progress: Progress) -> bytes:
    return _encode(progress)


def decode_progress(stored: bytes) -> Progress:
    """Raises ValueError for bytes that are no progress of this version."""
    if len(stored) > LARGEST:
        raise ValueError(f"{len(stored)} bytes, and {LARGEST} are the most")
    try:
        found = _decode(stored)
    except _UNREADABLE as error:
        raise ValueError(str(error)) from error
    if found.v != _VERSION:
        raise ValueError(f"version {found.v}, and this kubedelta reads version {_VERSION}")
    return found
