"""Publishes batches to JetStream and waits until the stream has stored them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bridge.model.record import Record
from sinks.base import Receipt, RetryLater, SinkUnavailable, encode_each, not_following, receipt_of
from sinks.nats.encode import Message, MessageEncoder, stream_subjects
from sinks.nats.options import NatsOptions
from sinks.nats.window import Window

if TYPE_CHECKING:
    from sinks.nats.connection import Connection

_FOREIGN = "another publisher writes into the stream {}: set sole_writer: false, or give this sink a stream of its own"


class NatsSink:
    """A record is stored when the stream acknowledged it, or knew its id already.

    With ``sole_writer`` each message of an exchange names the one before it as the last of the stream, so that a
    message which got lost lets none behind it be stored. Otherwise messages about one object wait for each other.

    A connection that breaks is replaced by the next ``deliver``, as is one on which no answer came for
    ``ack_timeout``. What was under way comes again with the same ids, which the stream knows for its
    ``duplicate_window``.
    """

    def __init__(self, name: str, options: NatsOptions, *, cluster: str) -> None:
        self._name = name
        self._options = options
        self._encoder = MessageEncoder(options, cluster)
        self._subjects = stream_subjects(options, cluster)
        self._connection: Connection | None = None
        self._servers: list[str] = []

    async def open(self) -> None:
        await self._connected()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        try:
            connection = await self._connected()
        except SinkUnavailable as error:
            return Receipt(pending=range(len(batch)), trouble=RetryLater(str(error), whole=True))
        messages, rejected = self._encode(batch, connection.max_payload)
        keys = {place: batch[place].ordering_key for place in messages}
        left = list(messages)
        trouble: RetryLater | None = None
        while left and trouble is None:
            places = left if self._options.sole_writer else _first_of_each(left, keys)
            window = await self._exchange(connection, [(place, messages[place]) for place in places])
            rejected |= window.refused
            left = [place for place in left if place not in window.stored and place not in window.refused]
            if window.refused:
                left = not_following(batch, left, rejected)
            trouble = self._trouble_of(window)
        return receipt_of(batch, pending=left, trouble=trouble, rejected=rejected)

    async def check(self) -> str:
        connection = await self._new_connection()
        try:
            return await connection.ensure_stream(
                self._options.model_copy(update={"create_stream": None}), self._subjects
            )
        finally:
            await connection.close()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _exchange(self, connection: Connection, messages: Sequence[tuple[int, Message]]) -> Window:
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

    def _trouble_of(self, window: Window) -> RetryLater | None:
        if window.failure is not None:
            return RetryLater(window.failure)
        if window.chain_broke and not window.excused:
            return RetryLater(_FOREIGN.format(self._options.stream))
        return None

    def _encode(self, batch: Sequence[Record], max_payload: int) -> tuple[dict[int, Message], dict[int, str]]:
        def message_of(record: Record) -> Message:
            message = self._encoder.message(record)
            if message.size > max_payload:
                # The server would end the connection over it, for good.
                raise ValueError(f"{message.size} bytes with its headers; the server takes {max_payload}")
            return message

        return encode_each(batch, message_of)

    async def _connected(self) -> Connection:
        """Raises SinkUnavailable."""
        if self._connection is None or self._connection.closed:
            await self.close()
            connection = await self._new_connection()
            try:
                await connection.ensure_stream(self._options, self._subjects)
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
            self._servers = connection.servers
        return self._connection

    async def _new_connection(self) -> Connection:
        from sinks.nats.connection import Connection

        return await Connection.make(self._options, self._name, self._servers)


def _first_of_each(places: Sequence[int], keys: Mapping[int, object]) -> list[int]:
    """The first place of each key."""
    first: dict[object, int] = {}
    for place in places:
        first.setdefault(keys[place], place)
    return list(first.values())
