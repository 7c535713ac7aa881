"""Lists and watches without end, as client-go's Reflector: makes the requests, keeps the deadlines, and fills the
DeltaFIFO. ``list_watch`` decides.

Every informer of a bridge lists when its API server comes back after a failure, and a ``ListLimiter`` spares that
server. A bound on single requests would let hundreds of slow lists run side by side until their continue tokens expire;
a bound on lists without a limit of time would let ten stuck lists block all others. So lists count, each for at most a
minute.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable

from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.deltas import FifoClosed
from bridge.informer.history.history import History
from bridge.informer.history.member import Member
from bridge.informer.history.proof import Contradicted, OtherHistory, SameHistory, UnknownHistory
from bridge.informer.reflector import list_watch
from bridge.informer.reflector.assurance import Assurance, Comparison
from bridge.informer.reflector.list_watch import end_of_watch, reason_of
from bridge.informer.reflector.pacing import Pacing, Timing, next_page_size, smaller, split_for_queue
from bridge.informer.reflector.states import (
    Accepted,
    Answer,
    Doubting,
    EpochBegan,
    Happened,
    ListBegan,
    Listed,
    ListEnded,
    Listing,
    NotSynced,
    Overdue,
    PositionReached,
    ProofRequest,
    Proving,
    RanBackwards,
    RepairDue,
    State,
    Step,
    StoreUpdate,
    Streaming,
    Suspected,
    Synced,
    TimedOut,
    VeryShort,
    Watching,
)
from bridge.model.answers import (
    Announced,
    Busy,
    Failed,
    HungUp,
    ListerWatcher,
    ListRequest,
    Opened,
    Oversized,
    Page,
    Part,
    Refused,
    Silent,
    Unreadable,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.primitives.backoff import Backoff
from bridge.model.resource import Resource, Scope
from bridge.model.status import OTHERS_FIRST
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.informer import (
    InputUnreadable,
    ListCompleted,
    ListWatchFailed,
    ResourceRefused,
    VersionsRanBackwards,
    WatchEnded,
    WatchOpened,
)


class Reflector:
    """Lists and watches a resource in a scope without end. ``run`` ends only by cancellation, or when the queue is
    closed.

    A ``resumed`` Reflector compares its first list with a checkpoint. ``member`` is the informer as its ``history``
    knows it."""

    def __init__(
        self,
        resource: Resource,
        scope: Scope,
        source: ListerWatcher,
        fifo: DeltaFIFO,
        *,
        report: Report,
        timing: Timing,
        start: NotSynced | Synced | Proving,
        history: History,
        member: Member,
        resumed: bool = False,
        jitter: Callable[[], float] = random.random,
        lists: ListLimiter | None = None,
    ) -> None:
        self._resource = resource
        self._scope = scope
        self._source = source
        self._fifo = fifo
        self._report = report
        self._timing = timing
        self._jitter = jitter
        self._state: State = start
        self._member = member
        self._assurance = Assurance(history, member)
        self._pacing = Pacing(timing, granted=resumed)
        self._turn = (lists or ListLimiter()).turn()
        self._repairs = Backoff(timing.backoff_initial, timing.repair_maximum, timing.backoff_quiet)
        self._now = asyncio.get_running_loop().time
        self._page_size = timing.page_size
        self._list_began = 0.0
        self._listed_before = resumed
        self._repair_at = 0.0
        self._task: asyncio.Task[object] | None = None
        """The Reflector's task, while it waits for an open watch's next answer."""
        self._interrupted = False
        """``learn`` has cancelled the wait."""
        self._comparison = Comparison(fifo)
        self.last_contact = self._now()
        """The time of the server's last data, bookmarks and refusals included, on the event loop's clock (seconds)."""
        self._last_answer = self._now()
        self._waits_for_turn = False
        self.last_error: str | None = None
        """Why the last request failed, or why the next one waits; None after a success."""
        self.refused = False
        """The API server refuses permanently, until an operator changes something."""

    @property
    def epoch(self) -> int:
        """Grows each time the server's versions run backwards."""
        return self._fifo.epoch

    @property
    def last_answer(self) -> float:
        """The time of the last outcome of a request, failures included. The present, while other informers list
        first."""
        return self._now() if self._waits_for_turn else self._last_answer

    @property
    def live(self) -> bool:
        """A watch is open, after a complete list."""
        return isinstance(self._state, Watching | Doubting)

    @property
    def reached(self) -> str | None:
        """The newest version that the server sent, in its present history; None before the first."""
        return list_watch.reached(self._state)

    @property
    def is_witness(self) -> bool:
        """It vouches for some objects. From the moment when it learns of another history until a list of that
        history, it vouches for none."""
        return self._assurance.learned is None and self.vouches_for != []

    @property
    def vouches_for(self) -> list[str] | None:
        """Keys of the objects that are known to be of the present history; None for all of them."""
        return self._comparison.vouches_for

    def learn(self, of_history: OtherHistory | Contradicted) -> None:
        """Learns of another history, which makes all answers until now invalid. Does not wait."""
        self._assurance.learn(of_history)
        if self._task is not None and not self._interrupted:
            self._interrupted = self._task.cancel()

    def move(self, resource: Resource, source: ListerWatcher) -> None:
        """Requests the same objects in another version of their API, from the next request on. Known objects and
        versions stay valid: a resourceVersion does not depend on the API version."""
        self._resource = resource
        self._source = source

    async def run(self) -> None:
        try:
            while True:
                await self._request()
        except FifoClosed:
            return
        finally:
            self._turn.end()

    async def _request(self) -> None:
        if learned := self._assurance.take_learned():
            await self._take(learned)
        if isinstance(self._state, NotSynced | Listing):
            await self._wait_for_turn()
        timeout = 0 if isinstance(self._state, Proving) else self._draw_timeout()
        request = list_watch.next_request(self._state, page_size=self._page_size, watch_timeout=timeout)
        answer: Answer
        match request:
            case ListRequest():
                # A page must be read within the minute that API servers give a request, so wait for room before it.
                await self._fifo.wait_room()
                verb = "list"
                step, answer = await self._list(request)
            case ProofRequest():
                verb = "proof"
                answer = await self._assurance.prove()
                if isinstance(answer, SameHistory) and self._comparison.has_begun and self._fifo.is_listing:
                    # Its listed part proves too little: the second restore may have undone newer changes only.
                    answer = UnknownHistory("the list that compares what is known broke off")
                step = await self._take(answer)
            case WatchRequest():
                verb = "watch"
                step, answer = await self._watch(request)
        await self._pause(step, answer, verb)

    def _draw_timeout(self) -> int:
        low, high = self._timing.watch_timeout
        return int(low + (high - low) * self._jitter())

    async def _wait_for_turn(self) -> None:
        if self._turn.must_wait:
            self.last_error = OTHERS_FIRST
        self._waits_for_turn = True
        try:
            await self._turn.begin()
        finally:
            self._waits_for_turn, self._last_answer = False, self._now()

    # ── One list, or a page of it ────────────────────────────────────────────

    async def _list(self, request: ListRequest) -> tuple[Step, Answer]:
        self._assurance.begin_list()
        answer: Answer = await self._source.list(request, self._take_part)
        if not isinstance(answer, Page):
            return await self._take(answer := self._assurance.take_learned() or answer), answer
        arrival = await self._assurance.arrive(self._state)
        answer = self._assurance.take_learned() or arrival.objection or answer
        return await self._take_assured(answer, arrival.at), answer

    async def _take_part(self, part: Part) -> None:
        arrival = await self._assurance.arrive(self._state)
        if arrival.objection is None and self._assurance.learned is None:  # Else the page will not count.
            await self._take_assured(part, arrival.at)

    async def _take_assured(self, answer: Answer, came: float) -> Step:
        """Takes in an answer without an objection. A page assures its history for all informers."""
        step = await self._take(answer)
        if isinstance(answer, Part | Page) and self._assurance.learned is None:
            self._assurance.history.assure(came)
        return step

    # ── One watch ────────────────────────────────────────────────────────────

    async def _watch(self, request: WatchRequest) -> tuple[Step, Answer]:
        began, events = self._now(), 0
        opened, came = False, began
        async with self._source.watch(request) as answers:
            while True:
                busy = self._now() - came
                answer = await self._next(answers)
                came = self._now()
                if isinstance(answer, Opened):
                    answer = await self._assurance.objection(self._state) or answer
                elif isinstance(answer, HungUp):
                    seconds, shortest = self._now() - began, self._timing.very_short
                    answer = end_of_watch(answer, request, seconds, is_first=not events, very_short=shortest)
                if isinstance(answer, Announced):
                    events += len(answer.events)
                opened = opened or isinstance(answer, Opened)
                step = await self._take(answer)
                if isinstance(answer, Opened) and self._assurance.learned is None:
                    self._assurance.history.assure(came)
                if not isinstance(step.state, Streaming | Watching | Doubting):
                    break
        if opened:
            if isinstance(answer, TimedOut | RepairDue):
                # The watch may have ended while the former answer was taken in.
                self._assurance.history.assure(came - busy)
            self._report(
                WatchEnded(self._resource, self._scope, reason_of(answer), self._now() - began, events),
            )
        return step, answer

    async def _next(self, answers: AsyncIterator[WatchAnswer]) -> Answer:
        match self._state:
            case Streaming():
                deadline: float | None = self._now() + self._timing.initial_events
                late: Answer | None = Overdue()
            case Doubting():
                deadline, late = self._repair_at, RepairDue()
            case _:
                deadline, late = None, None
        if self._assurance.learned is not None and (learned := self._assurance.take_learned()):
            return learned
        if late is not None and deadline is not None and self._now() >= deadline:
            return late  # Checked here, because a timer never fires while every answer is ready at once.
        self._task, self._interrupted = asyncio.current_task(), False
        try:
            if late is None:
                return await anext(answers)  # No timeout, which would cost as much as the rest of this method.
            async with asyncio.timeout_at(deadline):
                return await anext(answers)
        except TimeoutError:
            return late or Overdue()
        except asyncio.CancelledError:
            # Else the task is cancelled from outside, perhaps at the same time.
            if self._interrupted and self._task is not None and self._task.uncancel() == 0:
                return self._assurance.take_learned() or Overdue()
            raise
        finally:
            self._task = None

    # ── One answer ───────────────────────────────────────────────────────────

    async def _take(self, answer: Answer) -> Step:
        before = self._state
        step = list_watch.step(before, answer)
        if isinstance(step.state, Proving) and not isinstance(before, Proving):
            self._assurance.history.connection_broke()
        if isinstance(answer, Announced):  # What an open watch announces leaves last_error and the pace as they are.
            self._last_answer = self.last_contact = self._now()
        else:
            self._notice(answer)
        for update in step.updates:
            if isinstance(answer, Announced) and isinstance(update, Accepted):
                await self._fifo.wait_room()
                self._fifo.happened(answer.events[: update.count], update.position)
            else:
                await self._update_store(update)
        if isinstance(step.state, Doubting) and not isinstance(before, Doubting):
            self._repair_at = self._now() + self._repairs.next(self._now(), self._jitter())
        self._state = step.state
        return step

    def _notice(self, answer: Answer) -> None:
        self._pacing.answered(answer)
        match answer:
            case Opened():
                self._assurance.suspicions = 0
                self._report(WatchOpened(self._resource, self._scope))
            case Unreadable(reason=reason):
                self._report(InputUnreadable(self._resource, self._scope, reason))
            case Page(unreadable=reasons):
                for reason in reasons:
                    self._report(InputUnreadable(self._resource, self._scope, reason))
            case Oversized():
                self._page_size = smaller(self._page_size)
        if isinstance(answer, Page):
            self._page_size = next_page_size(self._page_size, answer.size, most=self._timing.page_size)
        if isinstance(answer, Opened | Page):
            self.last_error, self.refused = None, False
        if not isinstance(answer, Overdue | RepairDue):
            self._last_answer = self._now()
        silent = Overdue | RepairDue | Silent | VeryShort | HungUp | Busy | Failed | SameHistory | OtherHistory
        if not isinstance(answer, silent | UnknownHistory | Contradicted):
            self.last_contact = self._now()

    async def _update_store(self, update: StoreUpdate) -> None:
        match update:
            case Happened(events=events, position=position):
                await self._fifo.wait_room()
                self._fifo.happened(events, position)
            case PositionReached(position=position):
                self._fifo.reached(position)
            case ListBegan():
                self._list_began = self._now()
                self._fifo.begin_replace()
            case Listed(objects=objects):
                # A page may exceed the queue's bounds, so it is queued in parts.
                for few in split_for_queue(objects, self._timing.page_size):
                    await self._fifo.wait_room()
                    self._fifo.replaced(few)
                    self._comparison.listed(few)
            case ListEnded(version=version, complete=complete):
                objects_listed = await self._fifo.end_replace(version, complete=complete)
                seconds = self._now() - self._list_began
                self._report(ListCompleted(self._resource, self._scope, objects_listed, seconds, self._listed_before))
                self._listed_before = True
                self._pacing.listed(self._now())
                self._turn.end()
                self._comparison.list_ended(complete=complete)
            case Suspected():
                await self._suspect()
            case EpochBegan(was=was, now=now):
                await self._begin_epoch(was, now)
            case RanBackwards(was=was, now=now):
                self._comparison.begin()
                await self._fifo.wait_processed()
                if not isinstance(self._assurance.learned, OtherHistory):
                    await self._assurance.history.disprove(self._member, OtherHistory(was, now))
                self._assurance.learned = None  # Pending news is of this same history.
                await self._begin_epoch(was, now)

    async def _suspect(self) -> None:
        """The next list is compared with the known objects. Where the comparison that began an epoch breaks off here,
        the next list may be of yet another history than the exported part of the former list, and would use ids of this
        epoch a second time: so another epoch begins."""
        broke_off = self._fifo.is_restoring and self._comparison.has_begun
        self._comparison.begin()
        if broke_off:
            await self._fifo.wait_processed()
            await self._assurance.history.renew(self._member)
            await self._begin_epoch("a list that broke off", "perhaps another history")
        else:
            self._fifo.suspected()
        self._assurance.suspect()

    async def _begin_epoch(self, was: str, now: str) -> None:
        # Queued deltas belong to the old epoch, and must be exported under it.
        self._comparison.begin()
        await self._fifo.wait_processed()
        self._fifo.begin_epoch(passed_over=self._assurance.take_passed_over())
        self._report(VersionsRanBackwards(self._resource, self._scope, was, now))

    # ── Between requests ─────────────────────────────────────────────────────

    async def _pause(self, step: Step, answer: Answer, verb: str) -> None:
        pause = self._pacing.pause(step, answer, self._now(), self._jitter)
        reason = f"its history is not proven: {reason_of(answer)}" if verb == "proof" else reason_of(answer)
        self.last_error = None if pause is None else reason
        self.refused = pause is not None and pause.for_operator
        if pause is None:
            return
        self._turn.end()
        if pause.for_operator and isinstance(answer, Refused):
            fact = ResourceRefused(self._resource, self._scope, answer.status, answer.reason, pause.seconds)
            self._report(fact)
        else:
            self._report(ListWatchFailed(self._resource, self._scope, verb, reason, pause.seconds))
        await asyncio.sleep(pause.seconds)


