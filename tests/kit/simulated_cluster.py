"""An API server in a few lines, for one resource: versions, history, pages, watches, WatchList; and what goes wrong.

It speaks the ListerWatcher's words, needs no network, and remembers what it sent, so that a test can compare.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec.structs import replace

from bridge.model.answers import (
    Announced,
    Bookmark,
    ErrorAnswer,
    EventType,
    Expired,
    HungUp,
    ListAnswer,
    ListRequest,
    Match,
    Opened,
    Page,
    Part,
    Silent,
    TakePart,
    TooLarge,
    Unreadable,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.object import ApiObject
from tests.kit.objects import Blueprint, a_pod

Event: TypeAlias = tuple[EventType, ApiObject]
End: TypeAlias = HungUp | Silent | ErrorAnswer


@dataclass(eq=False, slots=True)
class _Watch:
    at: int
    """Everything up to this version has been put into ``coming``."""
    epoch: int
    after: int = 0
    """What happened up to this version belongs to no watch from it, though it may be sent."""
    coming: deque[WatchAnswer] = field(default_factory=deque)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, answer: WatchAnswer) -> None:
        self.coming.append(answer)
        self.news.set()


class SimulatedCluster:
    """Writes are at once known to every watch, in order. A restore takes versions back; later writes use them again."""

    def __init__(self, *, page_size: int = 2) -> None:
        self.version = 1
        self.oldest = 1
        """Watches, continue tokens and lists at versions from before it are expired."""
        self.cached_from = 1
        """Watches from before it are expired."""
        self.ignores_exact = False
        """Lists at a version show the newest state, as an aggregated server may."""
        self.history: list[tuple[int, Event]] = []
        self.states: dict[int, dict[str, ApiObject]] = {1: {}}
        self.announced: list[Event] = []
        """Every event that a plain watch has sent readably, and that a watch from its version is to send."""
        self.unreadable_keys: set[str] = set()
        """Objects that no list can show."""
        self.next_answers: deque[ErrorAnswer] = deque()
        """Instead of an answer to the next requests."""
        self.behind = 0
        """So many versions every cache is behind."""
        self.catches_up = False
        """A WatchList sends the changes that its cache lacked before its closing bookmark, not after it."""
        self.chunk = 1000
        """Events that come at once."""
        self.repeats = False
        """A watch begins with the change that has its version, which was sent before."""
        self.latency = 0.0
        """Seconds before a request is answered."""
        self.newest_exported = 0
        """The newest version that any answer named since the last restore."""
        self.lost = False
        """An event was sent to nobody."""
        self.epochs = 1
        self.requests: list[ListRequest | WatchRequest] = []
        self.proofs: list[ListRequest] = []
        """Lists that ask for no more than one object, or for a version; they are not among the requests."""
        self._newborn: dict[str, Blueprint] = {}
        self._by_uid: dict[str, Blueprint] = {}
        self._page_size = page_size
        self._watches: dict[_Watch, None] = {}
        self._spoil: str | None = None

    # ── The cluster lives ────────────────────────────────────────────────────

    @property
    def objects(self) -> dict[str, ApiObject]:
        return self.states[self.version]

    def put(self, name: str) -> None:
        """Create it, or change it where it exists."""
        existing = self.objects.get(a_pod(name).key)
        blueprint = self._by_uid[existing.uid] if existing else self._another(name)
        thing = blueprint.at(self.version + 1, epoch=self.epochs)
        self._write(EventType.MODIFIED if existing else EventType.ADDED, thing)

    def delete(self, name: str) -> None:
        if existing := self.objects.get(a_pod(name).key):
            thing = self._by_uid[existing.uid].at(self.version + 1, epoch=self.epochs, last=True)
            self._write(EventType.DELETED, thing)

    def _another(self, name: str) -> Blueprint:
        former = self._newborn.get(name)
        blueprint = self._newborn[name] = former.born_again() if former else a_pod(name)
        self._by_uid[blueprint.uid] = blueprint
        return blueprint

    def _write(self, kind: EventType, thing: ApiObject) -> None:
        state = dict(self.objects)
        if kind is EventType.DELETED:
            del state[thing.key]
        else:
            state[thing.key] = thing
        self.version = int(thing.resource_version)
        self.states[self.version] = state
        self.history.append((self.version, (kind, thing)))
        spoil, self._spoil = self._spoil, None
        for watch in self._watches:
            self._announce(watch, (kind, thing), spoil)

    def _announce(self, watch: _Watch, event: Event, spoil: str | None) -> None:
        watch.at = int(event[1].resource_version)
        match spoil:
            case None:
                watch.send(Announced([event]))
            case "lost":
                self.lost = True
            case "unreadable":
                watch.send(Unreadable("no metadata"))
            case "twice":
                watch.send(Announced([event, event]))
            case "again":
                watch.send(Announced([event]))
                watch.send(Announced([event]))

    # ── What goes wrong ──────────────────────────────────────────────────────

    def spoil_next_event(self, how: str | None) -> None:
        """``lost``, ``unreadable``, ``twice`` or, by itself, ``again``; None for an event sent as it should be."""
        self._spoil = how

    def compact(self) -> None:
        """Forget history: whoever is not watching right now is too late."""
        self.oldest = self.version

    def restart(self) -> None:
        """Empties the watch cache: whoever is watching is too late, and lists at versions go on."""
        self.cached_from = self.version
        self.end_watches(HungUp("the server restarts"))

    def end_watches(self, end: End, *, in_the_middle: bool = False) -> None:
        """After everything that happened was sent, or in the middle of it."""
        for watch in self._watches:
            if in_the_middle:
                watch.coming.clear()
            watch.send(end)
        self._watches = {}

    def restore(self, version: int) -> None:
        """Back to an older state, as from a backup; the numbers begin anew from there."""
        if version not in self.states or version >= self.version:
            return
        self.epochs += 1
        self.newest_exported = version
        self.end_watches(HungUp("the server restarts"))
        self.states = {each: state for each, state in self.states.items() if each <= version}
        self.history = [entry for entry in self.history if entry[0] <= version]
        self.version = version
        self.oldest = self.cached_from = version

    def send_bookmark(self) -> None:
        for watch in self._watches:
            watch.send(Bookmark(str(watch.at)))

    # ── What it answers ──────────────────────────────────────────────────────

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        """All objects of a page but the last come before the page is over."""
        answer = await self._list(request)
        if take is None or not isinstance(answer, Page) or len(answer.objects) < 2:
            return answer
        await take(Part(answer.objects[:-1], answer.version))
        return replace(answer, objects=answer.objects[-1:])

    async def _list(self, request: ListRequest) -> ListAnswer:
        is_proof = request.limit == 1 or request.only is not None or request.match is Match.EXACT
        (self.proofs if is_proof else self.requests).append(request)
        await asyncio.sleep(self.latency)
        if self.next_answers:
            return self.next_answers.popleft()
        if request.match is Match.EXACT:
            return self._exact(int(request.version), request)
        if request.next_page is not None:
            version, start = map(int, request.next_page.split("/"))
            if version < self.oldest or version not in self.states:
                return Expired("the continue token is too old")
        else:
            if request.version not in ("", "0") and int(request.version) > self.version:
                return TooLarge("not there yet")
            version, start = self._cached(request.version), 0
        if request.only is not None:
            return self._one(version, request.only)
        return self._page(version, start, request.limit)

    def _exact(self, version: int, request: ListRequest) -> ListAnswer:
        if version > self.version:
            return TooLarge("not there yet")
        if version < self.oldest:
            return Expired("compacted")
        shown = self.version if self.ignores_exact else max(each for each in self.states if each <= version)
        if request.only is None:
            found = Page(list(self.states[shown].values())[: request.limit], "", None)
        else:
            found = self._one(shown, request.only)
        return replace(found, version=str(shown if self.ignores_exact else version))

    def _one(self, version: int, key: str) -> Page:
        thing = self.states[version].get(key)
        return Page([] if thing is None else [thing], str(version), None)

    def _cached(self, at_least: str) -> int:
        """What an API server shows that may be behind: not older than what was asked for; "" is always the newest."""
        if not at_least:
            return self.version
        cached = [each for each in sorted(self.states) if each >= max(int(at_least), self.oldest)]
        return cached[max(0, len(cached) - 1 - self.behind)] if cached else self.version

    def _page(self, version: int, start: int, limit: int) -> Page:
        self.newest_exported = max(self.newest_exported, version)
        keys = sorted(self.states[version])
        end = start + min(limit, self._page_size) if limit else len(keys)
        shown = [key for key in keys[start:end] if key not in self.unreadable_keys]
        return Page(
            [self.states[version][key] for key in shown],
            str(version),
            f"{version}/{end}" if end < len(keys) else None,
            ("an item has no uid",) * (len(keys[start:end]) - len(shown)),
        )

    @asynccontextmanager
    async def watch(self, request: WatchRequest) -> AsyncGenerator[AsyncIterator[WatchAnswer]]:
        self.requests.append(request)
        await asyncio.sleep(self.latency)
        watch = _Watch(self.version, self.epochs)
        failure = self._refusal(request)
        if failure is not None:
            watch.send(failure)
        else:
            watch.send(Opened())
            self._begin(watch, request)
        try:
            yield self._received(watch, initial=request.initial_events)
        finally:
            self._watches.pop(watch, None)

    def _refusal(self, request: WatchRequest) -> ErrorAnswer | None:
        if self.next_answers:
            return self.next_answers.popleft()
        if request.version and int(request.version) > self.version:
            return TooLarge("not there yet")
        if not request.initial_events and int(request.version) < max(self.oldest, self.cached_from):
            return Expired("too old resource version")
        return None

    def _begin(self, watch: _Watch, request: WatchRequest) -> None:
        self._watches[watch] = None
        begins = self._cached(request.version) if request.initial_events else int(request.version)
        first = begins if self.repeats and not request.initial_events else begins + 1
        since = [Announced([event]) for version, event in self.history if version >= first]
        if not request.initial_events:
            watch.after = begins
            watch.coming.extend(since)
            return
        for key, thing in self.states[begins].items():
            bad = key in self.unreadable_keys
            watch.send(Unreadable("no uid") if bad else Announced([(EventType.ADDED, thing)]))
        if self.catches_up:
            watch.coming.extend(since)
            watch.send(Bookmark(str(self.version), initial_events_end=True))
        else:
            watch.send(Bookmark(str(begins), initial_events_end=True))
            watch.coming.extend(since)

    async def _received(self, watch: _Watch, *, initial: bool) -> AsyncGenerator[WatchAnswer]:
        while True:
            while not watch.coming:
                watch.news.clear()
                await watch.news.wait()
            answer = watch.coming.popleft()
            if isinstance(answer, Announced):
                answer = self._batch(answer, watch)
                if not initial:
                    self.announced += [each for each in answer.events if int(each[1].resource_version) > watch.after]
                self._reported_of(watch, *(thing.resource_version for _, thing in answer.events))
            elif isinstance(answer, Bookmark):
                self._reported_of(watch, answer.version)
                initial = initial and not answer.initial_events_end
            yield answer
            if isinstance(answer, End):
                return

    def _reported_of(self, watch: _Watch, *versions: str) -> None:
        if watch.epoch == self.epochs:
            self.newest_exported = max(self.newest_exported, *map(int, versions))

    def _batch(self, first: Announced, watch: _Watch) -> Announced:
        events = list(first.events)
        while len(events) < self.chunk and watch.coming and isinstance(watch.coming[0], Announced):
            following = watch.coming.popleft()
            assert isinstance(following, Announced)
            events += following.events
        return Announced(events)
