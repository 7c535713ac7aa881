"""Hands messages to the server without a stream (``mode: core``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from sinks.nats.connection import MOST_UNANSWERED, NatsConnection
from sinks.nats.encode import NatsMessage
from sinks.receipt import WITHHELD, BatchResult, Receipt, RetryLater


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
        ``AsksToSend``; asked before each part."""
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
            if part and size > MOST_UNANSWERED:
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
