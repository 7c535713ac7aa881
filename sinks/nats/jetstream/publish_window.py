"""The messages of an exchange that are in flight: published, and not answered yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from bridge.model.record import NO_OBJECT, OrderingKey
from sinks.nats.connection import MOST_UNANSWERED
from sinks.nats.jetstream.pub_ack import Acknowledged, MessageRejected, PublishFailed, WrongLastMessage, read_answer


class PublishWindow:
    """The messages of an exchange that were published and not answered yet. Indexes are those of the batch, and ascend.

    A replicated stream answers at once what it does not store, and the messages before it later. Behind the first
    message that the stream does not take, answers are ignored: it takes none of these messages either, and one that was
    stored all the same comes again and is known by its id.
    """

    def __init__(self, on_answer: Callable[[], None], last: int | None = None, most: int | None = None) -> None:
        """``on_answer`` is called for every answer that is not ignored. ``last``: the number of the stream's last
        message, if messages name it. ``most``: see ``room_for``."""
        self._on_answer, self._most = on_answer, most
        self.last = last
        """The number of the stream's last message, as far as answers tell; None if none is known."""
        self.stored: dict[int, int] = {}
        """Index → number of the message in the stream."""
        self.duplicates: dict[int, int] = {}
        """The part of ``stored`` whose ids the stream knew before."""
        self.rejected: dict[int, MessageRejected] = {}
        self.failure: PublishFailed | None = None
        """The stream takes no more messages now."""
        self.refused: WrongLastMessage | None = None
        """A message was not stored because the number that it names is not that of the stream's last message."""
        self._cut: int | None = None
        """The index of the first message that the stream does not take."""
        self._in_flight: dict[int, tuple[int, int, OrderingKey | None]] = {}
        """Number of the publish → index, size in bytes, and object."""
        self._objects: set[OrderingKey | None] = set()
        self._bytes = 0
        self._wakes_at = 0
        """Messages in flight for which a waiting sender waits."""
        self._change = asyncio.Event()

    async def room_for(self, size: int, named: int | None = None, key: OrderingKey | None = None) -> bool:
        """Waits until a message of ``size`` bytes may leave. False: none may leave any more. With ``most``, it may name
        a number that is larger than the last known one by less than that, and none of its object (``key``) is in
        flight. A notice has none beside it."""
        while not self.broken():
            if self._has_room(size) and (self._most is None or named is None or self._is_near(named, key)):
                return True
            if not self._in_flight:
                return False
            # Half as many: one message for each answer would cost a write to the socket each.
            self._wakes_at = len(self._in_flight) // 2
            self._change.clear()
            await self._change.wait()
            self._wakes_at = 0
        return False

    def _has_room(self, size: int) -> bool:
        # A message that is larger than the window is sent when the window is empty.
        return not self._bytes or self._bytes + size <= MOST_UNANSWERED

    def _is_near(self, named: int, key: OrderingKey | None) -> bool:
        if self._most is None or self.last is None or named - self.last >= self._most:
            return False
        if key == NO_OBJECT or NO_OBJECT in self._objects:
            return not self._in_flight
        return key not in self._objects

    def sent(self, number: int, index: int, size: int, key: OrderingKey | None = None) -> None:
        self._in_flight[number] = (index, size, key)
        self._bytes += size
        if key is not None:
            self._objects.add(key)

    def broken(self) -> bool:
        """Further messages of this exchange would not be stored."""
        return self.refused is not None or self.failure is not None

    @property
    def excused(self) -> bool:
        """No other writer caused ``refused``: the stream has not stored all messages before it, and no other either."""
        if self.refused is not None and self.refused.last is not None:
            return self.refused.last == self.last
        return bool(self.duplicates or self.rejected)

    def answered(self, number: int, headers: Mapping[str, str] | None, payload: bytes) -> None:
        """The server's answer to the publish with this number."""
        index, size, key = self._in_flight.pop(number, (-1, 0, None))
        if index < 0 or (self._cut is not None and index > self._cut):
            return  # An answer to an earlier exchange, or behind the first message that was not taken.
        self._bytes -= size
        self._objects.discard(key)
        self._on_answer()
        answer = read_answer(headers, payload)
        if isinstance(answer, Acknowledged):
            self.stored[index] = answer.sequence
            if answer.duplicate:
                self.duplicates[index] = answer.sequence
            elif self.last is not None:
                self.last = answer.sequence
        elif isinstance(answer, MessageRejected):
            self.rejected[index] = answer
        else:
            self._end(index, answer)
        if len(self._in_flight) <= self._wakes_at or self.broken():
            self._change.set()

    def _end(self, cut: int, answer: WrongLastMessage | PublishFailed) -> None:
        self._cut = cut
        for known in (self.stored, self.duplicates, self.rejected):
            for index in [each for each in known if each > cut]:
                del known[index]
        self.refused = answer if isinstance(answer, WrongLastMessage) else None
        self.failure = answer if isinstance(answer, PublishFailed) else None

    def fail(self, reason: str) -> None:
        """No answer comes any more."""
        self.failure = self.failure or PublishFailed(reason)
        self._in_flight.clear()
        self._change.set()

    async def all_answered(self) -> None:
        """Returns when every published message is answered, up to the first that the stream does not take."""
        while self._awaits():
            self._change.clear()
            await self._change.wait()

    def _awaits(self) -> bool:
        first = next(iter(self._in_flight.values()), None)
        return first is not None and (self._cut is None or first[0] < self._cut)
