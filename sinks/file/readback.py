"""Reads the lines of a file, and of the parts that logrotate moved aside."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import stat
import zlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from bridge.model.change import Op
from bridge.model.formats.object_paths import partition_key
from bridge.model.versions.stored_version import (
    FOREIGN,
    CannotReadBack,
    ReadFilter,
    StoredKind,
    StoredVersion,
    stored_version_of,
)
from sinks.errors import SinkUnavailable
from sinks.file.options import STANDARD_OUTPUT, FileOptions
from sinks.options import Format

MAX_LINE = 64 * 1024 * 1024
"""Bytes. A longer line is skipped: it cannot be a delta, because etcd takes objects of 1.5 MiB."""
_BATCH = 1000
_ROTATED = re.compile(r"(?:\.(?P<number>\d+)|-(?P<date>\d{8}(?:-?\d+)?))(?P<packed>\.gz)?")
"""Suffixes of logrotate: a number, the smallest for the newest part, or with ``dateext`` a date."""
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_OPS = {"c": Op.ADDED, "u": Op.UPDATED, "d": Op.DELETED, "r": Op.SYNC}
_ROW_OPS = {op.value: op for op in Op}


class _Source(msgspec.Struct):
    """The ``source`` of an envelope."""

    cluster: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resourceversion: str = ""
    gap: str = ""


class _Line(msgspec.Struct):
    """The attributes of a CloudEvent, an envelope or a row, without the object in it."""

    op: str = ""
    source: str | _Source = ""
    type: str = ""
    partitionkey: str = ""
    uid: str = ""
    resourceversion: str = ""
    cluster: str = ""
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    resource_version: str = ""
    gap: str | None = None

    @property
    def is_row(self) -> bool:
        return not self.type and all((self.cluster, self.resource, self.name, self.uid, self.resource_version))


_decode = msgspec.json.Decoder(_Line).decode


def _version_of(event: _Line) -> StoredVersion:
    source = event.source
    if event.is_row:
        key = partition_key(event.cluster, event.group, event.resource, event.namespace, event.name)
        op = _ROW_OPS.get(event.op)
        return StoredVersion(StoredKind.OBJECT, key, op, event.uid, event.resource_version) if op else FOREIGN
    if isinstance(source, str):
        attributes = ("type", "partitionkey", "op", "uid", "resourceversion")
        return stored_version_of({name: getattr(event, name) for name in attributes})
    if (op := _OPS.get(event.op)) is None:
        return FOREIGN
    key = partition_key(source.cluster, source.group, source.resource, source.namespace, source.name)
    return StoredVersion(StoredKind.OBJECT, key, op, source.uid, source.resourceversion)


class Lines:
    """Reads lines of CloudEvents, envelopes and rows: the option ``format`` may have changed in between."""

    def __init__(self) -> None:
        self._gap = ""

    def versions_in(self, line: bytes | None) -> Iterator[StoredVersion]:
        """``line``: None for a line that is too long. A gap among envelopes or rows has no line: a line that names
        another gap than the line before it gives that gap too."""
        try:
            event = _decode(line or b"")
        except _UNREADABLE:
            yield FOREIGN
            return
        named = event.source if isinstance(event.source, _Source) else event if event.is_row else None
        if named and named.gap and named.gap != self._gap:
            self._gap = named.gap
            yield StoredVersion(StoredKind.GAP, named.cluster)
        yield _version_of(event)


class FileReadBack:
    """The file stays open between two ``read``s, so that lines are not missed that are appended while the file
    is moved away. A file that became shorter (logrotate's ``copytruncate``) is read from its beginning."""

    def __init__(self, name: str, options: FileOptions, *, cluster: str) -> None:
        self._path = options.path
        self._format = options.format
        self._file: BinaryIO | None = None
        self._begun = False
        self._torn = 0
        self._lines = Lines()
        self._parts: list[Path] = []

    async def open(self) -> str:
        return await asyncio.to_thread(self._open)

    async def read(self, sought: Sequence[ReadFilter]) -> AsyncGenerator[Sequence[StoredVersion]]:
        lines = self._versions()
        try:
            while batch := await asyncio.to_thread(lambda: list(islice(lines, _BATCH))):
                yield batch
        except (OSError, EOFError, zlib.error) as error:
            raise SinkUnavailable(f"cannot read {self._path}: {error}") from error

    @property
    def notes(self) -> Sequence[str]:
        if not self._torn:
            return ()
        return (f"{self._path} ends with a torn line of {self._torn} bytes, which is not counted",)

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> str:
        path = self._path
        if path == STANDARD_OUTPUT:
            raise CannotReadBack("standard output cannot be read again")
        if self._format is Format.RAW:
            raise CannotReadBack("format raw has no operations: deleted and present objects look the same")
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise CannotReadBack(f"{path} is not a regular file and cannot be read again")
            self._file = path.open("rb")
            found = os.fstat(self._file.fileno())
            parts = rotated_parts(path)
        except FileNotFoundError:
            raise SinkUnavailable(f"there is no file {path}: no record was delivered yet, or path is wrong") from None
        except OSError as error:
            raise SinkUnavailable(f"cannot read {path}: {error.strerror}") from error
        # The file may have been moved aside since it was opened: then it is one of the parts.
        self._parts = [part for part, status in parts if not os.path.samestat(status, found)]
        rotated = f" and {len(self._parts)} rotated parts" if self._parts else ""
        return f"{path}, {found.st_size} bytes{rotated}"

    def _versions(self) -> Iterator[StoredVersion]:
        if not self._begun:
            for part in self._parts:
                with part.open("rb") if part.suffix != ".gz" else cast("BinaryIO", gzip.open(part)) as file:
                    for line in _lines(file, None):
                        yield from self._lines.versions_in(line)
            self._begun = True
        yield from self._appended()
        while self._moved_on():
            yield from self._appended()

    def _appended(self) -> Iterator[StoredVersion]:
        file = self._opened()
        size = os.fstat(file.fileno()).st_size
        if size < file.tell():
            file.seek(0)
        for line in _lines(file, size):
            yield from self._lines.versions_in(line)
        self._torn = max(0, size - file.tell())

    def _moved_on(self) -> bool:
        """If another file has taken the path since, opens that file and returns True."""
        file = self._opened()
        try:
            newer = self._path.open("rb")
        except FileNotFoundError:
            return False
        if os.path.samestat(os.fstat(newer.fileno()), os.fstat(file.fileno())):
            newer.close()
            return False
        file.close()
        self._file = newer
        return True

    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise RuntimeError("read() before open()")
        return self._file


def rotated_parts(path: Path) -> list[tuple[Path, os.stat_result]]:
    """The parts with their status, oldest first."""
    found = []
    for each in path.parent.iterdir():
        match = each.name.startswith(path.name) and _ROTATED.fullmatch(each.name, len(path.name))
        if match and each.is_file():
            order = (1, -int(match["number"]), "") if match["number"] else (0, 0, match["date"])
            found.append((order, each))
    return [(each, each.stat()) for _, each in sorted(found)]


def _lines(file: BinaryIO, end: int | None) -> Iterator[bytes | None]:
    """Whole lines up to the offset ``end`` (None: the end of the file); None in place of a line that is too long.
    Leaves the file's position behind the last newline."""
    while end is None or file.tell() < end:
        start = file.tell()
        line = file.readline(MAX_LINE)
        too_long = len(line) == MAX_LINE
        while too_long and line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)
        if not line.endswith(b"\n"):
            file.seek(start)
            return
        yield None if too_long else line
