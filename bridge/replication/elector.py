"""Drives an election: reads, watches and writes the Lease, and runs the holder's work while the Lease is ours.

``Elector`` asks ``deciding.Rules`` for the next action, and does it through ``LeaseRequests``, which bounds each
request in time and turns its answer into one that fits an election. ``LeaseWatch`` brings the changes of others, so
that a follower sees a release at once; it costs no correctness, because the elector reads the Lease where the watch is
silent. ``Announcer`` reports each change of the state, and passes the Lease on to a follower. A failed request is
reported and tried again; a Lease that cannot be renewed until the deadline is lost, which cancels the holder's work.

``LeaseApi`` and ``Duties`` are what the elector needs from others: the Lease on the API server, and the holder's work,
which gets a ``Tenure``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime
from enum import Enum, auto
from math import inf
from typing import Protocol, TypeAlias

from bridge.model.answers import (
    Announced,
    Busy,
    Conflict,
    ErrorAnswer,
    EventType,
    Expired,
    Failed,
    Refused,
    TooLarge,
    Unsupported,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.object import ApiObject
from bridge.model.policies import ANSWER_PART
from bridge.replication.deciding import (
    Acquiring,
    Ended,
    Following,
    Held,
    Known,
    Leading,
    Read,
    Release,
    Releasing,
    Renew,
    Rules,
    Starting,
    State,
    SteppingDown,
    Take,
    TakingOver,
    Wait,
)
from bridge.replication.lease import Lease, MalformedLease, Published, created, lease_of, released, renewed, taken
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.election import (
    LeaderChanged,
    LeadershipBegan,
    LeadershipLost,
    LeadershipReleased,
    LeaseFailed,
    LeaseRenewed,
    LeaseTaken,
    LeaseTermDoubted,
)


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
        self._duties = duties
        self._rules = rules
        self._namespace = namespace
        self._name = name
        self._report = report
        self._jitter = jitter
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
        self._at_deadline: asyncio.TimerHandle | None = None
        self.state: State = Starting(highest_term=highest_term, retry_at=-inf)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._tasks:
            self._watch = LeaseWatch(
                self._api,
                f"{self._namespace}/{self._name}",
                version=self._version,
                heard=self._watched,
                fail=self._requests.fail,
            )
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
            lease = self.state.known.lease
            self._takes_cleanly = clean
            self._before = None if lease is None else lease.published
            self._enter(Acquiring(known=self.state.known, term=term))
            await self._write(
                lease,
                self._new(term - 1, None)
                if lease is None
                else taken(lease, self._rules.claim(term), utc(), clean=clean),
            )

    async def _renew(self) -> None:
        if isinstance(self.state, Held):
            lease, term = self.state.known.lease, self.state.term
            published = self._published()
            began = self._now()
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
        return None if self._tenure is None else self._tenure.published

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
        self._enter(self._rules.took_over(self.state))


def utc() -> datetime:
    """The present time."""
    return datetime.now(UTC)


# ── Requests about the Lease ─────────────────────────────────────────────────

_NOT_FOUND = 404


class NoLease(Enum):
    """Answers without a Lease."""

    MISSING = auto()
    """It does not exist."""
    CHANGED = auto()
    """409: the version of the write is not the current one, or the Lease to create exists."""
    UNKNOWN = auto()
    """The request failed, and was reported; a write may have happened."""


LeaseAnswer: TypeAlias = Lease | NoLease


class LeaseRequests:
    """Reads and writes a Lease: each request has a time limit, and each answer is a Lease, or says why there is none.
    Reports LeaseFailed."""

    def __init__(self, api: LeaseApi, where: str, timeout: float, report: Report) -> None:
        """``where``: the Lease as ``namespace/name``. ``timeout``: seconds for each request, connecting included."""
        self._api = api
        self._where = where
        self._timeout = timeout
        self._report = report

    async def read(self) -> LeaseAnswer:
        return await self._ask("get", self._api.read())

    async def write(self, before: Lease | None, body: bytes) -> LeaseAnswer:
        """Creates the Lease if there was none before, else updates it."""
        if before is None:
            return await self._ask("create", self._api.create(body))
        return await self._ask("update", self._api.update(body))

    def fail(self, verb: str, error: ErrorAnswer) -> None:
        self._report(LeaseFailed(verb, self._where, error.reason, isinstance(error, Refused)))

    async def _ask(self, verb: str, request: Awaitable[bytes | Conflict | ErrorAnswer]) -> LeaseAnswer:
        answer: bytes | Conflict | ErrorAnswer
        try:
            async with asyncio.timeout(self._timeout):
                answer = await request
        except TimeoutError:
            answer = Failed(f"no answer within {self._timeout:g} s")
        if isinstance(answer, bytes):
            try:
                return lease_of(answer)
            except MalformedLease as error:
                answer = Failed(str(error))
        if isinstance(answer, Conflict):
            return NoLease.CHANGED
        # A create is answered with 404 where the namespace is missing.
        if isinstance(answer, Refused) and answer.status == _NOT_FOUND and verb != "create":
            return NoLease.MISSING
        self.fail(verb, answer)
        return NoLease.UNKNOWN


# ── The watch of the Lease ───────────────────────────────────────────────────

_WATCH_SECONDS = 300


class LeaseWatch:
    """Watches from the known version on, again and again. The elector reads the Lease where the watch brings nothing,
    so a failure here costs time, and no correctness."""

    def __init__(
        self,
        api: LeaseApi,
        key: str,
        *,
        version: Callable[[], str],
        heard: Callable[[Lease | None, str], None],
        fail: Callable[[str, Busy | Expired | Failed | Refused | TooLarge | Unsupported], None],
    ) -> None:
        """``key``: ``namespace/name``. ``version``: returns the known version; empty while no Lease is known to exist.
        ``heard`` gets each new state, None after a delete, with the version of the event."""
        self._api = api
        self._key = key
        self._version = version
        self._heard = heard
        self._fail = fail
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Another version may be known."""
        self._news.set()

    async def run(self, pause: float) -> None:
        """``pause``: seconds between two attempts. The first begins as soon as a version is known."""
        expired = ""
        while True:
            self._news.clear()
            version = self._version()
            if version in ("", expired):
                await self._news.wait()
            else:
                expired = await self._watch(version)
                await asyncio.sleep(pause)

    async def _watch(self, version: str) -> str:
        """Returns the version if the API server has forgotten it: another is needed. Else an empty text."""
        async with self._api.watch(WatchRequest(version=version, timeout=_WATCH_SECONDS)) as answers:
            async for answer in answers:
                match answer:
                    case Announced(events):
                        for kind, each in events:
                            self._take(kind, each)
                    case Expired():
                        return version
                    case Busy() | Failed() | Refused() | TooLarge() | Unsupported():
                        self._fail("watch", answer)
        return ""

    def _take(self, kind: EventType, each: ApiObject) -> None:
        if each.key != self._key:  # A proxy may drop the field selector.
            return
        if kind is EventType.DELETED:
            self._heard(None, each.resource_version)
            return
        try:
            lease = lease_of(each.body)
        except MalformedLease as error:
            self._fail("watch", Failed(str(error)))
        else:
            self._heard(lease, lease.version)


