"""The mark: a small file beside the database, by which a process that loses the database informs the next start."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Annotated

import msgspec

from bridge.outbox.storage.directory_lock import open_private

NAME = "outbox.db.damaged"
_LARGEST = 64 * 1024
_UNKNOWN = "unknown damage"


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """Makes the next start move the database aside and begin behind these numbers, with a Gap."""

    reason: str = _UNKNOWN
    last: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)] | None = None
    """The largest sequence number with which a record can have left; None if unknown."""
    epoch: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] | None = None
    """Upper bound of the epochs begun; None if unknown."""


def leave(directory: int, mark: Mark) -> bool:
    """Writes the mark and syncs the file and the directory, as far as the disk allows: a full disk has room for the
    name, not for the content. Returns True if a mark exists afterwards. ``directory`` is a descriptor."""
    try:
        file = open_private(directory, NAME, os.O_WRONLY | os.O_CREAT)
    except OSError:
        return False
    try:
        content = msgspec.json.encode(mark)
        with suppress(OSError):
            os.pwrite(file, content, 0)  # Over an older mark, without O_TRUNC: on a full disk the old one stays.
            os.ftruncate(file, len(content))
            os.fsync(file)
            os.fsync(directory)
    finally:
        os.close(file)
    return True


def found(directory: int) -> Mark | None:
    """The mark of an earlier process; None without a mark. Raises StateUnusable."""
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
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # A bit flip must not hide the mark.
        return Mark(content.decode(errors="replace") or _UNKNOWN)
