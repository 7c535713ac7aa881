"""Reads the messages of a sink again, for ``kubedelta verify``, ``tail`` and ``history build``: those of its stream,
or, without one (``mode: core``), those that come from now on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from datetime import datetime

import nats.errors
from kubedelta_reader import Record
from kubedelta_reader.sources import Unavailable
from kubedelta_reader.sources.nats import NatsSource, record_of
from nats.aio.client import Client
from nats.aio.msg import Msg

from sinks.nats.connection import NatsConnection
from sinks.nats.encode import stream_subjects, term_of
from sinks.nats.options import DeliveryMode, NatsOptions
from sinks.reader import ANY_OBJECT, CannotRead, ReadFilter, ReadPurpose, RecordReader, look_backs

_WAIT = 0.25
"""Seconds that a look for messages waits for the first of them."""


def nats_reader(name: str, options: NatsOptions, *, cluster: str, purpose: ReadPurpose) -> RecordReader:
    """Raises CannotRead."""
    if options.mode is DeliveryMode.JETSTREAM:
        return NatsReader(name, options, cluster=cluster, purpose=purpose)
    if purpose is ReadPurpose.VERIFY:
        raise CannotRead("mode is core: the server keeps no messages")
    return CoreReader(name, options, cluster=cluster, purpose=purpose)


def _is_shown(record: Record) -> bool:
    """The notices in front of that which begins a term tell people nothing."""
    term = term_of(record.headers or {}, record.data or b"")
    return term is None or term.began


class NatsReader(NatsSource):
    """See RecordReader. For ``ReadPurpose.VERIFY`` the server sends headers alone."""

    def __init__(self, name: str, options: NatsOptions, *, cluster: str, purpose: ReadPurpose) -> None:
        async def connect() -> Client:
            return (await NatsConnection.connect(options, f"{name}-{purpose}", ())).client

        self._is_tail = purpose is ReadPurpose.TAIL
        [subject] = stream_subjects(options, cluster)
        super().__init__(
            connect,
            options.stream_name,
            subject,
            headers_only=purpose is ReadPurpose.VERIFY,
            timeout=options.connect_timeout,
        )

    async def begin(self, since: datetime | None) -> None:
        with self._errors():
            await self._consume(1 if since is None else since)

    async def last(self, count: int, accepts: Callable[[Record], bool]) -> Sequence[Record]:
        with self._errors():
            state = (await self._info_of_stream()).state
            found: deque[Record] = deque(maxlen=count)
            for start in look_backs(max(state.first_seq, 1), state.last_seq + 1, count):
                found.clear()
                await self._consume(start)
                while messages := await self._stored(state.last_seq):
                    found.extend(each for each in map(record_of, messages) if _is_shown(each) and accepts(each))
                if len(found) == count:
                    break
            await self._consume(state.last_seq + 1)
        return found

    async def read(self, sought: Sequence[ReadFilter] = ANY_OBJECT) -> AsyncGenerator[Sequence[Record]]:
        async with aclosing(super().read()) as batches:
            async for batch in batches:
                yield list(filter(_is_shown, batch)) if self._is_tail else batch


class CoreReader:
    """See RecordReader. Nobody keeps the messages."""

    def __init__(self, name: str, options: NatsOptions, *, cluster: str, purpose: ReadPurpose) -> None:
        self._name = f"{name}-{purpose}"
        self._options = options
        [self._subject] = stream_subjects(options, cluster)
        self._connection: NatsConnection | None = None
        self._came: list[Record] = []

    async def open(self) -> str:
        with self._errors():
            if self._connection is None:
                self._connection = await NatsConnection.connect(self._options, self._name, ())
                await self._connection.subscribe(self._subject, self._take)
        return self._connection.server

    async def begin(self, since: datetime | None) -> None:
        raise CannotRead("mode is core: the server keeps no messages, and only new ones can be followed")

    async def last(self, count: int, accepts: Callable[[Record], bool]) -> Sequence[Record]:
        return ()

    async def read(self, sought: Sequence[ReadFilter] = ANY_OBJECT) -> AsyncGenerator[Sequence[Record]]:
        with self._errors():
            if self._connection is not None and self._connection.closed:
                raise nats.errors.ConnectionClosedError
        await asyncio.sleep(0 if self._came else _WAIT)
        came, self._came = self._came, []
        if came:
            yield came

    @property
    def notes(self) -> Sequence[str]:
        return ()

    @property
    def left(self) -> int | None:
        return 0

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _take(self, message: Msg) -> None:
        record = record_of(message)
        if _is_shown(record):
            self._came.append(record)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raises Unavailable."""
        try:
            yield
        except (TimeoutError, nats.errors.Error) as error:
            server = self._connection.server if self._connection else "nobody"
            last = self._connection.last_error if self._connection else ""
            reason = last or str(error).removeprefix("nats: ") or type(error).__name__
            raise Unavailable(f"{server}: cannot read {self._subject}: {reason}") from error