# ── Changes of the election ──────────────────────────────────────────────────


class Announcer:
    """Reports the changes of an election, and passes each new Lease on to a follower. Called with every change of the
    state."""

    def __init__(self, identity: str, duties: Duties, report: Report, now: Callable[[], float]) -> None:
        self._identity = identity
        self._duties = duties
        self._report = report
        self._now = now
        self._holder: str | None = None
        self._lease: Lease | None = None
        self._doubted = 0
        self._taken_at = 0.0

    def entered(self, before: State, state: State) -> None:
        match before, state:
            case Acquiring(known=known), TakingOver(term=term):
                self._taken_at = self._now()
                self._report(LeaseTaken(term, "" if known.lease is None else known.lease.holder))
            case TakingOver(), Leading(term=term):
                self._report(LeadershipBegan(term, self._now() - self._taken_at))
            case TakingOver() | Leading() | Releasing(), SteppingDown(term=term, reason=reason):
                self._report(LeadershipLost(term, reason))
        if not isinstance(state, Starting | Ended):
            self._doubt(state.known)
        if isinstance(state, Following):
            self._follow(state.known.lease)

    def _doubt(self, known: Known) -> None:
        if known.doubted_term not in (0, self._doubted):
            self._report(LeaseTermDoubted(known.doubted_term, known.highest_term))
        self._doubted = known.doubted_term

    def _follow(self, lease: Lease | None) -> None:
        holder, term = ("", 0) if lease is None else (lease.holder, lease.term)
        if holder not in (self._holder, self._identity):
            self._report(LeaderChanged(holder, term))
        self._holder = holder
        if lease is not self._lease:
            self._lease = lease
            self._duties.observed(lease)


