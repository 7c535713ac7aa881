"""The file sink: each record becomes a line of JSON, and the lines of a batch are appended together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.formats.definitions import Definitions
from bridge.model.record import Delta, Record
from sinks.base import SinkContext
from sinks.channels import Channel, object_messages, structured_messages
from sinks.file.connection import describe
from sinks.file.delivery import AppendFailed, FileWriter, PipeWriter, open_writer
from sinks.file.options import FileOptions
from sinks.gaps import NamesGaps
from sinks.options import Format
from sinks.receipt import BatchResult, Receipt, RetryLater

_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class FileEncoder:
    """CloudEvents in the structured form, envelopes, rows or objects: a JSON object per line."""

    def __init__(self, events: CloudEvents, form: Format) -> None:
        self._json = events.structured if form is Format.CLOUDEVENTS else events.data
        self._takes_notices = form.has_notices

    def encode(self, record: Record) -> bytes:
        """A line, whose only newline is at its end. Empty for a notice in other formats than CloudEvents: readers could
        not distinguish its line from an object's, and every later envelope and row names the gap. Raises ValueError for
        a record that has no such form."""
        if not self._takes_notices and not isinstance(record, Delta):
            return b""
        text = self._json(record)
        if b"\n" in text or b"\r" in text:
            # In JSON these characters are outside of strings, where a space means the same.
            text = text.translate(_ONE_LINE)
        return text + b"\n"


def channels(options: FileOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    """The file."""
    messages = structured_messages if options.format is Format.CLOUDEVENTS else object_messages
    return [Channel(name="lines", address=str(options.path), messages=messages(options, cluster, definitions))]


_SHORTEST_WAIT = 0.5
"""Seconds between two tries of what is due."""


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
        self._open_writer = partial(open_writer, options, name=name)
        self._writer: FileWriter | PipeWriter | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def open(self, context: SinkContext) -> None:
        self.remember_gap(context.memory)
        self._writer = await asyncio.get_running_loop().run_in_executor(self._thread, self._open_writer)
        self._set_timer()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        if self._writer is None:
            raise RuntimeError("deliver() before open()")
        result = BatchResult(batch)
        lines = result.encode(self._encoder.encode)
        receipt = await self._append(self._writer, lines, result) if lines else result.receipt()
        return self.remembered(batch, receipt)

    async def check(self) -> str:
        return await asyncio.to_thread(describe, self._options)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.interrupt()
            await asyncio.get_running_loop().run_in_executor(self._thread, writer.close)
        self._thread.shutdown(wait=False)

    async def _append(self, writer: FileWriter | PipeWriter, lines: dict[int, bytes], result: BatchResult) -> Receipt:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, writer.append, list(lines.values()))
        except AppendFailed as error:
            return result.receipt(list(lines)[error.kept :], RetryLater(str(error), unavailable=True))
        except asyncio.CancelledError:
            writer.interrupt()
            raise
        self._set_timer()
        return result.receipt()

    # ── Between batches ──────────────────────────────────────────────────────

    def _set_timer(self) -> None:
        due = None if self._timer or self._writer is None else self._writer.due_in()
        if due is not None:
            self._timer = asyncio.get_running_loop().call_later(max(due, _SHORTEST_WAIT), self._run_due)

    def _run_due(self) -> None:
        self._timer = None
        if self._writer is not None:
            running = asyncio.get_running_loop().run_in_executor(self._thread, self._writer.run_due)
            running.add_done_callback(lambda _: self._set_timer())
