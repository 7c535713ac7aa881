"""Drives an election: reads, watches and writes the Lease, and runs the holder's work while the Lease is ours."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from math import inf

from bridge.facts import LeadershipReleased, LeaseRenewed, Report
from bridge.model.primitives.election import ANSWER_PART
from bridge.replication.announcing import Announcer
from bridge.replication.deciding import Rules
from bridge.replication.lease import Lease, Published, created, released, renewed, taken
from bridge.replication.ports import Duties, LeaseApi, Tenure
from bridge.replication.requests import LeaseRequests, NoLease, utc
from bridge.replication.states import (
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
from bridge.replication.watching import LeaseWatch


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
        self._takes_cleanly = False
        self._before: Published | None = None
        """What the Lease said when this replica took it."""
        self._publishes = False
        """The work of the tenure has begun: it says who is in sync."""
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

    def hasten(self) -> None:
        """Renews the Lease now: there is something to publish."""
        self._enter(self._rules.hastened(self.state))

    @property
    def is_clean(self) -> bool:
        """Whether this replica has everything that any destination can have, by the Lease as it is known now."""
        if isinstance(self.state, Starting | Ended):
            return False
        known = self.state.known
        published = None if known.lease is None else known.lease.published
        if published is None:
            return not known.highest_term  # Nobody has led yet.
        if known.went_back:
            return False
        return published.leader in self._rules.ours or self._duties.is_in_sync(published)

    # ── The next step ────────────────────────────────────────────────────────

    async def _step(self) -> None:
        self._news.clear()
        if self._stopping and not isinstance(self.state, Releasing):
            self._enter(self._rules.stopped(self.state, working=self._work is not None))
        self._enter(self._rules.at(self.state, self._now()))
        match self._rules.next_action(self.state, self._now(), clean=self.is_clean):
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
            case NoLease.MISSING:
                self._enter(self._rules.read(self.state, None, self._now()))
            case _:
                self._enter(self._rules.failed(self.state, self._now(), self._jitter()))

    async def _take(self, term: int) -> None:
        await self._duties.remember(self._rules.identity)
        clean = self.is_clean
        action = self._rules.next_action(self.state, self._now(), clean=clean)
        if isinstance(self.state, Following) and action == Take(term):  # Else the watch brought news meanwhile.
            lease, self._takes_cleanly = self.state.known.lease, clean
            self._before = None if lease is None else lease.published
            self._enter(self._rules.taking(self.state, term))
            await self._write(
                lease,
                self._new(term - 1, None)
                if lease is None
                else taken(lease, self._rules.claim(term), utc(), clean=clean),
            )

    async def _renew(self) -> None:
        if isinstance(self.state, Held):
            lease, term, published, began = self.state.known.lease, self.state.term, self._published(), self._now()
            body = self._new(term, published) if lease is None else renewed(lease, term, published, utc())
            if await self._write(lease, body):
                self._report(LeaseRenewed(self._now() - began))

    async def _release(self) -> None:
        if isinstance(self.state, Releasing):
            lease, term = self.state.known.lease, self.state.term
            if lease is None:
                self._enter(Ended())
            elif await self._write(lease, released(lease, term, self._published(), utc())):
                self._report(LeadershipReleased(term))

    async def _write(self, before: Lease | None, body: bytes) -> bool:
        """Returns whether the API server took it."""
        began = self._now()
        answer = await self._requests.write(before, body)
        now = self._now()
        match answer:
            case Lease() as lease:
                if self._tenure is not None:
                    self._tenure.version = lease.version
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

    def _new(self, term: int, published: Published | None) -> bytes:
        return created(self._rules.claim(term), self._namespace, self._name, published, utc())

    def _published(self) -> Published | None:
        """What to write: until the work has begun, what ``taken`` left. Whatever somebody else wrote meanwhile is
        replaced."""
        tenure = self._tenure
        if tenure is None:
            return None
        if self._publishes:
            return self._duties.published()
        return tenure.before if tenure.clean else None

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
        lasts = self._rules.timing.renew_deadline
        self._tenure = Tenure(
            state.term, self._before, state.deadline, self._now, lasts, clean=self._takes_cleanly, hasten=self.hasten
        )
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
