"""A leader's outbox and followers of it, over loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridge.model.policies import LeaseTiming, StartPolicy
from bridge.model.status import replica_of
from bridge.outbox import Outbox
from bridge.outbox.commits import Capture, CommitHistory
from bridge.outbox.copied_state import CopiedState
from bridge.plan.plan import ElectionPlan
from bridge.replication.following import CannotFollow, Leader, StateFollower
from bridge.replication.identity import ReplicaSettings, ServerIdentity, new_identity
from bridge.replication.serving import FRAMES, ReplicationServer, Replicator
from bridge.telemetry.facts import discard

KEY = b"k" * 32
BRIDGE = "prod/apps/kubedelta"
SINKS = {"audit": StartPolicy.SNAPSHOT}


def settings(
    directory: Path, identity: str, keys: Sequence[bytes] = (KEY,), api_server: str = "https://127.0.0.1:6443"
) -> ReplicaSettings:
    return ReplicaSettings(
        election=ElectionPlan(
            namespace="apps", lease="kubedelta", name=replica_of(identity) or identity, timing=LeaseTiming()
        ),
        identity=identity,
        cluster="prod",
        shard=None,
        keys=keys,
        state=directory,
        cipher=None,
        api_server=api_server,
    )


@dataclass
class Lease:
    """The list in the Lease. ``writable``: writes happen, and their answers arrive."""

    runs: frozenset[str] = frozenset()
    writable: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    writes: list[frozenset[str]] = field(default_factory=list)

    async def publish(self, runs: frozenset[str]) -> str:
        await self.writable.wait()
        self.runs = runs
        self.writes.append(runs)
        self.changed.set()
        self.changed = asyncio.Event()
        return str(len(self.writes))

    async def until(self, runs: set[str]) -> None:
        """Waits until the Lease names exactly these runs."""
        while self.runs != runs:
            await self.changed.wait()


@dataclass
class Leading:
    """A leader in its term."""

    directory: Path
    outbox: Outbox
    replicator: Replicator
    server: ReplicationServer
    identity: ServerIdentity
    lease: Lease
    term: int
    opened: AsyncExitStack

    async def ship(self) -> None:
        """Ends in order: closes the state, and waits until everybody in sync has all of it."""
        await self.opened.aclose()
        await self.replicator.drained()

    @property
    def address(self) -> Leader:
        return Leader(f"127.0.0.1:{self.server.port}", self.identity.fingerprint, self.term)


@asynccontextmanager
async def leading(
    directory: Path,
    term: int,
    *,
    patience: float = 1.0,
    rest: float = 0.1,
    frames: int = FRAMES,
    lease: Lease | None = None,
    keys: Sequence[bytes] = (KEY,),
    **options: Any,
) -> AsyncIterator[Leading]:
    await asyncio.to_thread(directory.mkdir, mode=0o700, exist_ok=True)
    replicator = Replicator(patience, rest=rest, frames=frames)
    capture = Capture(term, replicator, directory)
    identity = await asyncio.to_thread(new_identity, directory)
    if lease is None:
        lease = Lease()
        lease.writable.set()
    lease.runs = frozenset()  # The write that takes the Lease.
    async with AsyncExitStack() as opened:
        outbox = await opened.enter_async_context(
            await Outbox.open(directory, SINKS, report=discard, capture=capture, **options)
        )
        me = settings(directory, "leader", keys)
        server = ReplicationServer(me, capture.history, replicator, identity, "127.0.0.1", discard)
        await server.start()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(replicator.run(lease.publish))
            try:
                yield Leading(directory, outbox, replicator, server, identity, lease, term, opened)
            finally:
                await server.stop()
                running.cancel()


@dataclass
class Following:
    """A follower, while it follows."""

    follower: StateFollower
    failures: list[str]
    copies: list[CommitHistory]
    """What its base copies had."""
    _applies: threading.Event
    """Set while the follower applies what it gets."""

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Inside, it applies nothing, as on a slow disk."""
        self._applies.clear()
        try:
            yield
        finally:
            self._applies.set()

    async def until(self, commit: int) -> None:
        """Waits until it has this commit."""
        while self.follower.commit < commit:  # noqa: ASYNC110  # a database announces nothing
            await asyncio.sleep(0.005)


@asynccontextmanager
async def following(
    directory: Path, leader: Leader, run: str = "follower-1", keys: Sequence[bytes] = (KEY,)
) -> AsyncIterator[Following]:
    """Inside, follows again whenever the connection ends."""
    await asyncio.to_thread(directory.mkdir, mode=0o700, exist_ok=True)
    state = await asyncio.to_thread(CopiedState, directory)
    follower = StateFollower(state, settings(directory, run, keys))
    failures: list[str] = []
    copies: list[CommitHistory] = []
    applies = threading.Event()
    applies.set()
    apply, install = state.apply, state.install

    def apply_later(patchsets: Any) -> int:
        applies.wait()
        return apply(patchsets)

    def install_noted(*args: Any) -> CommitHistory:
        copies.append(install(*args))
        return copies[-1]

    state.apply, state.install = apply_later, install_noted  # type: ignore[assignment, method-assign]

    async def follow() -> None:
        while True:
            try:
                await follower.follow(leader)
            except CannotFollow as error:
                failures.append(str(error))
            await asyncio.sleep(0.02)

    try:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(follow())
            try:
                yield Following(follower, failures, copies, applies)
            finally:
                applies.set()
                task.cancel()
    finally:
        await follower.close()


@asynccontextmanager
async def in_sync(
    directory: Path, leader: Leading, run: str = "follower-1", keys: Sequence[bytes] = (KEY,)
) -> AsyncIterator[Following]:
    """As ``following``; inside, the Lease names this follower alone."""
    async with following(directory, leader.address, run, keys) as follower:
        await leader.lease.until({run})
        yield follower
