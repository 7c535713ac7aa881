"""Drives an election: reads, watches and writes the Lease, and runs the holder's work while the Lease is ours."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from math import inf

from bridge.election.announcing import Announcer
from bridge.election.deciding import Rules
from bridge.election.lease import MOST_FRONTIER, Lease, created, fits, released, renewed, taken
from bridge.election.ports import Duties, LeaseApi, Tenure
from bridge.election.requests import LeaseRequests, NoLease, utc
from bridge.election.states import (
    Ended,
    Following,
    Held,
    Read,
    Release,
    Releasing,
    Renew,
    Starting,
    State,
    SteppingDown,
    Take,
    TakingOver,
    Wait,
)
from bridge.election.status import knows_progress, status_of
from bridge.election.timing import ANSWER_PART
from bridge.election.watching import LeaseWatch
from bridge.facts import FrontierTooLarge, LeadershipReleased, LeaseRenewed, Report
from bridge.model.primitives.election import ElectionStatus


class Elector:
    """The elector of a process. ``run`` is called once, and ends after ``stop``, or with an exception of the work.
    Losing the Lease only pauses the work."""

    def __init__(
        self,
        api: LeaseApi,
        duties: Duties,
        rules: Rules,
        *,
        namespace: str,
        name: str,
        highest_term: int,
        report: Report,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """``namespace`` and ``name``: of the Lease. ``highest_term``: of all terms that this state directory has
        seen."""
        self._api = api
        self._duties, self._rules = duties, rules
        self._namespace, self._name = namespace, name
        self._report, self._jitter = report, jitter
        self._now = asyncio.get_running_loop().time
        self._requests = LeaseRequests(api, f"{namespace}/{name}", ANSWER_PART * rules.timing.renew_deadline, report)
        self._announcer = Announcer(rules.identity, duties, report, self._now)
        self._news = asyncio.Event()
        self._stopping = False
        self._tasks: asyncio.TaskGroup
        self._watch: LeaseWatch
        self._work: asyncio.Task[None] | None = None
        self._tenure: Tenure | None = None
        """The present, or else the last."""
        self._publishes = False
        """The work of the tenure has begun, so that its own frontier counts."""
        self._at_deadline: asyncio.TimerHandle | None = None
        self.state: State = Starting(highest_term=highest_term, retry_at=-inf)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._tasks:
            key, fail = f"{self._namespace}/{self._name}", self._requests.fail
            self._watch = LeaseWatch(self._api, key, version=self._version, heard=self._watched, fail=fail)
            watching = self._tasks.create_task(self._watch.run(self._rules.timing.retry_period), name="lease")
            while not isinstance(self.state, Ended):
                await self._step()
            watching.cancel()

    def stop(self) -> None:
        """Lets the work end, and then releases the Lease."""
        self._stopping = True
        if self._tenure is not None:
            self._tenure.ending.set()
        self._news.set()

    def resign(self) -> None:
        """Lets the work end, releases the Lease, and follows: another replica is to lead."""
        self._enter(self._rules.resigned(self.state))

    def status(self) -> ElectionStatus:
        return status_of(self.state, self._rules.identity, self._now(), exact=self._exact())

    def _exact(self) -> bool:
        return knows_progress(self.state) and self._duties.exact()

    # ── The next step ────────────────────────────────────────────────────────

    async def _step(self) -> None:
        self._news.clear()
        if self._stopping and not (isinstance(self.state, Releasing) and not self.state.goes_on):
            self._enter(self._rules.stopped(self.state, working=self._work is not None))
        self._enter(self._rules.hand_over(self._rules.at(self.state, self._now())))
        match self._rules.next_action(self.state, self._now(), exact=self._exact()):
            case Wait(until):
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(until if until < inf else None):
                        await self._news.wait()
            case Read():
                await self._read()
            case Take(term):
                await self._take(term)
            case Renew():
                await self._renew()
            case Release():
                await self._release()

    async def _read(self) -> None:
        asked = self._version()
        match await self._requests.read():
            case Lease() as lease:
                self._enter(self._rules.read(self.state, lease, self._now(), asked))
                if isinstance(self.state, Held) and self._tenure is not None:
                    if not self._publishes:
                        self._tenure.frontier = lease.frontier
                    self._duties.reread(lease.frontier, self.state.known.highest_term)
            case NoLease.MISSING:
                self._enter(self._rules.read(self.state, None, self._now()))
            case _:
                self._enter(self._rules.failed(self.state, self._now(), self._jitter()))

    async def _take(self, term: int) -> None:
        await self._duties.remember(self._rules.identity)
        action = self._rules.next_action(self.state, self._now(), exact=self._exact())
        if isinstance(self.state, Following) and action == Take(term):  # Else the watch brought news meanwhile.
            lease = self.state.known.lease
            self._enter(self._rules.taking(self.state, term))
            await self._write(
                lease, self._new(term - 1, "") if lease is None else taken(lease, self._rules.claim(term), utc())
            )

    async def _renew(self) -> None:
        if isinstance(self.state, Held):
            lease, term, frontier, began = self.state.known.lease, self.state.term, self._published(), self._now()
            body = self._new(term, frontier) if lease is None else renewed(lease, term, frontier, utc())
            if await self._write(lease, body):
                self._duties.renewed(frontier)
                self._report(LeaseRenewed(self._now() - began, len(frontier)))

    async def _release(self) -> None:
        if isinstance(self.state, Releasing):
            lease, term, for_good = self.state.known.lease, self.state.term, self._rules.has_heirs(self.state)
            if lease is None:
                self._enter(Ended())
            elif await self._write(lease, released(lease, term, self._published(), utc(), for_good=for_good)):
                self._report(LeadershipReleased(term))

    async def _write(self, before: Lease | None, body: bytes) -> bool:
        """Returns whether the API server took it."""
        began = self._now()
        answer = await self._requests.write(before, body)
        now = self._now()
        match answer:
            case Lease() as lease:
                self._enter(self._rules.written(self.state, lease, began, now))
                return True
            case NoLease.CHANGED:
                self._enter(self._rules.conflicting(self.state, now))
            case NoLease.MISSING:
                self._enter(self._rules.missing(self.state, now))
            case NoLease.UNKNOWN:
                self._enter(self._rules.failed(self.state, now, self._jitter()))
        return False

    # ── Parts of writes ──────────────────────────────────────────────────────

    def _new(self, term: int, frontier: str) -> bytes:
        return created(self._rules.claim(term), self._namespace, self._name, frontier, utc())

    def _published(self) -> str:
        """The frontier to write: that of the holder before, until the work has begun."""
        tenure = self._tenure
        if tenure is None or not self._publishes:
            return "" if tenure is None else tenure.frontier
        frontier = self._duties.published()
        if fits(frontier):
            tenure.frontier = frontier
        else:
            self._report(FrontierTooLarge(len(frontier), MOST_FRONTIER))
        return tenure.frontier

    # ── The watch ────────────────────────────────────────────────────────────

    def _version(self) -> str:
        """The known version of the Lease; empty if none is known to exist."""
        if isinstance(self.state, Starting | Ended) or self.state.known.lease is None:
            return ""
        return self.state.known.version

    def _watched(self, lease: Lease | None, version: str) -> None:
        self._enter(self._rules.watched(self.state, lease, version, self._now()))

    # ── The work ─────────────────────────────────────────────────────────────

    def _enter(self, state: State) -> None:
        before, self.state = self.state, state
        if state is before:
            return
        self._news.set()
        self._watch.wake()
        if isinstance(state, TakingOver) and not isinstance(before, TakingOver):
            self._begin_work(state)
        if self._at_deadline is not None:
            self._at_deadline.cancel()
        if self._tenure is not None:
            self._tenure.hold_until(state.deadline if isinstance(state, Held) else -inf)
        if isinstance(state, Held):
            self._at_deadline = asyncio.get_running_loop().call_at(state.deadline, self._pass, state.deadline)
        if isinstance(state, Releasing) and self._tenure is not None:
            self._tenure.ending.set()
        if isinstance(state, SteppingDown) and not isinstance(before, SteppingDown) and self._work is not None:
            self._work.cancel()
        self._announcer.entered(before, state)

    def _pass(self, deadline: float) -> None:
        self._enter(self._rules.at(self.state, max(deadline, self._now())))  # A timer may be early by a tick.

    def _begin_work(self, state: TakingOver) -> None:
        frontier = "" if state.known.lease is None else state.known.lease.frontier
        lasts, released = self._rules.timing.renew_deadline, state.released
        self._tenure = Tenure(state.term, frontier, state.deadline, self._now, lasts, released=released)
        self._publishes = False
        self._work = self._tasks.create_task(self._run_work(self._tenure), name="leadership")

    async def _run_work(self, tenure: Tenure) -> None:
        try:
            await self._duties.lead(tenure, self._took_over)
        finally:
            self._work = None
            if self._stopping and not isinstance(self.state, Releasing):  # A renewal is under way.
                self._enter(self._rules.stopped(self.state, working=True))
            self._enter(self._rules.work_ended(self.state, self._now()))

    def _took_over(self) -> None:
        self._publishes = True
        self._enter(self._rules.took_over(self.state))
