"""Appends each batch of records as lines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from bridge.model.record import Record
from sinks.base import NamesGaps, Receipt, RetryLater, encode_each, receipt_of
from sinks.file.destination import AppendFailed, Destination, describe, open_destination
from sinks.file.encode import LineEncoder
from sinks.file.options import FileOptions


class FileSink(NamesGaps):
    """A record is stored when its whole line is on the disk (``fsync: batch``) or with the operating system.

    A batch that cannot be written, on a full disk for instance, is taken back: a file holds whole lines only, and the
    same lines come again later. What a cancelled ``deliver`` had begun is finished in the background, before anything
    else is written; its lines may be there twice then, with equal ids.
    """

    def __init__(self, name: str, options: FileOptions, *, cluster: str) -> None:
        self._options = options
        events = options.events(cluster)
        super().__init__(events)
        self._lines = LineEncoder(events, options.format)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"sink-{name}")
        self._destination: Destination | None = None

    async def open(self) -> None:
        opening = asyncio.get_running_loop().run_in_executor(self._thread, open_destination, self._options)
        self._destination = await opening

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        return self.note_gaps(batch, await self._deliver(batch))

    async def _deliver(self, batch: Sequence[Record]) -> Receipt:
        if self._destination is None:
            raise RuntimeError("deliver() before open()")
        lines, rejected = encode_each(batch, self._lines.line)
        places = list(lines)
        if not lines:
            return receipt_of(batch, rejected=rejected)
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._destination.append, list(lines.values()))
        except AppendFailed as error:
            trouble = RetryLater(str(error), whole=True)
            return receipt_of(batch, pending=places[error.kept :], trouble=trouble, rejected=rejected)
        except asyncio.CancelledError:
            self._destination.interrupt()
            raise
        return receipt_of(batch, rejected=rejected)

    async def check(self) -> str:
        return await asyncio.to_thread(describe, self._options)

    async def close(self) -> None:
        destination, self._destination = self._destination, None
        if destination is not None:
            destination.interrupt()
            await asyncio.get_running_loop().run_in_executor(self._thread, destination.close)
        self._thread.shutdown(wait=False)
