"""Reads the messages of a sink again, for ``kubedelta verify`` (``NatsReadBack``) and for ``kubedelta tail``
(``NatsFollower``). Neither acknowledges a message. The read-back goes from the beginning of the stream to its present
end, and the server sends it only headers. The follower goes on as messages come, also for subjects without a stream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import unquote

import nats.errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, ConsumerInfo, DeliverPolicy
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from bridge.model.versions.followed_record import FollowedRecord, record_of
from bridge.model.versions.stored_version import CannotReadBack, ReadFilter, StoredVersion, stored_version_of
from sinks.nats.connection import NatsConnection
from sinks.nats.encode import stream_subjects, term_of
from sinks.nats.options import DeliveryMode, NatsOptions
from sinks.receipt import SinkUnavailable

T = TypeVar("T")


# ── For verify ───────────────────────────────────────────────────────────────

_BATCH = 500
_IDLE_TIMEOUT = 30.0
"""Seconds without a message before the server counts as unavailable."""
_CLOSE_TIMEOUT = 2.0
"""Seconds."""
_READ_BACK_EXPIRY = 600.0
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
                    ack_policy=AckPolicy.NONE, headers_only=True, inactive_threshold=_READ_BACK_EXPIRY
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
            with suppress(TimeoutError, nats.errors.Error):  # The server deletes it later.
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

    @contextmanager
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


# ── For tail ─────────────────────────────────────────────────────────────────

_WAIT = 0.25
"""Seconds that a look for messages waits for the first of them."""
_FIRST_LOOK_BACK = 100
_LOOK_BACK = 100_000
"""Messages of the stream among which the last records are sought."""
_FOLLOWER_EXPIRY = 30.0
"""Seconds after which the server deletes a consumer without requests."""


def followed(message: Msg) -> FollowedRecord:
    headers = message.headers or {}
    attributes = {name.removeprefix("ce-"): unquote(value) for name, value in headers.items() if name.startswith("ce-")}
    return record_of(attributes, message.data)


def _tells(message: Msg) -> bool:
    """False for the notices in front of that which begins a term: they tell people nothing."""
    found = term_of(message.headers or {}, message.data)
    return found is None or found.began


class NatsFollower:
    """See RecordFollower. With ``mode: core`` there are no messages but those that come from ``open`` on."""

    def __init__(self, name: str, options: NatsOptions, *, cluster: str) -> None:
        self._name = name
        self._options = options
        self._has_stream = options.mode is DeliveryMode.JETSTREAM
        [self._subject] = stream_subjects(options, cluster)
        self._runner = asyncio.Runner()
        self._connection: NatsConnection | None = None
        self._consumer: Any = None
        self._resume: int | datetime = 1
        """Where a new consumer goes on: a sequence number of the stream, or a time."""
        self._read = 0
        """Messages, as the consumer counts them."""
        self._came: list[Msg] = []

    def open(self) -> bool:
        return self._run(self._open())

    def last(self, count: int, accepts: Callable[[FollowedRecord], bool]) -> Sequence[FollowedRecord]:
        if not self._has_stream:
            return ()
        return self._run(self._last(count, accepts))

    def begin(self, since: datetime | None) -> None:
        if not self._has_stream:
            raise CannotReadBack("mode is core: the server keeps no messages, and only new ones can be followed")
        self._run(self._consume(1 if since is None else since))

    def news(self) -> Iterator[FollowedRecord]:
        look = self._stored if self._has_stream else self._arrived
        while messages := self._run(look()):
            yield from map(followed, filter(_tells, messages))

    def close(self) -> None:
        with suppress(SinkUnavailable):
            self._run(self._close())
        self._runner.close()

    def _run(self, work: Awaitable[T]) -> T:
        """The client's tasks rest in between. Raises SinkUnavailable."""
        return self._runner.run(self._watched(work))

    async def _watched(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except (TimeoutError, nats.errors.Error) as error:
            server = self._connection.server if self._connection else "nobody"
            said = (isinstance(error, APIError) and error.description) or str(error).removeprefix("nats: ")
            last_error = self._connection.last_error if self._connection else ""
            where = f"the stream {self._options.stream_name}" if self._has_stream else self._subject
            reason = last_error or said or type(error).__name__
            raise SinkUnavailable(f"{server}: cannot read {where}: {reason}") from error

    async def _open(self) -> bool:
        if self._connection is None:
            self._connection = await NatsConnection.connect(self._options, f"{self._name}-tail", ())
            if not self._has_stream:
                await self._connection.subscribe(self._subject, self._take)
        if self._has_stream:
            try:
                await self._jetstream.stream_info(self._options.stream_name)
            except NotFoundError:
                return False
        return True

    @property
    def _jetstream(self) -> JetStreamContext:
        if self._connection is None:
            raise RuntimeError("not open")
        return self._connection.jetstream(self._options.connect_timeout)

    async def _close(self) -> None:
        if self._connection is not None:
            with suppress(TimeoutError, nats.errors.Error):
                await self._end_consumer()
            await self._connection.close()

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

    async def _last(self, count: int, accepts: Callable[[FollowedRecord], bool]) -> Sequence[FollowedRecord]:
        state = (await self._jetstream.stream_info(self._options.stream_name)).state
        found: deque[FollowedRecord] = deque(maxlen=count)
        back = max(count, _FIRST_LOOK_BACK)
        while count:
            found.clear()
            start = max(state.first_seq, state.last_seq + 1 - back, 1)
            await self._consume(start)
            while messages := await self._stored(state.last_seq):
                found.extend(filter(accepts, map(followed, filter(_tells, messages))))
            if len(found) == count or start == max(state.first_seq, 1) or back >= _LOOK_BACK:
                break
            back = min(10 * back, _LOOK_BACK)
        await self._consume(state.last_seq + 1)
        return found

    async def _consume(self, start: int | datetime) -> None:
        await self._end_consumer()
        self._resume, self._read = start, 0
        if isinstance(start, int):
            config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=start)
        else:
            moment = start.astimezone(UTC)
            config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=moment)
        config.ack_policy, config.inactive_threshold = AckPolicy.NONE, _FOLLOWER_EXPIRY
        self._consumer = await self._jetstream.pull_subscribe(
            self._subject, stream=self._options.stream_name, config=config
        )

    async def _end_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(NotFoundError):
                name = (await consumer.consumer_info()).name
                await self._jetstream.delete_consumer(self._options.stream_name, name)

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
        """Of the consumer; None if it was gone and is a new one now."""
        try:
            info: ConsumerInfo = await self._consumer.consumer_info()
        except NotFoundError:  # The server deleted the consumer while the reader of the output paused, or restarted.
            await self._consume(self._resume)
            return None
        return info
