"""Seals, compresses and removes closed parts, on a thread of its own. The folder is its queue, also over a restart."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import zstandard
from kubedelta_reader.sources.lines import DAMAGED, blocks_of
from kubedelta_reader.sources.parts import ClosedPart, parts_of

from sinks.file.connection import sync_folder
from sinks.file.options import PartCompression, Rotation
from sinks.file.parts import TEMPORARY, PartRetention, leftovers_of, private, unread
from sinks.file.seals import Seals, seal_key

_CHUNK = 256 * 1024
"""Bytes. A stop waits for the compression of one chunk, or for the hash of a smaller one."""
_RETRY = 60.0
"""Seconds until the next try after an error, such as a full disk."""


class _Stopped(Exception):
    pass


class ClosedParts:
    """Keeps the closed parts of a file as the options want them. A failure never reaches the deliveries: the part stays
    as it is, and its turn comes again at the next rotation, after a minute, and at the next start."""

    def __init__(self, path: Path, rotation: Rotation, name: str) -> None:
        """Begins with the parts that are there. ``name``: of the sink. Raises WrongOption for the key of seals."""
        self._path = path
        self._rotation = rotation
        self._retention = PartRetention(rotation)
        self._seals = Seals(path, seal_key(rotation), self._end_if_stopped) if rotation.seal else None
        self._awake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sink-{name}-parts")
        self._thread.start()

    def wake(self) -> None:
        """A part was closed."""
        self._awake.set()

    def close(self) -> None:
        """Ends the thread. A part whose compression breaks off stays plain until the next start."""
        self._stopped.set()
        self._awake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._awake.clear()
            try:
                pause = self._work()
            except _Stopped:
                return
            except OSError:
                pause = _RETRY
            if not self._stopped.is_set():
                self._awake.wait(pause)

    def _work(self) -> float | None:
        """Seconds until there is something to do again; None if that depends on the next rotation."""
        for leftover in leftovers_of(self._path):
            leftover.unlink()
        succeeded = self._seal()
        succeeded &= self._remove_surplus(by_size=False)
        if self._rotation.compression is PartCompression.ZSTD:
            for part in parts_of(self._path):
                if part.is_own and not part.packed:
                    try:
                        self._compress(part.path)
                    except (OSError, zstandard.ZstdError):
                        succeeded = False
        # Also after an error: on a full disk the removal makes room for the next try.
        succeeded &= self._remove_surplus(by_size=True)
        return self._retention.due_in(self._own_parts()) if succeeded else _RETRY

    def _seal(self) -> bool:
        """False if a part has none for now. What is to be removed goes on: that makes room."""
        try:
            return self._seals is None or self._seals.seal(self._own_parts())
        except OSError:
            return False

    def _end_if_stopped(self) -> None:
        if self._stopped.is_set():
            raise _Stopped

    # ── Retention ────────────────────────────────────────────────────────────

    def _own_parts(self) -> list[ClosedPart]:
        return [part for part in parts_of(self._path) if part.is_own]

    def _remove_surplus(self, *, by_size: bool) -> bool:
        """Removes parts from the oldest on. False if a reader, or an error, keeps one for now."""
        if not self._retention.is_bounded:
            return True
        for part in self._retention.surplus(self._own_parts(), by_size=by_size):
            self._end_if_stopped()
            try:
                if not self._remove(part):
                    return False
            except FileNotFoundError:
                continue  # Somebody else removed it.
            except OSError:
                return False
        return True

    def _remove(self, part: ClosedPart) -> bool:
        """A kill in between leaves the part with one of its names, for the next removal. False if a reader needs it."""
        with unread(part.path) as is_free:
            if not is_free and self._retention.may_stay(part):
                return False
            packed = part.path.with_name(f"{part.path.name}.zst")
            has_both = not part.packed and os.path.lexists(packed)
            if has_both and not self._has_content_of(packed, part.path):
                return True  # A file of somebody else, which is left alone, and the part with it.
            if self._seals is not None:
                self._seals.removing(part)
            if has_both:
                packed.unlink()
            part.path.unlink()
            return True

    # ── Compression ──────────────────────────────────────────────────────────

    def _compress(self, plain: Path) -> None:
        """At every moment the plain part or the whole compressed part has its final name, and is on the disk."""
        packed = plain.with_name(f"{plain.name}.zst")
        if os.path.lexists(packed):
            # A kill came between the last two steps. Otherwise the file is somebody else's, and left alone.
            if self._has_content_of(packed, plain):
                _unlink_unread(plain)
            return
        with _unlocked(plain):
            pass  # Otherwise the plain part would stay beside the compressed one, and readers of the folder see both.
        temporary = packed.with_name(packed.name + TEMPORARY)
        with plain.open("rb") as source, open(temporary, "xb", opener=private) as target:
            try:
                self._pack(source, target)
                if os.path.lexists(packed):
                    raise FileExistsError(packed)
                temporary.rename(packed)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
        sync_folder(self._path.parent)
        _unlink_unread(plain)

    def _pack(self, source: BinaryIO, target: BinaryIO) -> None:
        status = os.fstat(source.fileno())
        compressor = zstandard.ZstdCompressor(level=self._rotation.compression_level, write_checksum=True)
        frame = compressor.compressobj(size=status.st_size)
        target.writelines(frame.compress(chunk) for chunk in iter(lambda: self._chunk(source), b""))
        target.write(frame.flush())
        target.flush()
        os.fchmod(target.fileno(), stat.S_IMODE(status.st_mode))
        os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(target.fileno())

    def _chunk(self, source: BinaryIO) -> bytes:
        self._end_if_stopped()
        return source.read(_CHUNK)

    def _has_content_of(self, packed: Path, plain: Path) -> bool:
        if not stat.S_ISREG(packed.lstat().st_mode):
            return False
        with plain.open("rb") as source, packed.open("rb") as file:
            try:
                for block in blocks_of(file, ".zst"):
                    self._end_if_stopped()
                    if source.read(len(block)) != block:
                        return False
            except DAMAGED:
                return False
            return not source.read(1)


@contextmanager
def _unlocked(plain: Path) -> Iterator[None]:
    """Raises BlockingIOError while a reader has locked the plain part, or the writer, which gives its lock back right
    behind the rename."""
    with unread(plain) as is_free:
        if not is_free:
            raise BlockingIOError(f"{plain} is locked")
        yield


def _unlink_unread(plain: Path) -> None:
    """Raises BlockingIOError while a reader has locked the plain part: the lock would be lost with it."""
    with _unlocked(plain):
        plain.unlink()
