"""Appends each batch of records as lines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from bridge.model.record import Record
from sinks.file.connection import describe
from sinks.file.delivery import AppendFailed, LineWriter, open_writer
from sinks.file.encode import FileEncoder
from sinks.file.options import FileOptions
from sinks.gaps import NamesGaps
from sinks.receipt import BatchResult, Receipt, RetryLater


class FileSink(NamesGaps):
    """A record is stored when its whole line is on the disk (``fsync: batch``) or with the operating system.

    A batch that cannot be written, on a full disk for instance, is taken back: a file holds whole lines only, and the
    same lines come again later. A cancelled ``deliver`` is finished in the background, before any other write; its
    lines may then be in the file twice, with equal ids.
    """

    def __init__(self, name: str, options: FileOptions, *, cluster: str) -> None:
        self._options = options
        events = options.events(cluster)
        super().__init__(events)
        self._encoder = FileEncoder(events, options.format)
        # A single thread: a cancelled append ends before the next begins.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"sink-{name}")
        self._writer: LineWriter | None = None

    async def open(self) -> None:
        self._writer = await asyncio.get_running_loop().run_in_executor(self._thread, open_writer, self._options)

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        if self._writer is None:
            raise RuntimeError("deliver() before open()")
        result = BatchResult(batch)
        lines = result.encode(self._encoder.encode)
        receipt = await self._append(self._writer, lines, result) if lines else result.receipt()
        return self.note_gaps(batch, receipt)

    async def check(self) -> str:
        return await asyncio.to_thread(describe, self._options)

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.interrupt()
            await asyncio.get_running_loop().run_in_executor(self._thread, writer.close)
        self._thread.shutdown(wait=False)

    async def _append(self, writer: LineWriter, lines: dict[int, bytes], result: BatchResult) -> Receipt:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, writer.append, list(lines.values()))
        except AppendFailed as error:
            return result.receipt(list(lines)[error.kept :], RetryLater(str(error), unavailable=True))
        except asyncio.CancelledError:
            writer.interrupt()
            raise
        return result.receipt()
