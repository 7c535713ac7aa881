"""The log that a bridge retains (``state.retain``), as a stream: for a history without any sink that keeps records.

It is read from the state directory, whether the bridge runs or not, without a lock. The bridge trims the log at its own
pace: what went before it was read is told as lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from kubedelta_reader import Record
from kubedelta_reader.sources import NoDestination, Source, Unavailable
from kubedelta_reader.sources.source import place_in

from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Delta
from bridge.model.record import Record as LogRecord
from bridge.outbox import Damaged, StateError, UnknownFormat, look_at
from bridge.outbox.encryption import Cipher

_BATCH = 1000


class RetainedLog(Source):
    """Changes of objects and gaps, in the order of the log. Records for single sinks are left out: replays, and what a
    changed selection makes."""

    lost = False

    def __init__(self, directory: Path, cluster: str, cipher: Cipher | None) -> None:
        """``cipher``: None for a state without encryption."""
        self._directory = directory
        self._events = CloudEvents(cluster)
        self._cipher = cipher
        self._settled = 0

    async def open(self) -> str:
        count = await asyncio.to_thread(self._newest)
        return f"the log of {self._directory}, up to record {count}"

    async def resume(self, position: bytes) -> None:
        self._settled = place_in(position, int) if position else 0

    async def read(self) -> AsyncGenerator[Sequence[Record]]:
        while True:
            found, first = await asyncio.to_thread(self._behind, self._settled)
            if self._settled and first > self._settled + 1:
                self.lost = True
            if not found:
                return
            self._settled = found[-1].sequence
            yield [Record(self._events.structured(each)) for each in found if _is_for_all(each)]

    @property
    def position(self) -> bytes:
        return msgspec.json.encode(self._settled)

    async def close(self) -> None:
        """Nothing stays open between two reads."""

    def _newest(self) -> int:
        with _readable(), look_at(self._directory) as look:
            if look is None:
                raise NoDestination(f"no bridge has run in {self._directory}")
            if missing := look.missing_keys(self._cipher):
                raise Unavailable(
                    f"{self._directory} is encrypted; name the configuration with its keys ({missing[0]})"
                )
            return int(look.last)

    def _behind(self, settled: int) -> tuple[Sequence[LogRecord], int]:
        with _readable(), look_at(self._directory) as look:
            return ((), 0) if look is None else look.records(settled, _BATCH, self._cipher)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (StateError, Damaged, UnknownFormat) as error:
        raise Unavailable(str(error)) from error


def _is_for_all(record: LogRecord) -> bool:
    return record.targets is None and not (isinstance(record, Delta) and record.selection)
