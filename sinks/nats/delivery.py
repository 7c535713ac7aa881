"""Publishes the messages of a batch and waits for answers: to a stream in exchanges (``NatsDelivery``), or to a server
without a stream (``CoreDelivery``, ``mode: core``), which keeps none of them and only shows that it has read them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from bridge.model.record import OrderingKey
from sinks.base import always
from sinks.nats.connection import MAX_UNANSWERED_BYTES, NatsConnection
from sinks.nats.encode import ROOM_FOR_SEQUENCE, NatsMessage
from sinks.nats.exchange import LostDuplicates, MessageRejected, Numbering, PublishWindow
from sinks.nats.stream import NatsStream
from sinks.receipt import WITHHELD, BatchResult, Receipt, RetryLater, SinkUnavailable

# ── To a server alone ────────────────────────────────────────────────────────


class CoreDelivery:
    """A message counts as stored when the server has read it: it reads the messages of a connection in their order, and
    the last of a part is one to the sink itself. A part of which the server may have read some messages is sent again,
    with the same ids."""

    def __init__(
        self,
        connection: NatsConnection,
        messages: Mapping[int, NatsMessage],
        result: BatchResult,
        *,
        timeout: float,
        may_send: Callable[[], bool],
    ) -> None:
        """``messages``: by index in the batch of ``result``. ``timeout``: seconds for each part. ``may_send``: see
        SinkContext; asked before each part."""
        self._connection = connection
        self._messages = messages
        self._result = result
        self._timeout = timeout
        self._may_send = may_send

    async def run(self) -> Receipt:
        pending = list(self._messages)
        while pending:
            if not self._may_send():
                return self._result.receipt(pending, WITHHELD)
            part = self._first_part(pending)
            if reason := await self._hand_over(part):
                return self._result.receipt(pending, RetryLater(f"{self._connection.server}: {reason}"))
            pending = pending[len(part) :]
        return self._result.receipt()

    def _first_part(self, indexes: Sequence[int]) -> list[int]:
        """As many messages as the client may hold, and at least one."""
        size = 0
        part: list[int] = []
        for index in indexes:
            size += self._messages[index].size
            if part and size > MAX_UNANSWERED_BYTES:
                break
            part.append(index)
        return part

    async def _hand_over(self, part: Sequence[int]) -> str:
        """Returns why the server may not have read all messages; empty if it has."""
        connection, ended = self._connection, asyncio.Event()
        try:
            async with asyncio.timeout(self._timeout):
                with connection.listening(lambda *_: ended.set(), ended.set):
                    for index in part:
                        message = self._messages[index]
                        await connection.publish(message.subject, message.payload, message.headers, answered=False)
                    await connection.publish_to_itself()
                    await ended.wait()
        except TimeoutError:
            await connection.close()
            return f"no answer within {self._timeout:g} s"
        except ConnectionError as error:
            return str(error)
        return connection.last_error


# ── To a stream ──────────────────────────────────────────────────────────────

MAX_MESSAGES_IN_FLIGHT = 100
"""Messages of a leader, and those that a takeover writes. Never a larger number: the leader of an earlier version would
write too few of them."""

_LOST_AGAIN = "the stream {} says that it has these messages, but it does not"
_MAX_FRUITLESS = 100
"""Exchanges one after another that neither store nor reject a message."""
_MAX_STEPS = 5
"""Times that a ``deliver`` goes on behind messages that may be of an earlier connection, or of another writer."""


class NatsDelivery:
    """Exchanges with the server until each message of a batch is stored or rejected, or the stream takes no more.

    With ``sole_writer`` each message names the number that the stream's last message has when all before it are stored,
    and none names the id of another: a replicated stream of nats-server 2.15 stops for good at an id that is not the
    expected one. Messages leave in their order: what an earlier connection or exchange left on its way names the same
    numbers, is known by its id, and takes the place of the message that comes again.
    """

    def __init__(
        self,
        connection: NatsConnection,
        stream: NatsStream,
        duplicates: LostDuplicates,
        messages: dict[int, NatsMessage],
        result: BatchResult,
        last: int | None = None,
        *,
        fences: bool = False,
        may_send: Callable[[], bool] = always,
    ) -> None:
        """``messages``: by index in the batch of ``result``. ``last``: the number of the last message in the stream;
        None if messages name no number. ``fences``: a message names a number that is larger than the last known one by
        less than ``MAX_MESSAGES_IN_FLIGHT``, and none is sent behind a message of which the writer is unknown. Those in
        flight are of different objects: while a later leader takes the stream over, it may store one without those
        before it. ``may_send``: see SinkContext."""
        if fences and last is None:
            raise ValueError("the number of the stream's last message is unknown")
        self._connection = connection
        self._stream = stream
        self._numbers = last is not None
        self._duplicates = duplicates
        self._messages = messages
        self._result = result
        self._fences = fences
        self._may_send = may_send
        self._withheld: RetryLater | None = None
        self._numbering = Numbering(len(messages))
        self._steps_left = _MAX_STEPS if duplicates.expected and not fences else 0
        self._sent_again: set[int] = set()
        """Indexes of messages that are sent again with another id."""
        self._renamed: set[int] = set()
        """Those that were not sent since they have it."""
        self.last = last
        """The number of the last message in the stream, as far as known."""
        self.last_stored = 0
        """The number of the newest message in the stream that an answer named; 0 before the first answer, and when the
        stream knew the message."""

    async def run(self) -> Receipt:
        pending = list(self._messages)
        failure: RetryLater | None = None
        fruitless = 0
        while pending and failure is None:
            window = await self._exchange(pending)
            done = window.stored.keys() | window.rejected.keys()
            try:
                failure = await self.failure_of(window) or self._withheld
                done -= await self._to_send_again(window)
            except SinkUnavailable as error:
                done -= window.duplicates.keys()  # Whether the stream still has them is unknown.
                failure = failure or error.retry_later()
            for index, rejected in window.rejected.items():
                self._result.reject(index, rejected.reason, rejected.answer)
            pending = self._result.sendable(index for index in pending if index not in done)
            fruitless = 0 if done else fruitless + 1
            if fruitless > _MAX_FRUITLESS:
                failure = failure or RetryLater(_LOST_AGAIN.format(self._stream.name))
        if failure is not None:
            self.last = None  # Messages behind a failure may be stored.
        return self._result.receipt(pending, failure)

    async def _exchange(self, pending: Sequence[int]) -> PublishWindow:
        indexes = self._next(pending) if self._numbers else self._first_of_each_object(pending)
        self._renamed.difference_update(indexes)
        self._duplicates.expected = True  # Holds if this exchange is cut short.
        window = await self.publish(indexes)
        self._note(window, len(indexes))
        return window

    def _next(self, pending: Sequence[int]) -> Sequence[int]:
        """The messages of the next exchange: the first ones, in their order. If the stream is expected to know them,
        those with a new id, and behind them all of their objects, wait for the others."""
        if not self._numbering.ascending and self._renamed:
            batch = self._result.batch
            waiting = {batch[index].ordering_key for index in self._renamed}
            pending = [index for index in pending if batch[index].ordering_key not in waiting] or pending
        return pending[: self._numbering.size]

    def _note(self, window: PublishWindow, sent: int) -> None:
        if new := [number for index, number in window.stored.items() if index not in window.duplicates]:
            self.last_stored = max(new)
        self.last = window.last
        answered, refused = len(window.stored) + len(window.rejected), window.refused is not None
        sent = sent if self._withheld is None else answered
        self._numbering.learn(sent=sent, answered=answered, duplicates=len(window.duplicates), refused=refused)
        if not (window.broken() or window.duplicates or self._sent_again):
            self._duplicates.none_left()
        elif window.failure is not None or (refused and not window.excused):
            self._duplicates.disordered = True

    async def publish(self, indexes: Sequence[int]) -> PublishWindow:
        """Publishes these messages and waits for the answers. After ``ack_timeout`` without an answer the connection is
        closed: it may be half open, and a message that it still holds must not be stored behind a later attempt."""
        connection, ack_timeout = self._connection, self._stream.options.ack_timeout
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
                window = PublishWindow(extend, self.last, MAX_MESSAGES_IN_FLIGHT if self._fences else None)
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
        last, batch = self.last, self._result.batch
        named: Sequence[int | None] = [None] * len(indexes)
        if last is not None:
            named = self._numbering.named(last, len(indexes))
        for index, number in zip(indexes, named, strict=True):
            message = self._messages[index]
            headers, size = (message.headers, message.size) if number is None else message.behind(number)
            key = batch[index].ordering_key if self._fences and batch else None
            if not await window.room_for(size, number, key):
                return
            if not self._may_send():
                self._withheld = WITHHELD
                return
            published = await self._connection.publish(message.subject, message.payload, headers)
            window.sent(published, index, size, key)

    async def _to_send_again(self, window: PublishWindow) -> set[int]:
        """Gives a new id to each message that must be sent again, and returns their indexes. Raises
        SinkUnavailable."""
        if not self._duplicates.expected:
            return set()
        batch, messages = self._result.batch, self._messages
        lost: set[int] = set()
        if window.duplicates:
            subjects = {sequence: messages[index].subject for index, sequence in window.duplicates.items()}
            lost = await self._stream.lost(self._connection, subjects)
        stored = dict(sorted(window.stored.items()))
        for index, sequence in stored.items():
            is_new = index not in window.duplicates and self._duplicates.disordered
            if sequence not in lost and (is_new or index in self._sent_again):
                self._duplicates.stored(batch[index], sequence)
        again = self._duplicates.to_send_again(batch, stored, window.duplicates, lost)
        room = ROOM_FOR_SEQUENCE if self._numbers else 0
        for index in again:
            self._sent_again.add(index)
            self._renamed.add(index)
            try:
                messages[index] = messages[index].again(window.stored[index]).within(self._connection.max_payload, room)
            except ValueError as error:
                window.rejected[index] = MessageRejected(str(error))
        return {index for index in again if index not in window.rejected}

    async def failure_of(self, window: PublishWindow) -> RetryLater | None:
        """Why no further exchange follows this one; None if one may. Raises SinkUnavailable."""
        if window.failure is not None:
            if window.failure.no_stream:
                await self._stream.find(self._connection, self._stream.options.create_stream)
                if self._stream.created:
                    # A Gap has to be in front of the next record.
                    return RetryLater(f"the stream {self._stream.name} was missing, and is created again")
            return RetryLater(window.failure.reason)
        if window.refused is None or window.excused:
            return None
        if self._steps_left and window.refused.last is not None:
            self._steps_left -= 1
            self.last = window.refused.last
            return None
        return RetryLater(self._stream.other_writer, doubted=True)

    def _first_of_each_object(self, indexes: Sequence[int]) -> list[int]:
        first: dict[OrderingKey, int] = {}
        for index in indexes:
            first.setdefault(self._result.batch[index].ordering_key, index)
        return list(first.values())
