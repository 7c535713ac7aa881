"""Messages of a JetStream stream: ``NatsSource`` has an ephemeral consumer of the stream, and acknowledges nothing.

The server sends a message once to a consumer without acknowledgements, and forgets the consumer when it makes no
requests. So the source counts what it gets: where a message was lost on the way, or the consumer is gone, another
consumer begins behind the last message that was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, ConsumerInfo, DeliverPolicy, StreamInfo
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from kubedelta_reader.events import Record
from kubedelta_reader.sources.source import NOT_THERE, NoDestination, Source, Unavailable, place_in

_BATCH = 500
_WAIT = 0.25
"""Seconds that a look for messages waits for the first of them."""
_IDLE_TIMEOUT = 30.0
"""Seconds without a message before the server counts as unavailable."""
_CLOSE_TIMEOUT = 2.0
"""Seconds."""
_CONSUMER_EXPIRY = 60.0
"""Seconds after which the server deletes a consumer without requests."""


class _Position(msgspec.Struct, frozen=True):
    stream: str
    """When the stream was created: another one of the name has other messages under the same numbers."""
    next: int
    """The number of the first message that was not read."""


class NatsSource(Source):
    """See Source. Every message of the subject, in the order of the stream. Messages that limits of the stream have
    removed between others cannot be told from those of other subjects."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Client]],
        stream: str,
        subject: str = ">",
        *,
        headers_only: bool = False,
        timeout: float = 10.0,
    ) -> None:
        """``connect`` returns a connected client, such as ``lambda: nats.connect(url)``; the source closes it.
        ``subject``: may have wildcards. ``headers_only``: payloads are empty. ``timeout``: seconds for an answer of the
        server."""
        self._connect = connect
        self._stream = stream
        self._subject = subject
        self._headers_only = headers_only
        self._timeout = timeout
        self._client: Client | None = None
        self._created = ""
        self._consumer: Any = None
        self._next: int | datetime = 1
        """Where another consumer goes on: a sequence number of the stream, or a time."""
        self._read = 0
        """Messages, as the present consumer counts them."""
        self._left = 0
        self._lost = False

    async def open(self) -> str:
        with self._errors():
            if self._client is None:
                self._client = await self._connect()
            state = (await self._info_of_stream()).state
        return f"{self._server}, stream {self._stream} with {state.messages} messages"

    async def resume(self, position: bytes) -> None:
        if not position:
            return
        found = place_in(position, _Position)
        with self._errors():
            first = (await self._info_of_stream()).state.first_seq
            self._lost = found.stream != self._created or found.next < first
            await self._consume(max(first, 1) if self._lost else found.next)

    async def read(self) -> AsyncGenerator[Sequence[Record]]:
        with self._errors():
            self._left = await self._pending()
        while self._left > 0:
            with self._errors():
                messages = await self._stored()
            if not messages:  # The stream has removed the others.
                self._left = 0
                return
            self._left = min(self._left - len(messages), messages[-1].metadata.num_pending)
            yield [record_of(each) for each in messages]

    @property
    def position(self) -> bytes:
        """Empty as long as nothing was read behind a time."""
        return msgspec.json.encode(_Position(self._created, self._next)) if isinstance(self._next, int) else b""

    @property
    def lost(self) -> bool:
        return self._lost

    @property
    def notes(self) -> Sequence[str]:
        return [f"messages of {self._stream} were removed before they were read"] if self._lost else []

    @property
    def left(self) -> int | None:
        return self._left

    async def close(self) -> None:
        if self._client is None:
            return
        with suppress(TimeoutError, nats.errors.Error):  # The server deletes it later.
            await self._end_consumer(_CLOSE_TIMEOUT)
        with suppress(TimeoutError):  # After a failed TLS handshake the client would wait for ever.
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self._client.close()

    # ── The server ───────────────────────────────────────────────────────────

    @property
    def _server(self) -> str:
        url = self._client.connected_url if self._client is not None else None
        return url.netloc if url else "nobody"

    def _jetstream(self, timeout: float | None = None) -> JetStreamContext:
        if self._client is None:
            raise RuntimeError("not open")
        return JetStreamContext(self._client, timeout=timeout or self._timeout)

    async def _info_of_stream(self) -> StreamInfo:
        info = await self._jetstream().stream_info(self._stream)
        self._created = str(info.created)
        return info

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raises Unavailable."""
        server = self._server
        try:
            yield
        except NotFoundError as error:
            raise NoDestination(f"{server} has no stream {self._stream}: {NOT_THERE}") from error
        except ServiceUnavailableError as error:
            raise Unavailable(f"{server}: JetStream does not answer; is it enabled?") from error
        except (TimeoutError, OSError, nats.errors.Error) as error:
            said = (isinstance(error, APIError) and error.description) or str(error)
            last = str((self._client is not None and self._client.last_error) or "")
            reason = (last or said).removeprefix("nats: ").strip("'") or type(error).__name__
            raise Unavailable(f"{server}: cannot read the stream {self._stream}: {reason}") from error

    # ── The consumer ─────────────────────────────────────────────────────────

    async def _consume(self, start: int | datetime) -> None:
        await self._end_consumer()
        self._next, self._read = start, 0
        if isinstance(start, int):
            config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=start)
        else:
            moment = start.astimezone(UTC)
            config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=moment)
        config.ack_policy, config.inactive_threshold = AckPolicy.NONE, _CONSUMER_EXPIRY
        config.headers_only = self._headers_only
        self._consumer = await self._jetstream().pull_subscribe(self._subject, stream=self._stream, config=config)

    async def _end_consumer(self, timeout: float | None = None) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(NotFoundError):
                name = (await consumer.consumer_info()).name
                await self._jetstream(timeout).delete_consumer(self._stream, name)

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
                    await self._consume(self._next)
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
                await self._consume(self._next)
                return messages[:index]
            self._read, self._next = sequence.consumer, sequence.stream + 1
        return messages

    async def _info(self) -> ConsumerInfo | None:
        """Of the consumer; None if there was none, or the server had deleted it, and it is a new one now."""
        if self._consumer is not None:
            with suppress(NotFoundError):
                info: ConsumerInfo = await self._consumer.consumer_info()
                return info
        await self._consume(self._next)
        return None


def record_of(message: Msg) -> Record:
    return Record(message.data, message.headers or {})
