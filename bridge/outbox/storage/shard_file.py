"""The file with the shard whose objects the state has. A state of all objects has no such file.

Another number of shards begins new states, and every object comes once more. A single process carries more than an API
server sends, so shards are for the very largest clusters, which choose their number once. To hand positions, dead
letters and progress from old shards to new ones would take a protocol of its own.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from bridge.model.primitives.shard import Shard
from bridge.outbox.errors import StateUnusable
from bridge.outbox.storage.directory_lock import open_private

NAME = "shard"
_UNFINISHED = f"{NAME}.new"
_LARGEST = 1024
_decode = msgspec.json.Decoder(Shard).decode


def found(directory: int) -> Shard | None:
    """The shard; None without the file. ``directory`` is a descriptor. Raises StateUnusable."""
    try:
        file = open_private(directory, NAME, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return _decode(os.pread(file, _LARGEST, 0))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateUnusable(
            f"state.directory: the file {NAME} cannot be read ({error}): restore it from a backup, such as "
            '{"of":4,"index":2,"by":"uid"}'
        ) from error
    finally:
        os.close(file)


def found_in(directory: Path) -> Shard | None:
    """The same for a directory that another process may hold. Raises StateUnusable and OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return found(descriptor)
    finally:
        os.close(descriptor)


def leave(directory: int, shard: Shard | None) -> None:
    """Writes the file, or removes it. A kill leaves the former file or the new one; durable on return. Raises
    OSError."""
    with suppress(FileNotFoundError):
        os.unlink(_UNFINISHED if shard is not None else NAME, dir_fd=directory)
    if shard is not None:
        file = open_private(directory, _UNFINISHED, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            os.write(file, msgspec.json.encode(shard))
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(_UNFINISHED, NAME, src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)
