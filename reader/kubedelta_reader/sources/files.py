"""The files of a file sink: ``FileSource`` gives their lines once and in order, while the file is closed as a part,
moved (by logrotate, too), compressed, removed or truncated.

``FileLines`` blocks and knows the rotations: it reads the closed parts from the oldest on, then the open file, and a
last line without its newline when its rest is there. ``FileSource`` runs it in threads, a batch of lines at a time.

A position names a file by its first line, which has an id of its own, and not by a name or an inode: a closed part gets
another name, and a compressed one another inode.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec
from msgspec.structs import replace

from kubedelta_reader.events import Record
from kubedelta_reader.sources.lines import (
    DAMAGED,
    blocks_between,
    blocks_of,
    end_of_last_line,
    first_line,
    skipped,
    whole_lines,
)
from kubedelta_reader.sources.parts import ClosedPart, Parts, parts_of
from kubedelta_reader.sources.source import NoDestination, Source, Unavailable, place_in

Hold: TypeAlias = Callable[[Path | None], None]

_BATCH = 1000
_BATCH_BYTES = 4 << 20
"""With so many bytes a batch ends: lines may have megabytes."""


class FileSource(Source):
    """See Source. A damaged part and a line that is too long are Records without data."""

    def __init__(
        self, path: Path | str, *, strict: bool = False, hold: Hold | None = None, parts: Parts = parts_of
    ) -> None:
        """``strict``: a damaged part ends the reading. ``hold`` and ``parts``: see FileLines."""
        self._path = Path(path)
        self._strict = strict
        self._lines = FileLines(self._path, hold, parts)
        self._closed = False
        """Threads ask: whoever waited for one may have been cancelled, and the process cannot end before it."""

    async def open(self) -> str:
        return await asyncio.to_thread(self._lines.open)

    async def resume(self, position: bytes) -> None:
        if position:
            place = place_in(position, Place)
            with self._readable():
                await asyncio.to_thread(self._lines.resume, place)

    async def read(self) -> AsyncGenerator[Sequence[Record]]:
        lines = self._chosen(self._lines.lines() if self._strict else self._lines.undamaged())
        with self._readable():
            while batch := await asyncio.to_thread(_batch_of, lines):
                yield batch

    @property
    def position(self) -> bytes:
        place = self._lines.place
        return msgspec.json.encode(place) if place.file else b""

    @property
    def lost(self) -> bool:
        return bool(self._lines.removed)

    @property
    def notes(self) -> Sequence[str]:
        notes = [f"{name} was removed before it was read" for name in self._lines.removed]
        if self._lines.torn:
            notes.append(f"{self._path} ends with a torn line of {self._lines.torn} bytes, which is not counted")
        return notes

    async def close(self) -> None:
        self._closed = True
        self._lines.close()

    def _expect_open(self) -> None:
        if self._closed:
            raise Unavailable(f"{self._path} is no longer read")

    def _chosen(self, lines: Iterator[bytes | None]) -> Iterator[bytes | None]:
        for line in lines:
            self._expect_open()
            yield line

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, *DAMAGED) as error:
            raise Unavailable(f"cannot read {self._path}: {error}") from error


def _batch_of(lines: Iterator[bytes | None]) -> list[Record]:
    batch: list[Record] = []
    size = 0
    for line in islice(lines, _BATCH):
        batch.append(Record(line))
        size += len(line or b"")
        if size >= _BATCH_BYTES:
            break
    return batch


# ── Positions ────────────────────────────────────────────────────────────────


class Place(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A place in one of the files."""

    file: str = ""
    """A digest of its first line; empty in front of everything."""
    offset: int = 0
    """Bytes of its lines, unpacked, that were read."""


# ── Lines through rotations ──────────────────────────────────────────────────


