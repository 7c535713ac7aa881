"""What is under way: messages that were published and not answered yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from sinks.nats.answers import Failed, OutOfChain, Refused, Stored, answer

LIMIT = 4 * 1024 * 1024
"""Bytes that may be under way. The client holds them until the socket takes them."""


class Window:
    """One exchange with the server. Places are those of the batch.

    Answers come in the order of publishing. After the first failure the rest no longer matters: with a chain it fails
    too, and what it would have stored comes again and is known by its id.
    """

    def __init__(self, progress: Callable[[], None]) -> None:
        """``progress`` is called for every answer that counts."""
        self._progress = progress
        self.stored: dict[int, int] = {}
        """Place → sequence number in the stream."""
        self.duplicates: dict[int, int] = {}
        """Of these, the messages whose ids the stream knew."""
        self.refused: dict[int, str] = {}
        self.answers: dict[int, str] = {}
        """Of these."""
        self.failure: str | None = None
        """Why no more can be stored now."""
        self.no_stream = False
        """… because no stream takes the subject."""
        self.chain_broke = False
        """A message was not stored because it names a predecessor that is not the last one of the stream, or because
        with that name it is too large."""
        self.excused = False
        """… and no wonder: the predecessor was refused, or had been stored before something else; or nobody else is to
        blame, because of the size."""
        self._under_way: dict[int, tuple[int, int, bool]] = {}
        """Number of a message → its place, its size in bytes, and whether it names its predecessor."""
        self._bytes = 0
        self._previous: Stored | Refused | None = None
        self._room_wanted = False
        self._change = asyncio.Event()

    async def room_for(self, size: int) -> None:
        """Return when ``size`` more bytes may be under way, or when nothing matters any longer."""
        while self._bytes and self._bytes + size > LIMIT and not self.broken():
            self._room_wanted = True
            self._change.clear()
            await self._change.wait()
        self._room_wanted = False

    def sent(self, number: int, place: int, size: int, *, chained: bool = False) -> None:
        """``chained``: it names its predecessor."""
        self._under_way[number] = (place, size, chained)
        self._bytes += size

    def broken(self) -> bool:
        """Publishing more is of no use."""
        return self.chain_broke or self.failure is not None

    def heard(self, number: int, headers: Mapping[str, str] | None, payload: bytes) -> None:
        place, size, chained = self._under_way.pop(number, (-1, 0, False))
        if place < 0 or self.broken():
            return  # An answer to an earlier exchange, or to one of those that no longer matter.
        self._bytes -= size
        self._progress()
        match answer(headers, payload):
            case Stored() as stored:
                self.stored[place] = stored.sequence
                if stored.duplicate:
                    self.duplicates[place] = stored.sequence
                self._previous = stored
            case Refused() if chained:
                self.chain_broke = self.excused = True
            case Refused(reason, said) as refused:
                self.refused[place], self.answers[place] = reason, said
                self._previous = refused
            case OutOfChain():
                self.chain_broke = True
                self.excused = isinstance(self._previous, Refused) or (
                    isinstance(self._previous, Stored) and self._previous.duplicate
                )
            case Failed(reason, no_stream):
                self.failure, self.no_stream = reason, no_stream
        if self._room_wanted or self.broken() or not self._under_way:
            self._change.set()

    def fail(self, reason: str) -> None:
        self.failure = self.failure or reason
        self._change.set()

    async def answered(self) -> None:
        """All has been published: return when it is answered, or when it no longer matters."""
        while self._under_way and not self.broken():
            self._change.clear()
            await self._change.wait()
