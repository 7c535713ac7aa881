"""The messages of an exchange that are in flight: published, and not answered yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from sinks.nats.connection import MOST_UNANSWERED
from sinks.nats.jetstream.pub_ack import Acknowledged, MessageRejected, PublishFailed, WrongLastMessage, read_answer


class PublishWindow:
    """The messages of an exchange that were published and not answered yet. Indexes are those of the batch.

    Answers come in the order of publishing. After the first failure later answers are ignored: with a chain these
    messages fail too, and a message that was stored all the same comes again and is known by its id.
    """

    def __init__(self, on_answer: Callable[[], None]) -> None:
        """``on_answer`` is called for every answer that is not ignored."""
        self._on_answer = on_answer
        self.stored: dict[int, int] = {}
        """Index → number of the message in the stream."""
        self.duplicates: dict[int, int] = {}
        """The part of ``stored`` whose ids the stream knew before."""
        self.rejected: dict[int, MessageRejected] = {}
        self.failure: PublishFailed | None = None
        """The stream takes no more messages now."""
        self.chain_broke = False
        """A message was not stored because the predecessor that it names is not the last message of the stream, or
        because the name of the predecessor makes the message too large."""
        self.chain_excused = False
        """No other writer caused ``chain_broke``: the predecessor was rejected, or is a duplicate from further ahead in
        the stream; or the size is the cause."""
        self._in_flight: dict[int, tuple[int, int, bool]] = {}
        """Number of the publish → index, size in bytes, and whether the message names its predecessor."""
        self._bytes = 0
        self._previous: Acknowledged | MessageRejected | None = None
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

    def sent(self, number: int, index: int, size: int, *, chained: bool = False) -> None:
        """``chained``: the message names its predecessor."""
        self._in_flight[number] = (index, size, chained)
        self._bytes += size

    def broken(self) -> bool:
        """Further messages of this exchange would not be stored."""
        return self.chain_broke or self.failure is not None

    def answered(self, number: int, headers: Mapping[str, str] | None, payload: bytes) -> None:
        """The server's answer to the publish with this number."""
        index, size, chained = self._in_flight.pop(number, (-1, 0, False))
        if index < 0 or self.broken():
            return  # An answer to an earlier exchange, or behind the first failure.
        self._bytes -= size
        self._on_answer()
        match read_answer(headers, payload):
            case Acknowledged() as acknowledged:
                self.stored[index] = acknowledged.sequence
                if acknowledged.duplicate:
                    self.duplicates[index] = acknowledged.sequence
                self._previous = acknowledged
            case MessageRejected() if chained:
                # It may be too large because of the predecessor's name: it is sent again without that name.
                self.chain_broke = self.chain_excused = True
            case MessageRejected() as rejected:
                self.rejected[index] = rejected
                self._previous = rejected
            case WrongLastMessage():
                self.chain_broke = True
                self.chain_excused = isinstance(self._previous, MessageRejected) or (
                    isinstance(self._previous, Acknowledged) and self._previous.duplicate
                )
            case PublishFailed() as failure:
                self.failure = failure
        if self._waits_for_room or self.broken() or not self._in_flight:
            self._change.set()

    def fail(self, reason: str) -> None:
        self.failure = self.failure or PublishFailed(reason)
        self._change.set()

    async def all_answered(self) -> None:
        """Returns when every published message is answered, or the window is broken."""
        while self._in_flight and not self.broken():
            self._change.clear()
            await self._change.wait()
