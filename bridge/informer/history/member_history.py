"""The interface of an API server's history for a single informer."""

from __future__ import annotations

from typing import Protocol

from bridge.informer.history.history import History
from bridge.informer.history.member import Member
from bridge.informer.history.outcomes import OtherHistory, Proof, SameHistory


class MemberHistory(Protocol):
    """``history.History`` for a single member."""

    async def prove(self) -> Proof:
        """Whether the server's history is the known history, at a moment after the call."""
        ...

    async def disprove(self, other: OtherHistory) -> None:
        """Announces another history to the other members. Durable when this returns."""
        ...

    async def renew(self) -> None:
        """Begins another epoch for this member alone. Durable when this returns."""
        ...

    @property
    def is_assured(self) -> bool:
        """An answer that comes at this moment is of the known history, or no member knows anything."""
        ...

    def assure(self, at: float) -> None:
        """An answer that came at this time, on the event loop's clock, is of the known history."""
        ...

    def connection_broke(self) -> None:
        """A connection broke: the server may have another store now."""
        ...


class TrustedHistory:
    """The history of a server that is never restored from a backup."""

    is_assured = True

    async def prove(self) -> Proof:
        return SameHistory()

    async def disprove(self, other: OtherHistory) -> None:
        pass

    async def renew(self) -> None:
        pass

    def assure(self, at: float) -> None:
        pass

    def connection_broke(self) -> None:
        pass


class Membership:
    """The History of a server, for a single member."""

    def __init__(self, history: History, member: Member) -> None:
        self._history = history
        self._member = member

    async def prove(self) -> Proof:
        await self._member.wait_processed()  # The proof compares known versions: queued deltas must be among them.
        return await self._history.prove(self._member)

    async def disprove(self, other: OtherHistory) -> None:
        await self._history.disprove(self._member, other)

    @property
    def is_assured(self) -> bool:
        return self._history.is_assured(self._member)

    def assure(self, at: float) -> None:
        self._history.assure(at)

    def connection_broke(self) -> None:
        self._history.connection_broke()

    async def renew(self) -> None:
        await self._history.renew(self._member)
