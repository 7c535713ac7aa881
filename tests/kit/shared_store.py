"""One store behind an API server, with several resources in it; it can be restored from any backup of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from bridge.model.answers import (
    Announced,
    ErrorAnswer,
    Failed,
    HungUp,
    ListAnswer,
    ListRequest,
    Page,
    Part,
    TakePart,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.object import ApiObject
from tests.kit.simulated_cluster import Event, SimulatedCluster

BROKE = HungUp("the connection broke", torn=True)


@dataclass(frozen=True)
class Backup:
    """A state of the store, and how it came to it."""

    version: int
    oldest: int
    history: list[tuple[int, Event]]
    states: dict[int, dict[str, ApiObject]]


class SharedStore(SimulatedCluster):
    """Its resources have one counter of versions; an object is of the resource whose prefix its name begins with."""

    def __init__(self) -> None:
        super().__init__()
        self._down_until = float("-inf")

    def back_up(self) -> Backup:
        return Backup(self.version, self.oldest, list(self.history), dict(self.states))

    def restore_from(self, backup: Backup, seconds: float) -> None:
        """Every connection breaks, and no request is answered for so many seconds."""
        self.end_watches(BROKE)
        self.epochs += 1
        self.version, self.oldest, self.cached_from = backup.version, backup.oldest, 1
        self.history, self.states = list(backup.history), dict(backup.states)
        self._down_until = asyncio.get_running_loop().time() + seconds

    def fork(self, backup: Backup) -> int:
        """The newest version up to which both are one history."""
        both = zip(self.history, backup.history, strict=False)
        return max((mine[0] for mine, its in both if mine == its), default=1)

    def _refused(self, epochs: int) -> ErrorAnswer | None:
        if self.epochs != epochs or asyncio.get_running_loop().time() < self._down_until:
            return Failed("no connection")
        return None

    async def _list(self, request: ListRequest) -> ListAnswer:
        epochs = self.epochs
        answer = await super()._list(request)
        return self._refused(epochs) or answer

    @asynccontextmanager
    async def watch(self, request: WatchRequest) -> AsyncGenerator[AsyncIterator[WatchAnswer]]:
        epochs = self.epochs
        async with super().watch(request) as answers:
            if refused := self._refused(epochs):
                yield _only(refused)
            else:
                yield answers


async def _only(answer: WatchAnswer) -> AsyncGenerator[WatchAnswer]:
    yield answer


class View:
    """One resource of the store: a ListerWatcher."""

    def __init__(self, store: SharedStore, prefix: str) -> None:
        self._store = store
        self._prefix = f"shop/{prefix}"
        self.away: ErrorAnswer | None = None
        """The answer to every request: a failing conversion webhook, or a server of a group that is away."""

    @property
    def objects(self) -> dict[str, ApiObject]:
        return {key: thing for key, thing in self._store.objects.items() if key.startswith(self._prefix)}

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        answer = await self._store._list(request)
        answer = self.away or answer
        if not isinstance(answer, Page):
            return answer
        mine = [thing for thing in answer.objects if thing.key.startswith(self._prefix)]
        if take is None or len(mine) < 2:
            return replace(answer, objects=mine)
        await take(Part(mine[:-1], answer.version))
        return replace(answer, objects=mine[-1:])

    @asynccontextmanager
    async def watch(self, request: WatchRequest) -> AsyncGenerator[AsyncIterator[WatchAnswer]]:
        async with self._store.watch(request) as answers:
            yield _only(self.away) if self.away else self._mine(answers)

    async def _mine(self, answers: AsyncIterator[WatchAnswer]) -> AsyncGenerator[WatchAnswer]:
        async for answer in answers:
            if isinstance(answer, Announced):
                events = [event for event in answer.events if event[1].key.startswith(self._prefix)]
                if events:
                    yield Announced(events)
            else:
                yield answer