class FileLines:
    """Reads the lines of the closed parts and of the open file, in their order, each line once. A last line without its
    newline waits for its rest. None stands for a line that is too long.

    The file stays open while it is moved, compressed or removed, and is left only when its successor has a line: until
    then its writer may append to it.
    """

    def __init__(self, path: Path, hold: Hold | None = None, parts: Parts = parts_of) -> None:
        """``hold`` is called with the closed part that is read next, and with None at the end: it may keep the parts
        that are not read yet. ``parts``: finds the closed parts."""
        self._path = path
        self._hold = hold
        self._parts_of = parts
        self._file: BinaryIO | None = None
        """The file that was at the path last; None before the first."""
        self._unread: deque[ClosedPart] = deque()
        """Closed parts to read before the file."""
        self._place = Place()
        """In the first unread part, or in the file if there is none."""
        self._former = Place()
        """The end of the file before it that had a line."""
        self._known: set[str] | None = None
        """Parts of the sink that lie before the file; None before the first listing."""
        self.torn = 0
        """Bytes behind the last newline."""
        self.removed: list[str] = []
        """Names of parts that were removed before they were read."""

    def open(self) -> str:
        """Returns a short description. Raises NoDestination without any file in the folder, and Unavailable without the
        folder and for a file that is not regular."""
        path = self._path
        missing = f"there is no file {path}: no record was delivered yet, or path is wrong"
        try:
            if path.exists() and not stat.S_ISREG(path.stat().st_mode):
                raise Unavailable(f"{path} is not a regular file and cannot be read again")
            if path.parent.is_dir():
                if not path.exists() and not self._parts_of(path):
                    raise NoDestination(missing)
                self._open_next()
            size = 0 if self._file is None else os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise Unavailable(f"cannot read {path}: {error.strerror}") from error
        if self._file is None and not self._unread:
            raise Unavailable(missing)
        parts = len(self._unread)
        closed = f" and {parts} closed part{'s' if parts > 1 else ''}" if parts else ""
        return f"{path}, {size} bytes{closed}"

    @property
    def place(self) -> Place:
        """Behind the last line that was given."""
        return self._place if self._place.offset else self._former

    def resume(self, place: Place) -> None:
        """``lines`` begins at this place of an earlier reader. Call it behind ``open``. If the file of the place was
        removed, it begins with the oldest part. Raises OSError."""
        if self._file is not None and _digest(first_line(self._file.fileno())) == place.file:
            self._unread.clear()
        else:
            found = next((part for part in reversed(self._unread) if self._beginning_of(part) == place.file), None)
            if found is None:
                self.removed.append("the rest of the file that was read last")
                return
            while self._unread[0] is not found:
                self._unread.popleft()
        self._place = place
        self._hold_unread()

    def skip(self) -> tuple[Sequence[ClosedPart], BinaryIO | None]:
        """Goes behind the last line that is there. Returns the closed parts and the file that were not read."""
        parts = [*self._unread]
        self._unread.clear()
        if self._file is not None:
            fd = self._file.fileno()
            self._place = Place(_digest(first_line(fd)), end_of_last_line(fd, os.fstat(fd).st_size))
        return parts, self._file

    def lines(self) -> Iterator[bytes | None]:
        """From the end of the previous call to the present end; the first call begins with the oldest part. Raises
        OSError, ``lines.DAMAGED``; the next call goes on behind the lines before the error."""
        while True:
            yield from self._closed()
            yield from self._appended()
            if not self._has_successor():
                return
            yield from self._appended()  # Lines that were written before the successor began.
            self._open_next()

    def undamaged(self) -> Iterator[bytes | None]:
        """Like ``lines``, with None for the rest of a part that is damaged: the parts behind it are read all the same.
        Raises OSError."""
        while True:
            try:
                yield from self.lines()
            except DAMAGED:
                self._leave_part()
                yield None
            else:
                return

    def close(self) -> None:
        self._close_file()
        if self._hold is not None:
            self._hold(None)

    def _advancing(self, lines: Iterator[tuple[bytes | None, int]]) -> Iterator[bytes | None]:
        """The lines of the present file; the place goes with them."""
        name, offset = self._place.file, self._place.offset
        for line, length in lines:
            name = name if offset else _digest(line or b"")
            offset += length
            self._place = Place(name, offset)
            yield line

    # ── The open file ────────────────────────────────────────────────────────

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()

    def _appended(self) -> Iterator[bytes | None]:
        if self._file is None:
            return
        fd = self._file.fileno()
        size = os.fstat(fd).st_size
        if size < self._place.offset:
            # Its writer took back a batch that it could not finish; or all was truncated (logrotate's copytruncate).
            if _digest(first_line(fd)) == self._place.file:
                self._place = replace(self._place, offset=end_of_last_line(fd, size))
            else:
                self._leave()
        yield from self._advancing(whole_lines(blocks_between(fd, self._place.offset, size)))
        self.torn = size - self._place.offset

    def _has_successor(self) -> bool:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return bool(self._newer(self._parts_of(self._path)))
        if self._file is None:
            return True
        if os.path.samestat(there, os.fstat(self._file.fileno())):
            return False
        return there.st_size > 0 or bool(self._newer(self._parts_of(self._path)))

    def _open_next(self) -> None:
        """Opens the file at the path, with the parts between the former file and this one."""
        while True:
            parts = self._parts_of(self._path)
            newer = self._newer(parts)
            try:
                file = _opened(self._path)
            except FileNotFoundError:
                file = None
            # The file may have been closed as a part since the listing.
            if [part.stem for part in self._parts_of(self._path)] == [part.stem for part in parts]:
                break
            if file is not None:
                file.close()
        self._close_file()
        self._file = file
        self._leave()
        self._unread.extend(newer)
        self._known = {part.stem for part in parts if part.is_own}
        self._hold_unread()

    def _newer(self, parts: list[ClosedPart]) -> list[ClosedPart]:
        """The parts behind the followed file. If that was removed, the unknown parts of the sink."""
        if self._known is None:
            return parts
        unknown = [part for part in parts if part.stem not in self._known]
        ours = next((place for place, part in enumerate(unknown) if self._is_followed(part)), None)
        if ours is not None:
            return unknown[ours + 1 :]
        # logrotate numbers its parts anew, so that an old one may look unknown.
        return [part for part in unknown if part.is_own]

    def _is_followed(self, part: ClosedPart) -> bool:
        if self._file is None:
            return False
        fd = self._file.fileno()
        status = os.fstat(fd)
        if os.path.samestat(part.status, status):
            return True
        # gzip keeps the time of the file, and logrotate's names say nothing; lumberjack does not, and its names do.
        if not part.packed or not (part.is_own or int(part.status.st_mtime) == int(status.st_mtime)):
            return False
        return self._beginning_of(part) == _digest(first_line(fd))

    # ── Closed parts ─────────────────────────────────────────────────────────

    def _closed(self) -> Iterator[bytes | None]:
        while self._unread:
            yield from self._advancing(self.part_lines(self._unread[0], self._place.offset))
            self._leave_part()

    def _leave_part(self) -> None:
        self._unread.popleft()
        self._leave()
        self._hold_unread()

    def _leave(self) -> None:
        self._former, self._place = self.place, Place()

    def _hold_unread(self) -> None:
        if self._hold is not None:
            self._hold(self._unread[0].path if self._unread else None)

    def _beginning_of(self, part: ClosedPart) -> str | None:
        """The digest of its first line; None for a part that is damaged before the end of that."""
        with suppress(*DAMAGED):
            line, _ = next(self.part_lines(part), (None, 0))
            return _digest(line or b"")
        return None

    def part_lines(self, part: ClosedPart, offset: int = 0) -> Iterator[tuple[bytes | None, int]]:
        """From an offset on, with their lengths. Raises OSError, ``lines.DAMAGED``."""
        present: ClosedPart | None = part
        while present is not None:
            try:
                file = _opened(present.path)
            except FileNotFoundError:  # Compressed since the listing, numbered anew, or removed.
                present = self._present(part)
                continue
            with file:
                if not os.path.samestat(os.fstat(file.fileno()), present.status):
                    present = self._present(part)
                    continue
                yield from whole_lines(skipped(blocks_of(file, present.packed), offset))
            return
        self.removed.append(part.path.name)

    def _present(self, part: ClosedPart) -> ClosedPart | None:
        """The part under its present name."""
        for each in self._parts_of(self._path):
            if os.path.samestat(each.status, part.status) or (part.is_own and each.stem == part.stem):
                return each
        return None


def _opened(path: Path) -> BinaryIO:
    """At once: where somebody has put a pipe in place of the file, it is an empty one. Raises OSError."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def _digest(first_line: bytes) -> str:
    return hashlib.sha256(first_line).hexdigest()[:32]
