"""Reads the messages of a sink again: ``NatsReader`` has an ephemeral consumer of the stream, and acknowledges nothing.
Without a stream (``mode: core``) it subscribes, and has the messages that come from then on.

The server sends a message once to a consumer without acknowledgements, and forgets the consumer when it makes no
requests. So the reader counts what it gets: where a message was lost on the way, or the consumer is gone, another
consumer begins behind the last message that was read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import nats.errors
from kubedelta_reader import Record
from kubedelta_reader.sources.source import NoDestination, look_backs
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, ConsumerInfo, DeliverPolicy
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from sinks.nats.connection import NatsConnection
from sinks.nats.encode import stream_subjects, term_of
from sinks.nats.options import DeliveryMode, NatsOptions
from sinks.reader import ANY_OBJECT, CannotRead, ReadFilter, ReadPurpose
from sinks.receipt import SinkUnavailable

_BATCH = 500
_WAIT = 0.25
"""Seconds that a look for messages waits for the first of them."""
_IDLE_TIMEOUT = 30.0
"""Seconds without a message before the server counts as unavailable."""
_CLOSE_TIMEOUT = 2.0
"""Seconds."""
_CONSUMER_EXPIRY = 60.0
"""Seconds after which the server deletes a consumer without requests."""


class NatsReader:
    """See RecordReader. Reads every message of the sink's subjects, in the order of the stream. For
    ``ReadPurpose.VERIFY`` the server sends headers alone."""

    def __init__(self, name: str, options: NatsOptions, *, cluster: str, purpose: ReadPurpose) -> None:
        self._name = name
        self._options = options
        self._purpose = purpose
        self._has_stream = options.mode is DeliveryMode.JETSTREAM
        if not self._has_stream and purpose is ReadPurpose.VERIFY:
            raise CannotRead("mode is core: the server keeps no messages")
        [self._subject] = stream_subjects(options, cluster)
        self._connection: NatsConnection | None = None
        self._consumer: Any = None
        self._resume: int | datetime = 1
        """Where another consumer goes on: a sequence number of the stream, or a time."""
        self._read = 0
        """Messages, as the present consumer counts them."""
        self._left = 0
        self._came: list[Msg] = []
        """Messages of a subscription without a stream."""

    async def open(self) -> str:
        with self._errors():
            if self._connection is None:
                connection = await NatsConnection.connect(self._options, f"{self._name}-{self._purpose}", ())
                self._connection = connection
                if not self._has_stream:
                    await connection.subscribe(self._subject, self._take)
            server = self._connection.server
            if not self._has_stream:
                return server
            state = (await self._jetstream().stream_info(self._options.stream_name)).state
        return f"{server}, stream {self._options.stream_name} with {state.messages} messages"

    async def begin(self, since: datetime | None) -> None:
        if not self._has_stream:
            raise CannotRead("mode is core: the server keeps no messages, and only new ones can be followed")
        with self._errors():
            await self._consume(1 if since is None else since)

    async def last(self, count: int, accepts: Callable[[Record], bool]) -> Sequence[Record]:
        if not self._has_stream:
            return ()
        with self._errors():
            state = (await self._jetstream().stream_info(self._options.stream_name)).state
            found: deque[Record] = deque(maxlen=count)
            for start in look_backs(max(state.first_seq, 1), state.last_seq + 1, count):
                found.clear()
                await self._consume(start)
                while messages := await self._stored(state.last_seq):
                    found.extend(filter(accepts, self._records(messages)))
                if len(found) == count:
                    break
            await self._consume(state.last_seq + 1)
        return found

    async def read(self, sought: Sequence[ReadFilter] = ANY_OBJECT) -> AsyncGenerator[Sequence[Record]]:
        if not self._has_stream:
            with self._errors():
                messages = await self._arrived()
            if messages:
                yield self._records(messages)
            return
        with self._errors():
            self._left = await self._pending()
        while self._left > 0:
            with self._errors():
                messages = await self._stored()
            if not messages:  # The stream has removed the others.
                self._left = 0
                return
            self._left = min(self._left - len(messages), messages[-1].metadata.num_pending)
            yield self._records(messages)

    @property
    def notes(self) -> Sequence[str]:
        return ()

    @property
    def left(self) -> int | None:
        return self._left

    async def close(self) -> None:
        if self._connection is None:
            return
        with suppress(TimeoutError, nats.errors.Error):  # The server deletes it later.
            await self._end_consumer(_CLOSE_TIMEOUT)
        await self._connection.close()

    def _records(self, messages: Sequence[Msg]) -> list[Record]:
        """``ReadPurpose.TAIL`` leaves out the notices in front of that which begins a term: they tell people
        nothing."""
        if self._purpose is ReadPurpose.VERIFY:
            return [stored(each) for each in messages]
        found = ((each, term_of(each.headers or {}, each.data)) for each in messages)
        return [stored(each) for each, term in found if term is None or term.began]

    def _jetstream(self, timeout: float | None = None) -> JetStreamContext:
        if self._connection is None:
            raise RuntimeError("not open")
        return self._connection.jetstream(self._options.connect_timeout if timeout is None else timeout)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raises SinkUnavailable."""
        server = self._connection.server if self._connection else "nobody"
        try:
            yield
        except NotFoundError as error:
            raise NoDestination(f"{server} has no stream {self._options.stream_name}") from error
        except ServiceUnavailableError as error:
            raise SinkUnavailable(f"{server}: JetStream does not answer; is it enabled?") from error
        except (TimeoutError, nats.errors.Error) as error:
            said = (isinstance(error, APIError) and error.description) or str(error).removeprefix("nats: ")
            last_error = self._connection.last_error if self._connection else ""
            where = f"the stream {self._options.stream_name}" if self._has_stream else self._subject
            reason = last_error or said or type(error).__name__
            raise SinkUnavailable(f"{server}: cannot read {where}: {reason}") from error

    # ── Without a stream ─────────────────────────────────────────────────────

    async def _take(self, message: Msg) -> None:
        self._came.append(message)

    async def _arrived(self) -> list[Msg]:
        if self._connection is not None and self._connection.closed:
            raise nats.errors.ConnectionClosedError
        await asyncio.sleep(0 if self._came else _WAIT)
        came, self._came = self._came, []
        return came

    # ── A stream ─────────────────────────────────────────────────────────────

    async def _consume(self, start: int | datetime) -> None:
        await self._end_consumer()
        self._resume, self._read = start, 0
        if isinstance(start, int):
            config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=start)
        else:
            moment = start.astimezone(UTC)
            config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=moment)
        config.ack_policy, config.inactive_threshold = AckPolicy.NONE, _CONSUMER_EXPIRY
        config.headers_only = self._purpose is ReadPurpose.VERIFY
        self._consumer = await self._jetstream().pull_subscribe(
            self._subject, stream=self._options.stream_name, config=config
        )

    async def _end_consumer(self, timeout: float | None = None) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(NotFoundError):
                name = (await consumer.consumer_info()).name
                await self._jetstream(timeout).delete_consumer(self._options.stream_name, name)

    async def _pending(self) -> int:
        """Messages of the stream that were not read, the lost ones included."""
        while (info := await self._info()) is None:
            pass
        sent = 0 if info.delivered is None else info.delivered.consumer_seq
        return int(info.num_pending or 0) + sent - self._read

    async def _stored(self, through: int | None = None) -> list[Msg]:
        """The next messages; of those up to ``through``, if it is given. Empty at the end."""
        now = asyncio.get_running_loop().time
        deadline = now() + _IDLE_TIMEOUT
        is_late = False
        while not (messages := await self._fetch()):
            info = await self._info()
            if info is not None and info.delivered is not None and info.delivered.consumer_seq > self._read:
                # Sent, but behind the end of the wait: the next fetch has it, or it is lost.
                if is_late:
                    await self._consume(self._resume)
                is_late = not is_late
            elif info is not None and not info.num_pending:
                return []
            if now() > deadline:
                raise TimeoutError(f"no message came for {_IDLE_TIMEOUT:g} s")
        return [each for each in messages if through is None or each.metadata.sequence.stream <= through]

    async def _fetch(self) -> list[Msg]:
        try:
            messages: list[Msg] = await self._consumer.fetch(_BATCH, timeout=_WAIT)
        except (TimeoutError, APIError):  # None came; or the consumer is gone, as ``_info`` finds.
            return []
        for index, message in enumerate(messages):
            sequence = message.metadata.sequence
            if sequence.consumer != self._read + 1:
                # Lost on the way: a consumer without acknowledgements repeats no message.
                await self._consume(self._resume)
                return messages[:index]
            self._read, self._resume = sequence.consumer, sequence.stream + 1
        return messages

    async def _info(self) -> ConsumerInfo | None:
        """Of the consumer; None if there was none, or the server had deleted it, and it is a new one now."""
        if self._consumer is not None:
            with suppress(NotFoundError):
                info: ConsumerInfo = await self._consumer.consumer_info()
                return info
        await self._consume(self._resume)
        return None


def stored(message: Msg) -> Record:
    return Record(message.data, message.headers or {})
