"""A ListerWatcher that plays prepared answers and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, TypedDict, cast

from bridge.informer.history.history import History
from bridge.informer.history.member import Member
from bridge.informer.history.proof import OtherHistory, Proof, SameHistory
from bridge.model.answers import (
    Announced,
    Bookmark,
    Busy,
    EventType,
    Expired,
    Failed,
    HungUp,
    ListAnswer,
    ListRequest,
    Opened,
    Oversized,
    Page,
    Part,
    Refused,
    Silent,
    TakePart,
    TooLarge,
    Unsupported,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.object import ApiObject

CLOSING = HungUp | Silent | Expired | TooLarge | Busy | Refused | Unsupported | Failed


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing comes for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Asked:
    request: ListRequest | WatchRequest
    at: float
    """Seconds on the event loop's clock."""


@dataclass(frozen=True, slots=True)
class InParts:
    """A page that comes in parts, and what it ends with."""

    parts: Sequence[Part]
    answer: ListAnswer


Stream: TypeAlias = Sequence[WatchAnswer | Quiet]
Turn: TypeAlias = ListAnswer | InParts | Stream
"""The answer to one request: to a list a page or an error, to a watch an error or any other answers. A watch whose last
answer closes nothing stays open and silent for ever."""


class WrongRequest(AssertionError):
    """A list was asked for where the script has a watch, or the other way round."""


class ScriptedSource:
    """Plays one turn a request. ``played`` is set when all that was prepared has been taken; a request beyond the
    script is never answered."""

    def __init__(self, *script: Turn) -> None:
        self._script = list(script)
        self.asked: list[Asked] = []
        self.open = 0
        """Watches that are open at this moment."""
        self.played = asyncio.Event()

    @property
    def requests(self) -> list[ListRequest | WatchRequest]:
        return [asked.request for asked in self.asked]

    @property
    def pauses(self) -> list[float]:
        """Seconds between one request and the next."""
        times = [asked.at for asked in self.asked]
        return [round(later - sooner, 6) for sooner, later in pairwise(times)]

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        """Of ``InParts``, parts before the answer."""
        turn = await self._turn(request)
        if isinstance(turn, InParts):
            assert take is not None
            for part in turn.parts:
                await take(part)
            turn = turn.answer
        if isinstance(turn, Sequence):
            raise WrongRequest(f"{request} where the script has a watch: {turn}")
        self._check_played()
        return turn

    @asynccontextmanager
    async def watch(self, request: WatchRequest) -> AsyncGenerator[AsyncIterator[WatchAnswer]]:
        turn = await self._turn(request)
        if isinstance(turn, Page | InParts | Oversized):
            raise WrongRequest(f"{request} where the script has a list: {turn}")
        self.open += 1
        try:
            yield self._play(turn if isinstance(turn, Sequence) else [turn])
        finally:
            self.open -= 1

    async def _play(self, stream: Stream) -> AsyncGenerator[WatchAnswer]:
        for answer in stream:
            if isinstance(answer, Quiet):
                await asyncio.sleep(answer.seconds)
            elif isinstance(answer, CLOSING):
                self._check_played()
                yield answer
                return
            else:
                yield answer
        self._check_played()
        await asyncio.Event().wait()

    async def _turn(self, request: ListRequest | WatchRequest) -> Turn:
        self.asked.append(Asked(request, asyncio.get_running_loop().time()))
        if not self._script:
            self._check_played()
            await asyncio.Event().wait()
        return self._script.pop(0)

    def _check_played(self) -> None:
        if not self._script:
            self.played.set()


class TakenOnTrust(History):
    """Of a server whose proofs are not in the script."""

    async def prove(self, member: object) -> Proof:
        return SameHistory()


class TrustedHistory(TakenOnTrust):
    """Is the known history at every moment: of a server that is never restored from a backup."""

    async def disprove(self, member: Member, other: OtherHistory) -> None:
        pass

    async def renew(self, member: Member) -> None:
        pass

    def is_assured(self, member: Member) -> bool:
        return True


class _Nobody:
    async def wait_processed(self) -> None:
        pass


class OfHistory(TypedDict):
    history: History
    member: Member


def trusted() -> OfHistory:
    """Arguments of a Reflector without an informer around it."""
    return {"history": TrustedHistory(), "member": cast("Member", _Nobody())}


# ── Answers in short ─────────────────────────────────────────────────────────


def part(*objects: ApiObject, at: str | int) -> Part:
    return Part(list(objects), str(at))


def page(*objects: ApiObject, at: str | int, next_page: str | None = None, unreadable: tuple[str, ...] = ()) -> Page:
    return Page(list(objects), str(at), next_page, unreadable)


def added(*objects: ApiObject) -> Announced:
    return Announced([(EventType.ADDED, thing) for thing in objects])


def modified(*objects: ApiObject) -> Announced:
    return Announced([(EventType.MODIFIED, thing) for thing in objects])


def deleted(*objects: ApiObject) -> Announced:
    return Announced([(EventType.DELETED, thing) for thing in objects])


def opened(*answers: WatchAnswer | Quiet) -> Stream:
    """A watch that the server accepts."""
    return [Opened(), *answers]


def closing_bookmark(version: str | int) -> Bookmark:
    return Bookmark(str(version), initial_events_end=True)
