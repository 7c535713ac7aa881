"""The messages of an exchange that are in flight: published, and not answered yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from sinks.nats.connection import MOST_UNANSWERED
from sinks.nats.jetstream.pub_ack import Acknowledged, MessageRejected, PublishFailed, WrongLastMessage, read_answer


class PublishWindow:
    """The messages of an exchange that were published and not answered yet. Indexes are those of the batch.

    Answers come in the order of publishing. After the first failure or refusal later answers are ignored: the stream
    refuses these messages too, and a message that was stored all the same comes again and is known by its id.
    """

    def __init__(self, on_answer: Callable[[], None], last: int | None = None) -> None:
        """``on_answer`` is called for every answer that is not ignored. ``last``: the number of the stream's last
        message, if messages name it."""
        self._on_answer = on_answer
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
        self.excused = False
        """No other writer caused ``refused``: the stream did not store all messages before it, and no other either."""
        self._in_flight: dict[int, tuple[int, int]] = {}
        """Number of the publish → index, and size in bytes."""
        self._bytes = 0
        self._waits_for_room = False
        self._change = asyncio.Event()

    async def room_for(self, size: int) -> None:
        """Returns when the window has room for ``size`` more bytes, or is broken."""
        # A message that is larger than the window is sent when the window is empty.
        while self._bytes and self._bytes + size > MOST_UNANSWERED and not self.broken():
            self._waits_for_room = True
            self._change.clear()
            await self._change.wait()
        self._waits_for_room = False

    def sent(self, number: int, index: int, size: int) -> None:
        self._in_flight[number] = (index, size)
        self._bytes += size

    def broken(self) -> bool:
        """Further messages of this exchange would not be stored."""
        return self.refused is not None or self.failure is not None

    def answered(self, number: int, headers: Mapping[str, str] | None, payload: bytes) -> None:
        """The server's answer to the publish with this number."""
        index, size = self._in_flight.pop(number, (-1, 0))
        if index < 0 or self.broken():
            return  # An answer to an earlier exchange, or behind the first failure.
        self._bytes -= size
        self._on_answer()
        match read_answer(headers, payload):
            case Acknowledged(sequence, duplicate):
                self.stored[index] = sequence
                if duplicate:
                    self.duplicates[index] = sequence
                elif self.last is not None:
                    self.last = sequence
            case MessageRejected() as rejected:
                self.rejected[index] = rejected
            case WrongLastMessage() as refused:
                self.refused, self.excused = refused, self._excuses(refused)
            case PublishFailed() as failure:
                self.failure = failure
        if self._waits_for_room or self.broken() or not self._in_flight:
            self._change.set()

    def _excuses(self, refused: WrongLastMessage) -> bool:
        if refused.last is not None:
            return refused.last == self.last
        return bool(self.duplicates or self.rejected)

    def fail(self, reason: str) -> None:
        self.failure = self.failure or PublishFailed(reason)
        self._change.set()

    async def all_answered(self) -> None:
        """Returns when every published message is answered, or the window is broken."""
        while self._in_flight and not self.broken():
            self._change.clear()
            await self._change.wait()
