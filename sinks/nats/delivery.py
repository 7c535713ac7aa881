"""Publishes the messages of a ``deliver`` and waits for the server's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.model.record import OrderingKey
from sinks.errors import SinkUnavailable
from sinks.nats.connection import NatsConnection
from sinks.nats.encode import NatsMessage
from sinks.nats.jetstream.duplicates import Duplicates
from sinks.nats.jetstream.pub_ack import MessageRejected
from sinks.nats.jetstream.publish_window import PublishWindow
from sinks.nats.jetstream.stream import NatsStream
from sinks.nats.options import NatsOptions
from sinks.receipt import BatchResult, Receipt, RetryLater

_LOST_AGAIN = "the stream {} says that it has these messages, but it does not"
_MAX_FRUITLESS = 100
"""Exchanges of a ``deliver`` that store no message."""


class NatsDelivery:
    """Exchanges with the server until each message of a batch is stored or rejected, or the stream takes no more."""

    def __init__(
        self,
        options: NatsOptions,
        connection: NatsConnection,
        stream: NatsStream,
        duplicates: Duplicates,
        messages: dict[int, NatsMessage],
        result: BatchResult,
        last: int | None = None,
        *,
        fences: bool = False,
    ) -> None:
        """``messages``: by index in the batch of ``result``. ``last``: the number of the last message in the stream, if
        no other writer may write behind it; None if unknown. ``fences``: it is known, and no message leaves without the
        name of its predecessor."""
        self._options = options
        self._connection = connection
        self._stream = stream
        self._duplicates = duplicates
        self._messages = messages
        self._result = result
        self._fences = fences
        self._sent_again: set[int] = set()
        """Indexes of messages that are sent again with another id."""
        self.last = last if options.sole_writer else None
        """The number of the last message in the stream, as far as known."""
        self.last_stored = 0
        """The number of the newest message in the stream that an answer named; 0 before the first answer, and when the
        stream knew the message."""

    async def run(self) -> Receipt:
        pending = list(self._messages)
        failure: RetryLater | None = None
        for _ in range(_MAX_FRUITLESS + len(self._messages)):
            if not pending or failure is not None:
                return self._result.receipt(pending, failure)
            window = await self._exchange(pending)
            done = window.stored.keys() | window.rejected.keys()
            self._note_last(window)
            try:
                failure = await self._failure_of(window)
                done -= await self._to_send_again(window)
            except SinkUnavailable as error:
                done -= window.duplicates.keys()  # Whether the stream still has them is unknown.
                failure = failure or RetryLater(str(error), unavailable=True)
            for index, rejected in window.rejected.items():
                self._result.reject(index, rejected.reason, rejected.answer)
            pending = self._result.sendable(index for index in pending if index not in done)
        return self._result.receipt(pending, RetryLater(_LOST_AGAIN.format(self._options.stream_name)))

    def _note_last(self, window: PublishWindow) -> None:
        if new := [number for index, number in window.stored.items() if index not in window.duplicates]:
            self.last_stored = new[-1]
        clean = not (window.duplicates or window.broken())
        if window.failure is not None or not (clean or self._fences):
            self.last = None  # Messages behind a failure may be stored.
        elif new and self._options.sole_writer:
            self.last = new[-1]

    async def _exchange(self, pending: Sequence[int]) -> PublishWindow:
        # A duplicate may have to be sent again, and no message of its object may be in front of it then.
        one_per_object = self._duplicates.expected or not self._options.sole_writer
        indexes = self._first_of_each_object(pending) if one_per_object else pending
        self._duplicates.expected = True  # Holds if this exchange is cut short.
        window = await self._publish_all(indexes)
        if not (window.failure or window.duplicates or self._sent_again):
            self._duplicates.none_left()
        return window

    async def _publish_all(self, indexes: Sequence[int]) -> PublishWindow:
        """Publishes these messages and waits for the answers. After ``ack_timeout`` without an answer the connection is
        closed: it may be half open, and a message that it still holds must not be stored behind a later attempt."""
        connection, ack_timeout = self._connection, self._options.ack_timeout
        server, clock = connection.server, asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(ack_timeout) as limit:

                def extend() -> None:
                    if not limit.expired():
                        limit.reschedule(clock() + ack_timeout)

                def end() -> None:
                    window.fail(f"{server}: {connection.last_error}")
                    if not limit.expired():
                        limit.reschedule(clock())

                # The timeout is one of idleness: every answer extends it.
                window = PublishWindow(extend)
                with connection.listening(window.answered, end):
                    await self._publish(indexes, window)
                    await window.all_answered()
        except TimeoutError:
            await connection.close()
            window.fail(f"{server}: no acknowledgement within {ack_timeout:g} s")
        except ConnectionError as error:
            window.fail(str(error))
        return window

    async def _publish(self, indexes: Sequence[int], window: PublishWindow) -> None:
        connection = self._connection
        previous: str | None = None
        for index in indexes:
            message = self._messages[index]
            headers, size = message.headers, message.size
            chained = previous is not None and self._options.sole_writer
            if previous is not None and chained:
                headers, size = message.after(previous)
            elif previous is None and self.last is not None:
                headers, size = message.behind(self.last)
                chained = not self._fences
            if size > connection.max_payload:
                if previous is None:
                    self.last = None
                return  # It fits without the name of its predecessor: the next exchange begins with this message.
            await window.room_for(size)
            if window.broken():
                return
            number = await connection.publish(message.subject, message.payload, headers)
            window.sent(number, index, size, chained=chained)
            previous = message.id

    async def _to_send_again(self, window: PublishWindow) -> set[int]:
        """Gives a new id to each duplicate that must be sent again, and returns their indexes. Raises
        SinkUnavailable."""
        if not (window.duplicates or self._sent_again):
            return set()
        batch, messages = self._result.batch, self._messages
        lost: set[int] = set()
        if window.duplicates:
            subjects = {sequence: messages[index].subject for index, sequence in window.duplicates.items()}
            lost = await self._stream.lost(self._connection, subjects)
        for index in self._sent_again & window.stored.keys():
            if window.stored[index] not in lost:
                self._duplicates.sent_again(batch[index], window.stored[index])
        again = self._duplicates.to_send_again(batch, window.duplicates, lost)
        for index in again:
            messages[index] = messages[index].again(window.duplicates[index])
            self._sent_again.add(index)
            if messages[index].size > self._connection.max_payload:
                window.rejected[index] = MessageRejected(messages[index].too_large(self._connection.max_payload))
        return {index for index in again if index not in window.rejected}

    async def _failure_of(self, window: PublishWindow) -> RetryLater | None:
        """Raises SinkUnavailable."""
        if window.failure is not None:
            if window.failure.no_stream:
                await self._stream.find(self._connection, self._options.create_stream)
                if self._stream.created:
                    # A Gap has to be in front of the next record.
                    return RetryLater(f"the stream {self._options.stream_name} was missing, and is created again")
            return RetryLater(window.failure.reason)
        if window.chain_broke and not window.chain_excused:
            return RetryLater(self._stream.other_writer, doubted=True)
        return None

    def _first_of_each_object(self, indexes: Sequence[int]) -> list[int]:
        first: dict[OrderingKey, int] = {}
        for index in indexes:
            first.setdefault(self._result.batch[index].ordering_key, index)
        return list(first.values())
