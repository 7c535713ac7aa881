"""Reads a sink's file and its closed parts again: ``FileReadBack`` for ``kubedelta verify``, ``FileFollower`` for
``kubedelta tail``.

Both take their lines from a ``Follower``, which knows the rotations. The read-back holds a lock on the part that comes
next and decodes the version in each line; a damaged part ends it. The follower takes no lock, and goes on behind a
damaged part.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice

import msgspec

from bridge.model.change import Op
from bridge.model.formats.envelope import OP_OF_CODE
from bridge.model.formats.object_paths import partition_key
from bridge.model.primitives.printable import counted
from bridge.model.versions.followed_record import FollowedRecord, record_in
from bridge.model.versions.stored_version import (
    FOREIGN,
    CannotReadBack,
    ReadFilter,
    StoredKind,
    StoredVersion,
    stored_version_of,
)
from sinks.file.follow import Follower
from sinks.file.lines import DAMAGED, UNREADABLE
from sinks.file.options import STANDARD_OUTPUT, FileOptions
from sinks.file.parts import ReadingLock, parts_of
from sinks.options import Format
from sinks.receipt import SinkUnavailable

_BATCH = 1000
_ROW_OPS = {op.value: op for op in Op}


# ── For verify ───────────────────────────────────────────────────────────────


class _Source(msgspec.Struct):
    """The ``source`` of an envelope."""

    db: str
    schema: str = ""
    table: str = ""
    namespace: str = ""
    objectname: str = ""
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
    if (op := OP_OF_CODE.get(event.op)) is None:
        return FOREIGN
    key = partition_key(source.db, source.schema, source.table, source.namespace, source.objectname)
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
        except UNREADABLE:
            yield FOREIGN
            return
        source = event.source
        gap, cluster = (event.gap, event.cluster) if isinstance(source, str) else (source.gap, source.db)
        if gap and gap != self._gap and (event.is_row or not isinstance(source, str)):
            self._gap = gap
            yield StoredVersion(StoredKind.GAP, cluster)
        yield _version_of(event)


class FileReadBack:
    """Follows the file through its rotations: between two ``read``s it may be closed as a part, moved away by
    logrotate, or become shorter (``copytruncate``: it is read from its beginning)."""

    def __init__(self, name: str, options: FileOptions, *, cluster: str) -> None:
        self._path = options.path
        self._format = options.format
        self._follower = Follower(options.path, ReadingLock())
        self._lines = Lines()

    async def open(self) -> str:
        return await asyncio.to_thread(self._open)

    async def read(self, sought: Sequence[ReadFilter]) -> AsyncGenerator[Sequence[StoredVersion]]:
        lines = (version for line in self._follower.lines() for version in self._lines.versions_in(line))
        try:
            while batch := await asyncio.to_thread(lambda: list(islice(lines, _BATCH))):
                yield batch
        except (OSError, *DAMAGED) as error:
            raise SinkUnavailable(f"cannot read {self._path}: {error}") from error

    @property
    def notes(self) -> Sequence[str]:
        notes = [f"{name} was removed before it was read" for name in self._follower.removed]
        if self._follower.torn:
            notes.append(f"{self._path} ends with a torn line of {self._follower.torn} bytes, which is not counted")
        return notes

    @property
    def left(self) -> int | None:
        return None  # Closed parts may be compressed.

    async def close(self) -> None:
        self._follower.close()

    def _open(self) -> str:
        path = self._path
        if path == STANDARD_OUTPUT:
            raise CannotReadBack("standard output cannot be read again")
        if self._format is Format.RAW:
            raise CannotReadBack("format raw has no operations: deleted and present objects look the same")
        if path.exists() and not path.is_file():
            raise CannotReadBack(f"{path} is not a regular file and cannot be read again")
        parts = self._follower.open()
        size = path.stat().st_size if path.exists() else 0
        return f"{path}, {size} bytes" + (f" and {counted(parts, 'closed part')}" if parts else "")


# ── For tail ─────────────────────────────────────────────────────────────────

_TOO_LONG = FollowedRecord(b"", foreign=True)


class FileFollower:
    """See RecordFollower. Goes on through rotations, those of logrotate too."""

    def __init__(self, _name: str, options: FileOptions, *, cluster: str) -> None:
        if options.path == STANDARD_OUTPUT:
            raise CannotReadBack("standard output cannot be read again")
        self._path = options.path
        self._follower = Follower(options.path)
        self._since = ""

    def open(self) -> bool:
        if self._path.parent.is_dir() and not self._path.exists() and not parts_of(self._path):
            return False
        self._follower.open()
        return True

    def last(self, count: int, accepts: Callable[[FollowedRecord], bool]) -> Sequence[FollowedRecord]:
        with self._readable():
            return [_record(line) for line in self._follower.last(count, lambda line: accepts(_record(line)))]

    def begin(self, since: datetime | None) -> None:
        """A record without a time counts as later."""
        if since is not None:
            moment = since.astimezone(UTC).isoformat(timespec="microseconds")
            self._since = f"{moment.removesuffix('+00:00')}Z"

    def news(self) -> Iterator[FollowedRecord]:
        with self._readable():
            for record in map(_record, self._lines()):
                if self._since and record.time and record.time < self._since:
                    continue
                self._since = ""  # A record behind may repeat an older time.
                yield record

    def close(self) -> None:
        self._follower.close()

    def _lines(self) -> Iterator[bytes | None]:
        """None also stands for the rest of a part that is damaged: the parts behind it are read all the same."""
        while True:
            try:
                yield from self._follower.lines()
            except DAMAGED:
                self._follower.leave_part()
                yield None
            else:
                return

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SinkUnavailable(f"cannot read {self._path}: {error}") from error


def _record(line: bytes | None) -> FollowedRecord:
    return _TOO_LONG if line is None else record_in(line)