# ── What the elector needs from others, and the time in which it holds the Lease


class LeaseApi(Protocol):
    """A single Lease on the API server. Failures are answers. Cancellation ends a request; the server may have served
    it. Its connection is the elector's own: behind a long list or a shared limit of requests, a renewal would come too
    late."""

    async def read(self) -> bytes | ErrorAnswer:
        """The newest state, never one of a cache that lags. Refused with 404 if it does not exist."""
        ...

    async def create(self, body: bytes) -> bytes | Conflict | ErrorAnswer:
        """Returns the created object. Conflict if it exists."""
        ...

    async def update(self, body: bytes) -> bytes | Conflict | ErrorAnswer:
        """Returns the updated object. Conflict unless the body has the current resourceVersion."""
        ...

    def watch(self, request: WatchRequest) -> AbstractAsyncContextManager[AsyncIterator[WatchAnswer]]:
        """See ListerWatcher.watch."""
        ...


class Tenure:
    """The time in which a replica holds the Lease, from its own sight."""

    def __init__(
        self,
        term: int,
        before: Published | None,
        deadline: float,
        now: Callable[[], float],
        renew_deadline: float,
        *,
        clean: bool,
        hasten: Callable[[], None],
    ) -> None:
        self.term = term
        """Larger than every earlier term that is known."""
        self.before = before
        """What the holder before had published; None without any."""
        self.clean = clean
        """This replica had everything that any destination can have, when it took the Lease."""
        self.published = before if clean else None
        """What each renewal writes, and the release: what ``taken`` left, until the holder takes over, and says who is
        in sync. Whatever somebody else wrote meanwhile is replaced."""
        self.deadline = deadline
        """On the event loop's clock; see ``hold_until``."""
        self.version = ""
        """The resourceVersion of the Lease behind the last renewal."""
        self.ending = asyncio.Event()
        """Set when the process is to end: finish, then return."""
        self._now = now
        self._lasts = renew_deadline
        self._hasten = hasten
        self._moved = asyncio.Event()

    def hold_until(self, deadline: float) -> None:
        """Every renewal moves the deadline; a lost Lease sets it to the past."""
        self.deadline = deadline
        self._moved.set()

    async def confirmed(self) -> None:
        """Returns once the Lease was renewed by a request that began after this call, which is at once; never, if it is
        lost."""
        needed = self._now() + self._lasts
        self._hasten()
        while self.deadline < needed or not self.is_valid:
            self._moved.clear()
            await self._moved.wait()

    @property
    def is_valid(self) -> bool:
        """False from the deadline on, also in a process that was frozen and wakes up: asked before every delivery."""
        return self._now() < self.deadline


class Duties(Protocol):
    """The work of the holder, and what a follower knows."""

    async def lead(self, tenure: Tenure, took_over: Callable[[], None]) -> None:
        """The holder's work: takes over, puts ``tenure.published``, calls ``took_over``, delivers, and returns some
        time after ``tenure.ending`` was set. Cancelled at the deadline, and when the Lease is lost: returns as soon as
        no delivery is under way. No delivery begins while ``tenure.is_valid`` is False."""
        ...

    def observed(self, lease: Lease | None) -> None:
        """The Lease as it is, while this replica follows. Called at each change."""
        ...

    def is_in_sync(self, published: Published) -> bool:
        """Whether this replica, which follows, is in sync with the leader that published this, and knows so itself."""
        ...

    async def remember(self, identity: str) -> None:
        """The elector is about to take the Lease with this identity. Durable on return, so that the next process of
        this state directory knows its predecessor."""
        ...
