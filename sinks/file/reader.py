"""Reads a sink's file and its closed parts again, for ``kubedelta verify``, ``tail`` and ``history build``."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice

from kubedelta_reader import Record
from kubedelta_reader.sources.files import FileSource
from kubedelta_reader.sources.lines import DAMAGED

from sinks.file.lines import lines_backward, time_in
from sinks.file.options import STANDARD_OUTPUT, FileOptions
from sinks.file.parts import ReadingLock
from sinks.options import Format
from sinks.reader import ANY_OBJECT, CannotRead, ReadFilter, ReadPurpose


class FileReader(FileSource):
    """See RecordReader. For ``ReadPurpose.VERIFY`` a lock keeps the closed parts that are not read yet, for an hour at
    most, and a damaged part ends the reading."""

    def __init__(self, name: str, options: FileOptions, *, cluster: str, purpose: ReadPurpose) -> None:
        path = options.path
        judges = purpose is not ReadPurpose.TAIL
        if path == STANDARD_OUTPUT:
            raise CannotRead("standard output cannot be read again")
        if judges and options.format is Format.RAW:
            raise CannotRead("format raw has no operations: deleted and present objects look the same")
        if judges and path.exists() and not path.is_file():
            raise CannotRead(f"{path} is not a regular file and cannot be read again")
        self._since: float | None = None
        """Seconds since 1970; None once a line of that time or later was read: one behind it may repeat an older
        time."""
        verifies = purpose is ReadPurpose.VERIFY
        super().__init__(path, strict=verifies, hold=ReadingLock().move_to if verifies else None)

    async def begin(self, since: datetime | None) -> None:
        """A line without a time counts as later."""
        self._since = None if since is None else since.timestamp()

    async def last(self, count: int, accepts: Callable[[Record], bool]) -> Sequence[Record]:
        with self._readable():
            return await asyncio.to_thread(self._last, count, accepts)

    def read(self, sought: Sequence[ReadFilter] = ANY_OBJECT) -> AsyncGenerator[Sequence[Record]]:
        return super().read()

    def _chosen(self, lines: Iterator[bytes | None]) -> Iterator[bytes | None]:
        for line in super()._chosen(lines):
            if self._since is not None:
                time = None if line is None else time_in(line)
                if time is not None and time < self._since:
                    continue
                self._since = None
            yield line

    def _last(self, count: int, accepts: Callable[[Record], bool]) -> Sequence[Record]:
        """What lies behind the damage of a part is left out. Raises OSError."""
        found: deque[Record] = deque()

        def accepted(lines: Iterable[bytes | None]) -> Iterator[Record]:
            for line in lines:
                self._expect_open()
                if accepts(record := Record(line)):
                    yield record

        parts, file = self._lines.skip()
        if file is not None:
            fd = file.fileno()
            found.extendleft(islice(accepted(lines_backward(fd, os.fstat(fd).st_size)), count))
        for part in reversed(parts):
            if len(found) < count:
                newest: deque[Record] = deque(maxlen=count - len(found))
                with suppress(*DAMAGED):
                    newest.extend(accepted(line for line, _ in self._lines.part_lines(part)))
                found.extendleft(reversed(newest))
        return found
