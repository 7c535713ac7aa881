"""Where the content of records is made: what is long runs in a thread, so that the event loop goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from bridge.facts import Report, StatesNotCompared
from bridge.model.record import Delta, Record

SHORT, FEW = 256 * 1024, 8
"""Bytes of the states, and records, in a batch whose content is made on the event loop: in some ten milliseconds, and
within the work that an expression may be on each of them (``selection.language.cost``)."""

MakeRecord: TypeAlias = Callable[[Record], Record]


class ContentThread:
    """Makers of content share values, so batches take turns: on the event loop if the batch is short and it is nobody's
    turn, else in a thread."""

    def __init__(self, report: Report) -> None:
        self._turn = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "content")
        self._report = report

    async def made(self, sink: str, make: MakeRecord, records: Sequence[Record]) -> Sequence[Record]:
        """The records with the content of the sink. Cancelled, a batch in the thread is made to its end, in vain."""
        if len(records) <= FEW and sum(map(_size, records)) <= SHORT and self._turn.acquire(blocking=False):
            try:
                made = list(map(make, records))
            finally:
                self._turn.release()
        else:
            made = await asyncio.get_running_loop().run_in_executor(self._thread, self._in_turn, make, records)
        for record in made:
            if isinstance(record, Delta) and record.content is not None and (why := record.content.uncompared):
                self._report(StatesNotCompared(sink, record.resource.name, record.key, why))
        return made

    def _in_turn(self, make: MakeRecord, records: Sequence[Record]) -> list[Record]:
        with self._turn:
            return list(map(make, records))


def _size(record: Record) -> int:
    return len(record.body) + len(record.before or b"") if isinstance(record, Delta) else 0
