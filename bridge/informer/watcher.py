"""Drives the Reflector: makes its requests, keeps its deadlines, and fills the DeltaFIFO."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable

from bridge.facts import (
    InputUnreadable,
    ListEnded,
    Report,
    RequestFailed,
    ResourceRefused,
    VersionsRanBackwards,
    WatchEnded,
    WatchOpened,
)
from bridge.informer import reflector, states
from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.list_limiter import ListLimiter
from bridge.informer.pacing import Pacing, Timing
from bridge.informer.states import (
    Answer,
    Doubting,
    Happened,
    ListBegan,
    Listed,
    Listing,
    NotSynced,
    Overdue,
    RanBackwards,
    Reached,
    RepairDue,
    Step,
    Streaming,
    Synced,
    VeryShort,
    Watching,
)
from bridge.model.answers import (
    Announced,
    Bookmark,
    Busy,
    Failed,
    HungUp,
    ListerWatcher,
    ListRequest,
    Opened,
    Page,
    Refused,
    Silent,
    Unreadable,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.backoff import Backoff
from bridge.model.resource import Resource, Scope


class Watcher:
    """One endless list-watch. ``run`` ends only by cancellation, or with FifoClosed. Where it is ``resumed``, its first
    list is a comparison already, and ``epoch`` goes on from before."""

    def __init__(
        self,
        resource: Resource,
        scope: Scope,
        source: ListerWatcher,
        fifo: DeltaFIFO,
        *,
        report: Report,
        timing: Timing,
        start: NotSynced | Synced,
        resumed: bool = False,
        epoch: int = 1,
        chance: Callable[[], float] = random.random,
        lists: ListLimiter | None = None,
    ) -> None:
        self._resource = resource
        self._scope = scope
        self._source = source
        self._fifo = fifo
        self._report = report
        self._timing = timing
        self._chance = chance
        self._state: states.State = start
        self._pacing = Pacing(timing, granted=resumed)
        self._turn = (lists or ListLimiter()).turn()
        self._repairs = Backoff(timing.backoff_initial, timing.repair_maximum, timing.backoff_quiet)
        self._now = asyncio.get_running_loop().time
        self._list_began = 0.0
        self._listed_before = resumed
        self._repair_at = 0.0
        self.epoch = epoch
        """Grows each time the server's versions ran backwards."""
        self.last_contact = self._now()
        """When the server last told anything, bookmarks and refusals included, on the event loop's clock."""
        self._last_answer = self._now()
        self._waits_for_turn = False
        self.trouble: str | None = None
        """Why the last request did not succeed; None since one did."""
        self.refused = False
        """The API server refuses, and not just for a moment: only an operator can make the next request succeed."""

    @property
    def last_answer(self) -> float:
        """When there last was an answer of any kind, also one such as that nobody listens. Now, where nothing was asked
        because others list first."""
        return self._now() if self._waits_for_turn else self._last_answer

    @property
    def live(self) -> bool:
        """A watch is open at this moment, on top of a complete list."""
        return isinstance(self._state, Watching | Doubting)

    def move(self, resource: Resource, source: ListerWatcher) -> None:
        """Ask for the same objects in another version of their API, from the next request on. What is known stays: a
        resourceVersion means the same in every version."""
        self._resource = resource
        self._source = source

    async def run(self) -> None:
        try:
            while True:
                await self._request()
        finally:
            self._turn.end()

    async def _request(self) -> None:
        if isinstance(self._state, NotSynced | Listing):
            await self._wait_for_turn()
        low, high = self._timing.watch_timeout
        timeout = int(low + (high - low) * self._chance())
        request = reflector.next_request(self._state, page_size=self._timing.page_size, watch_timeout=timeout)
        if isinstance(request, ListRequest):
            answer: Answer = await self._source.list(request)
            step = await self._take(answer)
        else:
            step, answer = await self._watch(request)
        await self._pause(step, answer, "list" if isinstance(request, ListRequest) else "watch")

    async def _wait_for_turn(self) -> None:
        if self._turn.must_wait:
            self.trouble = "other resources are listed first"
        self._waits_for_turn = True
        try:
            await self._turn.begin()
        finally:
            self._waits_for_turn, self._last_answer = False, self._now()

    # ── One watch ────────────────────────────────────────────────────────────

    async def _watch(self, request: WatchRequest) -> tuple[Step, Answer]:
        began, events = self._now(), 0
        opened = False
        async with self._source.watch(request) as answers:
            while True:
                answer = await self._next(answers)
                if isinstance(answer, HungUp) and not events and self._now() - began < self._timing.very_short:
                    # Only a server that ends a watch in due form may mean 410 by it.
                    answer = Failed(answer.reason) if answer.torn else VeryShort()
                if isinstance(answer, Announced):
                    events += len(answer.events)
                opened = opened or isinstance(answer, Opened)
                step = await self._take(answer)
                if not isinstance(step.state, Streaming | Watching | Doubting):
                    break
        if opened:
            self._report(
                WatchEnded(self._resource, self._scope, _reason(answer), self._now() - began, events),
            )
        return step, answer

    async def _next(self, answers: AsyncIterator[WatchAnswer]) -> Answer:
        match self._state:
            case Streaming():
                deadline: float = self._now() + self._timing.initial_events
                late: Answer = Overdue()
            case Doubting():
                deadline, late = self._repair_at, RepairDue()
            case _:
                return await anext(answers)
        if self._now() >= deadline:  # A stream that always has something ready never lets a timer fire.
            return late
        try:
            async with asyncio.timeout_at(deadline):
                return await anext(answers)
        except TimeoutError:
            return late

    # ── One answer ───────────────────────────────────────────────────────────

    async def _take(self, answer: Answer) -> Step:
        before = self._state
        step = reflector.step(before, answer)
        self._notice(answer)
        for sighting in step.heard:
            await self._hear(sighting)
        if isinstance(step.state, Doubting) and not isinstance(before, Doubting):
            self._repair_at = self._now() + self._repairs.next(self._now(), self._chance())
        self._state = step.state
        return step

    def _notice(self, answer: Answer) -> None:
        self._pacing.answered(answer)
        match answer:
            case Opened():
                self._report(WatchOpened(self._resource, self._scope))
            case Unreadable(reason=reason):
                self._report(InputUnreadable(self._resource, self._scope, reason))
            case Page(unreadable=reasons):
                for reason in reasons:
                    self._report(InputUnreadable(self._resource, self._scope, reason))
        if isinstance(answer, Opened | Page):
            self.trouble, self.refused = None, False
        if not isinstance(answer, Overdue | RepairDue):
            self._last_answer = self._now()
        if not isinstance(answer, Overdue | RepairDue | Silent | VeryShort | HungUp | Busy | Failed):
            self.last_contact = self._now()

    async def _hear(self, sighting: states.Sighting) -> None:
        match sighting:
            case Happened(events=events, position=position):
                await self._fifo.wait_room()
                self._fifo.happened(events, position)
            case Reached(position=position):
                self._fifo.reached(position)
            case ListBegan():
                self._list_began = self._now()
                self._fifo.begin_replace()
            case Listed(objects=objects):
                # A list from a server's cache comes in one page, however long it is.
                for start in range(0, len(objects), self._timing.page_size):
                    await self._fifo.wait_room()
                    self._fifo.replaced(objects[start : start + self._timing.page_size])
            case states.ListEnded(version=version, complete=complete):
                objects_listed = await self._fifo.end_replace(version, complete=complete)
                seconds = self._now() - self._list_began
                self._report(ListEnded(self._resource, self._scope, objects_listed, seconds, self._listed_before))
                self._listed_before = True
                self._pacing.listed(self._now())
                self._turn.end()
            case RanBackwards(was=was, now=now):
                # What was heard before belongs to the old epoch, and must leave under it.
                await self._fifo.wait_processed()
                self._fifo.restored()
                self.epoch += 1
                self._report(VersionsRanBackwards(self._resource, self._scope, was, now))

    # ── Between requests ─────────────────────────────────────────────────────

    async def _pause(self, step: Step, answer: Answer, verb: str) -> None:
        pause = self._pacing.pause(step, answer, self._now(), self._chance)
        self.trouble = None if pause is None else _reason(answer)
        self.refused = pause is not None and pause.for_operator
        if pause is None:
            return
        self._turn.end()
        if pause.for_operator and isinstance(answer, Refused):
            fact = ResourceRefused(self._resource, self._scope, answer.status, answer.reason, pause.seconds)
            self._report(fact)
        else:
            self._report(RequestFailed(self._resource, self._scope, verb, _reason(answer), pause.seconds))
        await asyncio.sleep(pause.seconds)


def _reason(answer: Answer) -> str:
    match answer:
        case VeryShort():
            return "the watch ended within a second and without an event"
        case Overdue():
            return "the bookmark that ends the initial events did not come"
        case RepairDue():
            return "a list is due, because something could not be read"
        case Silent(seconds=seconds):
            return f"nothing came for {seconds:.0f} s"
        case Announced() | Bookmark():
            return "versions ran backwards"
        case _:
            return getattr(answer, "reason", type(answer).__name__)
