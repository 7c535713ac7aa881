"""Reads a stream from its beginning to its present end. The server sends only headers; no message is acknowledged."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import nats.errors
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from bridge.model.versions.stored_version import CannotReadBack, ReadFilter, StoredVersion, stored_version_of
from sinks.errors import SinkUnavailable
from sinks.nats.connection import NatsConnection
from sinks.nats.encode import stream_subjects
from sinks.nats.options import DeliveryMode, NatsOptions

_BATCH = 500
_IDLE_TIMEOUT = 30.0
"""Seconds without a message before the server counts as unavailable."""
_CLOSE_TIMEOUT = 2.0
"""Seconds."""
_INACTIVE_THRESHOLD = 600.0
"""Seconds after which the server deletes a consumer without requests."""


def version_in(message: Msg) -> StoredVersion:
    """Reads the headers, which both formats have."""
    headers = message.headers or {}
    return stored_version_of({name.removeprefix("ce-"): unquote(value) for name, value in headers.items()})


class NatsReadBack:
    """Reads every message of the sink's subjects in the order of the stream, with an ephemeral consumer."""

    def __init__(self, name: str, options: NatsOptions, *, cluster: str) -> None:
        self._name = name
        self._options = options
        self._subjects = stream_subjects(options, cluster)
        self._connection: NatsConnection | None = None
        self._consumer: Any = None
        self._read = 0
        """Messages, as the consumer counts deliveries."""
        self._left = 0

    async def open(self) -> str:
        if self._options.mode is DeliveryMode.CORE:
            raise CannotReadBack("mode is core: the server keeps no messages")
        self._connection = connection = await NatsConnection.connect(self._options, f"{self._name}-verify", ())
        [subject] = self._subjects
        jetstream = connection.jetstream(self._options.connect_timeout)
        with self._errors():
            state = (await jetstream.stream_info(self._options.stream_name)).state
            self._consumer = await jetstream.pull_subscribe(
                subject,
                stream=self._options.stream_name,
                config=ConsumerConfig(
                    ack_policy=AckPolicy.NONE, headers_only=True, inactive_threshold=_INACTIVE_THRESHOLD
                ),
            )
        return f"{connection.server}, stream {self._options.stream_name} with {state.messages} messages"

    async def read(self, sought: Sequence[ReadFilter]) -> AsyncGenerator[Sequence[StoredVersion]]:
        with self._errors():
            left = await self._pending()
        while left > 0:
            with self._errors():
                messages = await self._next(min(left, _BATCH))
            if not messages:
                return
            # The stream may have removed some of the others meanwhile.
            left = self._left = min(left - len(messages), messages[-1].metadata.num_pending)
            yield [version_in(message) for message in messages]

    @property
    def notes(self) -> Sequence[str]:
        return ()

    @property
    def left(self) -> int | None:
        return self._left

    async def close(self) -> None:
        if self._connection is None:
            return
        if self._consumer is not None:
            with contextlib.suppress(TimeoutError, nats.errors.Error):  # The server deletes it later.
                name = (await self._consumer.consumer_info()).name
                await self._connection.jetstream(_CLOSE_TIMEOUT).delete_consumer(self._options.stream_name, name)
        await self._connection.close()

    async def _pending(self) -> int:
        """Messages of the stream that were not read."""
        return int((await self._consumer.consumer_info()).num_pending)

    async def _next(self, count: int) -> list[Msg]:
        """Empty when the stream has removed the messages meanwhile. Raises SinkUnavailable."""
        try:
            messages: list[Msg] = await self._consumer.fetch(count, timeout=_IDLE_TIMEOUT)
        except TimeoutError:
            if await self._pending() == 0:
                return []
            raise
        for message in messages:
            self._read += 1
            # A consumer without acknowledgements does not repeat a message that was lost on the way.
            if message.metadata.sequence.consumer != self._read:
                raise SinkUnavailable(f"messages of {self._options.stream_name} were lost on the way here; try again")
        return messages

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raises SinkUnavailable."""
        server = self._connection.server if self._connection else "nobody"
        try:
            yield
        except NotFoundError as error:
            raise SinkUnavailable(f"{server} has no stream {self._options.stream_name}") from error
        except ServiceUnavailableError as error:
            raise SinkUnavailable(f"{server}: JetStream does not answer; is it enabled?") from error
        except (TimeoutError, nats.errors.Error) as error:
            said = (isinstance(error, APIError) and error.description) or str(error).removeprefix("nats: ")
            last_error = self._connection.last_error if self._connection else ""
            reason = last_error or said or type(error).__name__
            raise SinkUnavailable(f"{server}: cannot read the stream {self._options.stream_name}: {reason}") from error
