"""A replica: it follows until it holds the Lease, then leads, and follows again if it loses the Lease.

To lead is to run the bridge on the state directory, as it runs without an election: ``lead``, which the composition
root gives, does that within ``Term.replicating``. Nothing watches, decides or delivers while a replica follows.

A takeover, in its order:

1. The holder before releases the Lease, or has not renewed it for ``lease_duration``. A replica that is not on its
   in-sync list waits for one more duration.
2. ``Elector`` remembers its identity in the state directory, and takes the Lease with the next term. What the former
   leader published stays in it.
3. ``Replica.lead`` ends following, and closes the copy.
4. ``Lead`` opens the outbox in the same directory, as a restart does, with the term's ``Capture``. Its first commit
   begins the term. A takeover that may lack something writes a Gap, and each sink owes a snapshot.
5. ``Term.announce``: the replication server listens, and the Lease says where, before the first delivery.
6. Watches resume at their positions, sinks open with the term, and what was not settled comes again with its ids.
7. The others follow: by the next commits where their point is in this history, else by a base copy.

A lost Lease ends the bridge's run, and no process. client-go's users exit; then every hiccup of the API server costs a
new process. Here the replica closes its state, follows again, and resumes its watches from their positions when it
leads. The price: every watch and sink is opened and closed with a tenure.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from bridge.model.primitives.network import host_and_port
from bridge.model.status import ElectionStatus, FollowerStatus, replica_of
from bridge.model.versions import is_older
from bridge.outbox import Capture
from bridge.outbox.copied_state import CopiedState
from bridge.replication.deciding import Ended, Rules, Starting, SteppingDown, state_of
from bridge.replication.elector import Elector, LeaseApi, Tenure
from bridge.replication.following import CannotFollow, Leader, StateFollower
from bridge.replication.identity import (
    ReplicaSettings,
    new_identity,
    read_predecessors,
    write_identities,
)
from bridge.replication.lease import Lease, Published
from bridge.replication.serving import ReplicationServer, Replicator
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.election import FollowerInSync, FollowerLost, FollowingFailed, TookOverLacking

_PAUSE = 0.5
"""Seconds until a follower connects again; twice as long behind each failure."""
_LONGEST_PAUSE = 5.0
_DRAIN = 2.0
"""Seconds in which followers get the last commits of a leader that ends."""


class Term:
    """A term of this replica, for the bridge that it runs."""

    def __init__(self, settings: ReplicaSettings, tenure: Tenure, took_over: Callable[[], None], report: Report):
        self._settings = settings
        self._took_over = took_over
        self._report = report
        self.tenure = tenure
        """The Lease: asked before each request to a destination; ``ending`` is set when the bridge is to end."""
        self.replicator = Replicator(settings.election.ack_timeout)
        self.capture = Capture(tenure.term, self.replicator, settings.state)
        """For the outbox."""
        self._published = Published(leader=settings.identity, term=tenure.term)
        self._server: ReplicationServer | None = None

    @property
    def lacking(self) -> bool:
        """Another replica may have delivered what this state does not have."""
        return not self.tenure.clean

    @asynccontextmanager
    async def replicating(self) -> AsyncIterator[None]:
        """Around the time in which the state is open. At its end, in order, the followers have everything."""
        async with asyncio.TaskGroup() as tasks:
            publishing = tasks.create_task(self.replicator.run(self._publish), name="in-sync list")
            try:
                yield
                with suppress(TimeoutError):
                    async with asyncio.timeout(_DRAIN):
                        await self.replicator.drained()
            finally:
                publishing.cancel()  # First: connections that end now take nobody off the list.
                if self._server is not None:
                    await self._server.stop()

    async def announce(self) -> None:
        """Before the first delivery, with the state open: followers can connect, and the Lease says so. Raises OSError
        if the port is taken."""
        settings = self._settings
        identity = await asyncio.to_thread(new_identity, settings.state)
        host = await asyncio.to_thread(own_address, settings.api_server)
        server = ReplicationServer(settings, self.capture.history, self.replicator, identity, host, self._report)
        await server.start()
        self._server = server
        self._say(address=host_and_port(host, server.port), fingerprint=identity.fingerprint)
        self._took_over()
        await self.tenure.confirmed()
        if self.lacking:
            before = self.tenure.before
            self._report(TookOverLacking(self.tenure.term, "" if before is None else replica_of(before.leader)))

    async def _publish(self, runs: frozenset[str]) -> str:
        before, names = set(self._published.in_sync), self.followers
        self._say(in_sync=tuple(sorted(runs)))
        await self.tenure.confirmed()
        for run in sorted(before - runs):
            self._report(FollowerLost(replica_of(run), connected=run in names))
        for run in sorted(runs - before):
            self._report(FollowerInSync(replica_of(run), self.tenure.term))
        return self.tenure.version

    def _say(self, **what: Any) -> None:
        self._published = self.tenure.published = msgspec.structs.replace(self._published, **what)

    @property
    def followers(self) -> dict[str, str]:
        return {} if self._server is None else self._server.followers

    def followers_status(self) -> tuple[FollowerStatus, ...]:
        """Of those that are connected."""
        names, lags = self.followers, self.replicator.lags()
        waiting = {run: FollowerStatus(names[run], False, self.replicator.in_sync.newest, 0.0) for run in names}
        known = {
            run: FollowerStatus(names.get(run, run), lag.in_sync, lag.commits, lag.seconds) for run, lag in lags.items()
        }
        return tuple(sorted({**waiting, **known}.values(), key=lambda each: each.name))


Lead: TypeAlias = Callable[[Term], Awaitable[None]]
"""Runs the bridge until ``tenure.ending`` is set, and closes the state. Cancelled when the Lease is lost: returns as
soon as no delivery is under way."""


Beside: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


class Replica:
    """The loop of one process: it follows, leads while it holds the Lease, and follows again. It is the elector's
    ``Duties``."""

    def __init__(
        self,
        settings: ReplicaSettings,
        state: CopiedState,
        api: LeaseApi,
        *,
        lead: Lead,
        beside: Beside,
        report: Report,
    ) -> None:
        """``state``: of the state directory; closed by ``run``. ``beside``: surrounds the time in which this replica
        follows."""
        self._settings = settings
        self._lead = lead
        self._beside = beside
        self._report = report
        self._follower: StateFollower | None = StateFollower(state, settings)
        """While this replica follows."""
        self._leader: Leader | None = None
        self._news = asyncio.Event()
        self._failure = ""
        self._following: asyncio.Task[None] | None = None
        self._tasks: asyncio.TaskGroup
        self.term: Term | None = None
        """While this replica leads."""
        election = settings.election
        self._predecessors = read_predecessors(settings.state, election.name)
        self._elector = Elector(
            api,
            self,
            Rules(settings.identity, election.timing, *self._predecessors),
            namespace=election.namespace,
            name=election.lease,
            highest_term=state.newest_term(),
            report=report,
        )

    async def run(self) -> None:
        """Until ``stop``, or the exception with which ``lead`` ends."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._begin_following()
                await self._elector.run()
                await self._end_following()
        finally:
            await self._end_following()

    def stop(self) -> None:
        """Lets the work end, and leaves the Lease to others."""
        self._elector.stop()

    def status(self) -> ElectionStatus:
        state, identity = self._elector.state, self._settings.identity
        named = state_of(state)
        if isinstance(state, Starting | Ended):
            term = state.highest_term if isinstance(state, Starting) else 0
            return ElectionStatus(state=named, identity=identity, term=term, reason="the Lease was not read yet")
        known, now = state.known, asyncio.get_running_loop().time()
        followers = () if self.term is None else self.term.followers_status()
        if self.term is not None:
            in_sync = any(each.in_sync for each in followers)
        else:
            # Where nobody has led, nothing is watched yet, and each replica would be a clean successor of nobody.
            in_sync = self._elector.is_clean and self._leader is not None
        return ElectionStatus(
            state=named,
            identity=identity,
            holder="" if known.lease is None else known.lease.holder,
            term=known.highest_term,
            in_sync=in_sync,
            reason="" if in_sync or self.term is not None else self._why_not(),
            renewed_seconds=max(0.0, now - known.since),
            followers=followers,
        )

    def _why_not(self) -> str:
        if self._leader is None:
            return "there is no leader to follow"
        return self._failure or f"it gets what it lacks from {self._leader.address}"

    # ── Duties ───────────────────────────────────────────────────────────────

    async def lead(self, tenure: Tenure, took_over: Callable[[], None]) -> None:
        """See Duties."""
        try:
            await self._end_following()
            self.term = Term(self._settings, tenure, took_over, self._report)
            await self._lead(self.term)
        except asyncio.CancelledError:
            if not isinstance(self._elector.state, SteppingDown):
                raise
        finally:
            self.term = None
        if isinstance(self._elector.state, SteppingDown) and not tenure.ending.is_set():
            await self._end_following()  # Where the Lease was lost while the copy was being closed.
            state = await asyncio.to_thread(CopiedState, self._settings.state)
            self._follower = StateFollower(state, self._settings)
            self._begin_following()

    def observed(self, lease: Lease | None) -> None:
        """See Duties."""
        published = None if lease is None else lease.published
        follower = self._follower
        # A leader names this replica in the Lease before it says so. Another list behind that means it is out.
        if (
            (follower is not None and lease is not None and published is not None)
            and (follower.named.term and not self.is_in_sync(published))
            and not is_older(lease.version, follower.named.version)
        ):
            follower.forget()
        leads = (
            published is not None and lease is not None and published.leader == lease.holder != self._settings.identity
        )
        leader = None
        if published is not None and leads and published.address:
            leader = Leader(published.address, published.fingerprint, published.term)
        if leader != self._leader:
            self._leader = leader
            self._news.set()

    def is_in_sync(self, published: Published) -> bool:
        """See Duties."""
        follower = self._follower
        return (
            follower is not None
            and follower.named.term == published.term
            and self._settings.identity in published.in_sync
        )

    async def remember(self, identity: str) -> None:
        """See Duties. Without the file, the next process only waits for longer."""
        with suppress(OSError):
            await asyncio.to_thread(write_identities, self._settings.state, [identity, *self._predecessors])

    # ── Following ────────────────────────────────────────────────────────────

    def _begin_following(self) -> None:
        self._following = self._tasks.create_task(self._follow(), name="following")

    async def _end_following(self) -> None:
        """On return the state directory is free."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
            self._following = None
        if self._follower is not None:
            await self._follower.close()
            self._follower = None

    async def _follow(self) -> None:
        """One leader after the other, until cancelled."""
        pause, now = _PAUSE, asyncio.get_running_loop().time
        async with self._beside():
            while (follower := self._follower) is not None:
                self._news.clear()
                if (leader := self._leader) is None:
                    await self._news.wait()
                    continue
                began = now()
                await self._follow_until_news(follower, leader)
                if now() - began > _LONGEST_PAUSE:
                    pause = _PAUSE
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._news.wait()
                pause = _PAUSE if self._news.is_set() else min(2 * pause, _LONGEST_PAUSE)

    async def _follow_until_news(self, follower: StateFollower, leader: Leader) -> None:
        """Until the connection ends, or another replica leads."""
        self._failure = ""
        following = asyncio.get_running_loop().create_task(follower.follow(leader))  # Awaited below, on every way.
        news = asyncio.get_running_loop().create_task(self._news.wait())
        try:
            await asyncio.wait([following, news], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (following, news):
                each.cancel()
            results = await asyncio.gather(following, news, return_exceptions=True)
        match results[0]:
            case CannotFollow() as error:
                self._failure = str(error)
                self._report(FollowingFailed(leader.address, self._failure))
            case asyncio.CancelledError() | None:
                pass
            case BaseException() as error:
                raise error


def own_address(api_server: str) -> str:
    """The address of this machine from which the API server is reached: in a pod, the pod's. Sends nothing. Raises
    OSError."""
    url = urlsplit(api_server)
    host, port = url.hostname or "127.0.0.1", url.port or (443 if url.scheme == "https" else 80)
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