# ── How many informers list at the same time ─────────────────────────────────


class ListLimiter:
    """Shared by all informers of a process; first come, first served.

    A list holds its slot from its first request to its last page (a WatchList, to the bookmark that ends the initial
    events), and for ``longest`` seconds at most: a slow list goes on without a slot. A pause between two attempts holds
    no slot."""

    def __init__(self, most: int = 10, *, longest: float = 60.0) -> None:
        self._slots = asyncio.Semaphore(most)
        self._longest = longest

    def turn(self) -> Turn:
        """A turn for all lists of an informer."""
        return Turn(self._slots, self._longest)


class Turn:
    """The lists of an informer, each between ``begin`` and ``end``."""

    def __init__(self, slots: asyncio.Semaphore, longest: float) -> None:
        self._slots = slots
        self._longest = longest
        self._begun = False
        self._lapse: asyncio.TimerHandle | None = None

    @property
    def must_wait(self) -> bool:
        """Whether ``begin`` would wait."""
        return not self._begun and self._slots.locked()

    async def begin(self) -> None:
        """Waits for a slot. Returns at once if the list has begun already."""
        if self._begun:
            return
        await self._slots.acquire()
        self._begun = True
        self._lapse = asyncio.get_running_loop().call_later(self._longest, self._give_back)

    def end(self) -> None:
        """Frees the slot. A second call has no effect."""
        self._begun = False
        self._give_back()

    def _give_back(self) -> None:
        if self._lapse is not None:
            self._lapse.cancel()
            self._lapse = None
            self._slots.release()
