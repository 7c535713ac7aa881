"""Publishes batches to JetStream and waits until the stream has stored them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bridge.model.record import Record
from sinks.base import NamesGaps, Receipt, RetryLater, SinkUnavailable, encode_each, not_following, receipt_of
from sinks.nats.encode import Message, MessageEncoder, stream_subjects
from sinks.nats.options import NatsOptions
from sinks.nats.repeated import Repeated
from sinks.nats.stream import Stream
from sinks.nats.window import Window

if TYPE_CHECKING:
    from sinks.nats.connection import Connection

_FOREIGN = "another publisher writes into the stream {}: set sole_writer: false, or give this sink a stream of its own"
_IN_VAIN = "the stream {} says that it has these messages, and has not"
_MOST_IN_VAIN = 100
"""Exchanges that store nothing, in one deliver."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """What one deliver has to send, by place in the batch."""

    batch: Sequence[Record]
    messages: dict[int, Message]
    renamed: set[int] = field(default_factory=set)
    """Places of messages that are sent again under another id."""


class NatsSink(NamesGaps):
    """A record is stored when the stream acknowledged it, or knew its id already.

    With ``sole_writer`` each message of an exchange names the one before it as the last of the stream, so that a
    message which got lost lets none behind it be stored. Otherwise messages about one object wait for each other.

    A connection that breaks is replaced by the next ``deliver``, as is one on which no answer came for
    ``ack_timeout``. What was under way comes again with the same ids, which the stream knows for its
    ``duplicate_window``. A duplicate whose message the stream has lost since (it was purged) was not stored: it is
    sent again, under an id that names the lost message. While duplicates are expected, no two messages about one
    object are under way, so that none of them overtakes one that must be sent again.

    A stream that was deleted is made again where ``create_stream`` says how; the receipt tells so.
    """

    def __init__(self, name: str, options: NatsOptions, *, cluster: str) -> None:
        self._name = name
        self._options = options
        events = options.events(cluster)
        super().__init__(events)
        self._encoder = MessageEncoder(options, cluster, events)
        self._stream = Stream(options, stream_subjects(options, cluster))
        self._connection: Connection | None = None
        self._servers: list[str] = []
        self._repeated = Repeated()
        self._made = ""
        """For the next receipt."""

    async def open(self) -> None:
        await self._connected()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        receipt = self.note_gaps(batch, await self._deliver(batch))
        if not self._made:
            return receipt
        made, self._made = self._made, ""
        return replace(receipt, made=made)

    async def _deliver(self, batch: Sequence[Record]) -> Receipt:
        try:
            connection = await self._connected()
        except SinkUnavailable as error:
            return Receipt(pending=range(len(batch)), trouble=RetryLater(str(error), whole=True))
        messages, rejected = self._encode(batch, connection.max_payload)
        under_way = _UnderWay(batch, messages)
        left = list(messages)
        answers: dict[int, str] = {}
        trouble: RetryLater | None = None
        for _ in range(_MOST_IN_VAIN + len(batch)):
            if not left or trouble is not None:
                return receipt_of(batch, pending=left, trouble=trouble, rejected=rejected, answers=answers)
            window = await self._exchange(connection, under_way, left)
            done = window.stored.keys() | window.refused.keys()
            try:
                trouble = await self._trouble_of(connection, window)
                done -= await self._lost(connection, window, under_way)
            except SinkUnavailable as error:
                done -= window.duplicates.keys()  # Nobody knows.
                trouble = trouble or RetryLater(str(error), whole=True)
            rejected |= window.refused
            answers |= window.answers
            left = [place for place in left if place not in done]
            if window.refused:
                left = not_following(batch, left, rejected)
        trouble = RetryLater(_IN_VAIN.format(self._options.stream))
        return receipt_of(batch, pending=left, trouble=trouble, rejected=rejected, answers=answers)

    async def check(self) -> str:
        connection = await self._new_connection()
        try:
            return await self._stream.look(connection)
        finally:
            await connection.close()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _exchange(self, connection: Connection, under_way: _UnderWay, left: Sequence[int]) -> Window:
        careful = self._repeated.expected or not self._options.sole_writer
        places = _first_of_each(under_way.batch, left) if careful else left
        self._repeated.expected = True  # Should this not come to its end.
        window = await self._publish_all(connection, [(place, under_way.messages[place]) for place in places])
        if not (window.failure or window.duplicates or under_way.renamed):
            self._repeated.over()
        return window

    async def _publish_all(self, connection: Connection, messages: Sequence[tuple[int, Message]]) -> Window:
        """Publish these and wait for the answers. An exchange without an answer for ``ack_timeout`` closes the
        connection: it may be half open, and what it still holds must not be stored behind a later attempt."""
        server, patience = connection.server, self._options.ack_timeout
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(patience) as limit:

                def progress() -> None:
                    if not limit.expired():
                        limit.reschedule(clock() + patience)

                def broken() -> None:
                    window.fail(f"{server}: {connection.trouble}")
                    if not limit.expired():
                        limit.reschedule(clock())

                window = Window(progress)
                with connection.listening(window.heard, broken):
                    await self._publish(connection, messages, window)
                    await window.answered()
        except TimeoutError:
            await self.close()
            window.fail(f"{server}: no acknowledgement within {patience:g} s")
        except ConnectionError as error:
            window.fail(str(error))
        return window

    async def _publish(self, connection: Connection, messages: Sequence[tuple[int, Message]], window: Window) -> None:
        previous: str | None = None
        for place, message in messages:
            headers, size = message.headers, message.size
            chained = previous is not None and self._options.sole_writer
            if previous is not None and chained:
                headers, size = message.after(previous)
            if size > connection.max_payload:
                return  # Without the name of its predecessor it fits: it begins the next exchange.
            await window.room_for(size)
            if window.broken():
                return
            number = await connection.publish(message.subject, message.payload, headers)
            window.sent(number, place, size, chained=chained)
            previous = message.id

    async def _lost(self, connection: Connection, window: Window, under_way: _UnderWay) -> set[int]:
        """Places of the duplicates that are to be sent again: they have another id from here on. Raises
        SinkUnavailable."""
        if not (window.duplicates or under_way.renamed):
            return set()
        batch, messages = under_way.batch, under_way.messages
        gone: set[int] = set()
        if window.duplicates:
            subjects = {sequence: messages[place].subject for place, sequence in window.duplicates.items()}
            gone = await self._stream.lost(connection, subjects)
        for place in under_way.renamed & window.stored.keys():
            if window.stored[place] not in gone:
                self._repeated.sent_again(batch[place], window.stored[place])
        again = self._repeated.to_send_again(batch, window.duplicates, gone)
        for place in again:
            messages[place] = messages[place].again(window.duplicates[place])
            under_way.renamed.add(place)
            if messages[place].size > connection.max_payload:
                window.refused[place] = _too_large(messages[place], connection.max_payload)
        return {place for place in again if place not in window.refused}

    async def _trouble_of(self, connection: Connection, window: Window) -> RetryLater | None:
        """Raises SinkUnavailable."""
        if window.no_stream:
            await self._find_stream(connection)
            if self._made:
                return None
        if window.failure is not None:
            return RetryLater(window.failure)
        if window.chain_broke and not window.excused:
            return RetryLater(_FOREIGN.format(self._options.stream))
        return None

    async def _find_stream(self, connection: Connection) -> None:
        """Raises SinkUnavailable."""
        if (await self._stream.find(connection, self._options.create_stream)).made:
            self._made = f"stream {self._options.stream}"

    def _encode(self, batch: Sequence[Record], max_payload: int) -> tuple[dict[int, Message], dict[int, str]]:
        def message_of(record: Record) -> Message:
            message = self._encoder.message(record)
            if message.size > max_payload:
                # The server would end the connection over it, for good.
                raise ValueError(_too_large(message, max_payload))
            return message

        return encode_each(batch, message_of)

    async def _connected(self) -> Connection:
        """Raises SinkUnavailable."""
        if self._connection is None or self._connection.closed:
            await self.close()
            connection = await self._new_connection()
            try:
                await self._find_stream(connection)
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
            self._servers = connection.servers
        return self._connection

    async def _new_connection(self) -> Connection:
        from sinks.nats.connection import Connection

        return await Connection.make(self._options, self._name, self._servers)


def _too_large(message: Message, most: int) -> str:
    return f"{message.size} bytes with its headers; the server takes {most}"


def _first_of_each(batch: Sequence[Record], places: Sequence[int]) -> list[int]:
    """The first place of each object."""
    first: dict[tuple[str, str], int] = {}
    for place in places:
        first.setdefault(batch[place].ordering_key, place)
    return list(first.values())
