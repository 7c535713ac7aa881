"""Reads the API server's audit log through its rotations, from a position on.

kube-apiserver renames its file when it is full, to ``audit-<time>.log`` beside it, may compress that (``.log.gz``), and
begins another one (lumberjack's names). A file is known by its first line, which has an audit id of its own, so a
position survives renaming and compression.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import msgspec

LONGEST_LINE = 64 << 20
"""Bytes. An event has the bodies of a request and of its answer, of some 3 MiB each at most."""


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Behind the last line that was read."""

    first: str = ""
    """SHA-256 of the first line of the file; empty before the oldest file."""
    offset: int = 0
    """Bytes of the file, uncompressed."""

    @classmethod
    def parsed(cls, position: bytes) -> Position:
        """What ``encoded`` returned; empty for the beginning. Raises ValueError."""
        try:
            return _decode(position) if position else cls()
        except msgspec.MsgspecError as error:
            raise ValueError(f"no position of an audit log: {error}") from error

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


_decode = msgspec.json.Decoder(Position).decode


@dataclass(slots=True)
class AuditLog:
    """Belongs to one thread: every method blocks."""

    path: Path
    position: Position
    lost: bool = False
    """The file of a position was gone, so events may be missing."""
    too_long: int = 0
    """Lines that were passed over."""

    def lines(self) -> Iterator[bytes]:
        """The lines from ``position`` to the present end; behind each, ``position`` is behind it. A last line without
        its newline waits for its rest, and is passed over once another file has begun: the API server was killed.
        Raises OSError, and EOFError or zlib.error for a damaged compressed file."""
        for path, first in self._unread():
            try:
                file = _opened(path)
            except FileNotFoundError:
                return  # It was renamed a moment ago: the next call finds it.
            with file:
                if _first_line(file) != first:
                    return
                offset = self.position.offset if first == self.position.first else 0
                file.seek(offset)
                self.position = Position(first, offset)
                yield from self._whole_lines(file, first)

    def _whole_lines(self, file: IO[bytes], first: str) -> Iterator[bytes]:
        is_too_long = False
        while part := file.readline(LONGEST_LINE):
            if not part.endswith(b"\n"):
                if len(part) < LONGEST_LINE:
                    return
                is_too_long = True
                continue
            self.position = Position(first, file.tell())
            if is_too_long:
                self.too_long += 1
                is_too_long = False
            else:
                yield part

    def _unread(self) -> Sequence[tuple[Path, str]]:
        """The files with a line, oldest first: that of the position, and those behind it."""
        found = [(path, first) for path in self._files() if (first := _first_line_of(path))]
        known = [first for _, first in found]
        if self.position.first in known:
            return found[known.index(self.position.first) :]
        if self.position.first and found:
            self.lost = True
        return found

    def _files(self) -> Sequence[Path]:
        # While a file is compressed there are both; the whole one comes last here, and counts.
        by_name = {each.name.removesuffix(".gz"): each for each in (*renamed(self.path, ".gz"), *renamed(self.path))}
        return [*(by_name[name] for name in sorted(by_name)), self.path]


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3,6}", re.ASCII)


def renamed(path: Path, end: str = "") -> Sequence[Path]:
    """The files that this one was renamed to when it was full, the oldest first. Names of another form are others'."""
    before, behind = f"{path.stem}-", f"{path.suffix}{end}"
    found = path.parent.glob(f"{glob.escape(before)}*{glob.escape(behind)}")
    return sorted(each for each in found if _TIME.fullmatch(each.name.removeprefix(before).removesuffix(behind)))


def _first_line_of(path: Path) -> str:
    """See ``Position.first``; empty for a file that is gone, or has no whole line yet."""
    try:
        with _opened(path) as file:
            return _first_line(file)
    except (FileNotFoundError, EOFError, gzip.BadGzipFile):
        return ""


def _opened(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _first_line(file: IO[bytes]) -> str:
    line = file.readline(LONGEST_LINE)
    return hashlib.sha256(line).hexdigest() if line.endswith(b"\n") else ""
