"""Publishes entries that a bucket stores for the present leader alone."""

from __future__ import annotations

from collections.abc import Sequence

from sinks.errors import SinkUnavailable
from sinks.nats.delivery import NatsDelivery
from sinks.nats.jetstream.leading import StreamInDoubt
from sinks.nats.jetstream.publish_window import PublishWindow

MOST_IN_FLIGHT = 100
"""Entries of an exchange. A takeover writes as many markers. Never a larger number: the leader of an earlier version
would write too few of them."""


class FencedDelivery(NatsDelivery):
    """Each message names the number that the last message of the bucket has if all before it are stored.

    No message names the id of another, as those of the history do: a replicated stream of nats-server 2.15 stops for
    good at an id that is not the expected one. So, where the first messages of an exchange are refused because of a
    marker, the bucket may reach the number that a later one expects. It never does behind ``MOST_IN_FLIGHT`` markers.
    """

    async def append_all(self) -> int:
        """Stores all messages, in their order and with no other in between; at most ``MOST_IN_FLIGHT``. Returns the
        number of the last one. Raises StreamInDoubt if the bucket has another writer, and SinkUnavailable."""
        before, messages = self.last, list(self._messages)
        window = await self._publish_all(messages)
        failure = await self._failure_of(window)
        if failure is not None and failure.doubted:
            raise StreamInDoubt(failure.reason)
        if failure is not None:
            raise SinkUnavailable(f"{self._stream.name}: {failure.reason}")
        for rejected in window.rejected.values():
            raise SinkUnavailable(f"{self._stream.name} refuses the marker of a term: {rejected.reason}")
        numbers = [window.stored[index] for index in messages]
        if before is None or numbers != list(range(before + 1, before + 1 + len(numbers))):
            raise StreamInDoubt(self._stream.other_writer)
        return numbers[-1]

    async def _exchange(self, pending: Sequence[int]) -> PublishWindow:
        return await super()._exchange(pending[:MOST_IN_FLIGHT])

    async def _publish(self, indexes: Sequence[int], window: PublishWindow) -> None:
        if self.last is None:
            raise RuntimeError("the number of the bucket's last message is unknown")
        for last, index in enumerate(indexes, self.last):
            message = self._messages[index]
            headers, size = message.behind(last)
            await window.room_for(size)
            if window.broken():
                return
            number = await self._connection.publish(message.subject, message.payload, headers)
            window.sent(number, index, size)
