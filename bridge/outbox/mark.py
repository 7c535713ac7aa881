"""What a process that loses its database leaves for the next start: a small file beside it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Annotated

import msgspec

from bridge.outbox.private import open_private

NAME = "outbox.db.damaged"
_LARGEST = 64 * 1024
_UNKNOWN = "unknown damage"


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The next start moves aside whatever database it finds, and begins behind these numbers with a Gap."""

    reason: str = _UNKNOWN
    last: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)] | None = None
    """The newest sequence number that was given; None where it was not known."""
    epoch: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] | None = None
    """The newest epoch that may have begun."""


def leave(directory: int, mark: Mark) -> bool:
    """Durably, as far as the disk lets: on a full one there is room for the name, and none for what is in it. Whether
    a mark lies there now. ``directory`` is a descriptor."""
    try:
        file = open_private(directory, NAME, os.O_WRONLY | os.O_CREAT)
    except OSError:
        return False
    try:
        content = msgspec.json.encode(mark)
        with suppress(OSError):
            os.pwrite(file, content, 0)  # In place of an older one: on a full disk that one is better than nothing.
            os.ftruncate(file, len(content))
            os.fsync(file)
            os.fsync(directory)
    finally:
        os.close(file)
    return True


def found(directory: int) -> Mark | None:
    """What an earlier process left. Raises StateUnusable."""
    try:
        file = open_private(directory, NAME, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        content = os.pread(file, _LARGEST, 0)
    finally:
        os.close(file)
    try:
        return msgspec.json.decode(content, type=Mark)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # Bits flip in this file, too.
        return Mark(content.decode(errors="replace") or _UNKNOWN)
