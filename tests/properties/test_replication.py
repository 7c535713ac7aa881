"""Replicas that copy the leader's commits: whatever is lost, late, cut, killed or restored, what a destination has
equals what happened; a clean successor has all that was delivered; and a number means one thing.

The replicas are as they are, in virtual time, down to their SQLite files: ``Replica`` with its elector, the server's
and the follower's side of the protocol, captured commits and copied states. They speak over lines that are late, cut
and broken, on disks that a kill leaves, with one Lease on an API server that is away, loses answers, and is restored
from a backup. In place of sockets there are ``Line``s, in place of threads the event loop, and in place of a bridge a
loop that writes what happens into its log, and delivers it.

Each mutant leaves out one rule of the protocol, and is found.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias

import apsw
import msgspec
import pytest
from aiohttp import WSMessage, WSMsgType
from hypothesis import event, given
from hypothesis import strategies as st

from bridge.model.primitives.packing import pack
from bridge.model.status import ElectionState
from bridge.outbox.commits import CommitHistory, Frame, Point, history_of
from bridge.outbox.copied_state import CopiedState
from bridge.outbox.log import record_codec, statements
from bridge.outbox.opening import OpenedState, open_state
from bridge.outbox.storage.directory_lock import FILE, WAL
from bridge.replication import following, replica, wire
from bridge.replication import identity as predecessor
from bridge.replication.elector import Elector
from bridge.replication.following import Leader, StateFollower
from bridge.replication.identity import ServerIdentity
from bridge.replication.in_sync import InSync
from bridge.replication.lease import LAST_TERM, PUBLISHED, TERM, Published
from bridge.replication.replica import Replica, Term
from bridge.replication.serving import ReplicationServer, Replicator
from bridge.telemetry.facts import Fact
from tests.bridge.replication.lease_store import FakeLeaseApi, LeaseStore
from tests.bridge.replication.pair import SINKS, settings
from tests.kit.copied_states import content, rows_of_all_tables
from tests.kit.examples import examples
from tests.kit.virtual_time import Inline, run_in_virtual_time

KEYS = ("shop/a", "shop/b", "shop/c")
NOW = "2026-11-27T00:00:00.000000Z"
BODY = pack(b"{}")
HEARTBEAT = 7.5
"""Seconds after which a line that carries nothing breaks."""
LATENCIES = (0.001, 0.001, 0.01, 0.2, 0.6, 2.0)


# ── Lines ────────────────────────────────────────────────────────────────────

_CLOSED = WSMessage(WSMsgType.CLOSED, None, None)


class Line:
    """One side of a connection between two replicas: a WebSocket, as far as they use it. What is sent arrives late, in
    order, or never."""

    def __init__(self, world: World, here: str, there: str) -> None:
        self._world = world
        self._way = here, there
        self._inbox: asyncio.Queue[WSMessage] = asyncio.Queue()
        self._flight: deque[tuple[float, WSMessage]] = deque()
        self._pumping = False
        self.open = True
        self.other: Line

    async def send_bytes(self, message: bytes) -> None:
        if not self.open:
            raise ConnectionError("the line is broken")
        self._send(WSMessage(WSMsgType.BINARY, message, None))

    async def receive(self) -> WSMessage:
        if not self.open and self._inbox.empty():
            return _CLOSED
        return await self._inbox.get()

    async def close(self, *, message: bytes = b"") -> None:
        del message
        if self.open:
            self._send(_CLOSED)
            self._end()

    def break_off(self) -> None:
        """What is under way is lost, both ways."""
        for each in (self, self.other):
            each._flight.clear()
            each._end()

    def _end(self) -> None:
        self.open = False
        self._inbox.put_nowait(_CLOSED)

    def _send(self, message: WSMessage) -> None:
        due = asyncio.get_running_loop().time() + self._world.latency()
        self._flight.append((max(due, self._flight[-1][0] if self._flight else due), message))
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_at(due, self._pump)

    def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        cut = self._way in self._world.cut
        while self._flight and self._flight[0][0] <= loop.time() and not cut:
            _, message = self._flight.popleft()
            if message is _CLOSED:
                self.other._end()
            elif self.other.open:
                self.other._inbox.put_nowait(message)
        self._pumping = bool(self._flight)
        if self._pumping:
            loop.call_at(max(self._flight[0][0], loop.time() + (0.25 if cut else 0.0)), self._pump)


class LineServer(ReplicationServer):
    """Serves followers over lines."""

    def __init__(self, world: World, me: Any, history: Any, replicator: Any, identity: Any, host: str, report: Any):
        super().__init__(me, history, replicator, identity, host, report)
        self._world = world
        self.host = host
        self.fingerprint = str(identity.fingerprint)
        self._port_number = next(world.ports)
        self._serving: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        return self._port_number

    async def start(self) -> None:
        self._world.servers[f"{self.host}:{self.port}"] = self

    async def stop(self) -> None:
        self._world.servers.pop(f"{self.host}:{self.port}", None)
        for each in [*self._connections.values()]:
            await each.socket.close(message=b"the term is over")
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def accept(self, line: Any) -> None:
        self._serving.append(asyncio.get_running_loop().create_task(self._serve_line(line)))

    async def _serve_line(self, line: Any) -> None:
        hello = await wire.heard(line)
        if hello is not None:
            assert isinstance(hello, wire.FollowerHello)
            assert not self._refusal(hello)
            await self._follow(hello, line)
        await line.close()


class LineFollower(StateFollower):
    """Connects over lines."""

    def __init__(self, world: World, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._world = world

    @asynccontextmanager
    async def _connected(self, leader: Leader) -> AsyncIterator[Any]:
        line = await self._world.connect(self._me.identity, self._me.election.name, leader)
        try:
            yield line
        finally:
            await line.close()


# ── Replicas ─────────────────────────────────────────────────────────────────


class Delivery(NamedTuple):
    """A record as a destination gets it."""

    number: int
    name: str
    """What it is about: its id, but for a Gap."""


class Process:
    """A replica from its start until it ends, or is killed: then nothing that it does has an effect any more."""

    def __init__(self, world: World, host: Host) -> None:
        self.world, self.host, self.directory = world, host, host.directory
        self.identity = f"{host.name}_{next(world.runs)}"
        self.dead = False
        self.api = FakeLeaseApi(world.store)
        self.replica = Replica(
            settings(self.directory, self.identity, api_server=host.name),
            CopiedState(self.directory),
            self.api,
            lead=self._lead,
            beside=nullcontext,
            report=world.facts.append,
        )
        self.task = asyncio.get_running_loop().create_task(self.replica.run())

    @property
    def leads(self) -> bool:
        return not self.dead and self.replica.status().state is ElectionState.LEADING

    def kill(self) -> None:
        self.dead, self.api.reachable = True, False

    async def _lead(self, term: Term) -> None:
        self.host.older = None
        async with term.replicating():
            self.world.take_over(self.directory, clean=not term.lacking)
            behind = self.world.number_of_now()
            opened = open_state(self.directory, SINKS, NOW, behind=behind, capture=term.capture, lacking=term.lacking)
            bridge = SmallBridge(self, term, opened)
            try:
                await term.announce()
                async with asyncio.TaskGroup() as tasks:
                    works = [tasks.create_task(each) for each in (bridge.watch(), bridge.deliver())]
                    await term.tenure.ending.wait()
                    for each in works:
                        each.cancel()
            finally:
                opened.connection.close()
                opened.state_directory.release()


class SmallBridge:
    """Writes what happens into its log, in several transactions at once, and delivers what is replicated."""

    def __init__(self, process: Process, term: Term, opened: OpenedState) -> None:
        self._process, self._world, self._term = process, process.world, term
        self._connection, self._ahead = opened.connection, opened.ahead
        self._last = opened.last
        [(self._position,)] = self._connection.execute("SELECT coalesce(max(CAST(version AS INTEGER)), 0) FROM log")
        [(settled,)] = self._connection.execute("SELECT settled FROM cursors")
        rows = self._connection.execute("SELECT seq, op, key, version FROM log WHERE seq > ? ORDER BY seq", (settled,))
        self._deliverable = deque((seq, _name(op, key, version)) for seq, op, key, version in rows)
        self._news = asyncio.Event()
        self._note()
        term.replicator.committed(term.capture.opened(), lambda: None)

    async def watch(self) -> None:
        world = self._world
        while True:
            await self._alive()
            if not (steps := world.steps[self._position :][: world.chance.randint(1, 3)]):
                news = world.news
                await news.wait()
                continue
            self._export(steps)
            await asyncio.sleep(world.chance.choice((0.0, 0.02, 0.3)))

    def _export(self, steps: Sequence[str]) -> None:
        rows = []
        for step in steps:
            self._last, self._position = self._last + 1, self._position + 1
            row = (self._last, "updated", "watched", 1, 1, step, f"uid-{step}", str(self._position), NOW, 1)
            rows.append((*row, None, None, None, None, None, 0, None, BODY))
        found = [(row[0], _name("updated", row[5], row[7])) for row in rows]

        def write(connection: apsw.Connection) -> None:
            connection.execute("INSERT OR IGNORE INTO kinds (id, name) VALUES (1, 'pods')")
            connection.execute("INSERT OR IGNORE INTO resources VALUES (1, 1, '', 'v1', 'pods', 'Pod', 1)")
            connection.executemany(record_codec.INSERT, rows)
            ledger = [(1, row[0], row[5], None, row[6], row[7], None, 0, None) for row in rows]
            connection.executemany(statements.ENTER, ledger)
            connection.execute("UPDATE meta SET last = ?", (rows[-1][0],))

        self._commit(write, lambda: self._add(found))

    def _add(self, found: Sequence[tuple[int, str]]) -> None:
        self._deliverable += found
        self._news.set()

    async def deliver(self) -> None:
        world, chance = self._world, self._world.chance
        while True:
            if not self._deliverable:
                self._news.clear()
                await self._news.wait()
            await asyncio.sleep(chance.choice((0.0, 0.001, 0.05)))
            await self._alive()
            if not self._term.tenure.is_valid:
                await asyncio.Event().wait()
            seq, name = self._deliverable.popleft()
            world.deliver(Delivery(seq + self._ahead, name))
            if chance.random() < 0.3:
                self._save(seq, chance.randbytes(4))

    def _save(self, settled: int, memory: bytes) -> None:
        change = "UPDATE cursors SET settled = ?, memory = ?"
        self._commit(lambda connection: connection.execute(change, (settled, memory)), lambda: None)

    def _commit(self, work: Callable[[apsw.Connection], object], finish: Callable[[], None]) -> None:
        """As the outbox's writer does it."""
        connection, capture = self._connection, self._term.capture
        connection.execute("BEGIN IMMEDIATE")
        capture.begin()
        work(connection)
        frame = capture.end()
        connection.execute("COMMIT")
        self._note()
        self._term.replicator.committed(frame, finish)

    def _note(self) -> None:
        """What a database with this point has."""
        point = history_of(self._connection).point
        assert point is not None
        self._world.contents[point] = digest(self._connection)

    async def _alive(self) -> None:
        if self._process.dead:
            await asyncio.Event().wait()


@dataclass
class Host:
    """A pod with its volume, whichever process runs there."""

    world: World
    name: str
    directory: Path
    process: Process | None = None
    older: Path | None = None
    """The files of a follower some time ago: a power cut may bring them back."""

    def start(self) -> None:
        self.process = Process(self.world, self)

    def copied(self) -> Path:
        """The files as a kill leaves them now."""
        copy = self.world.folder / f"{self.name}-{next(self.world.copies)}"
        copy.mkdir(mode=0o700)
        for name in (FILE, WAL, predecessor.FILE):
            if (self.directory / name).exists():
                shutil.copy(self.directory / name, copy)
        return copy

    # ── Faults ───────────────────────────────────────────────────────────────

    def kill(self, directory: Path | None = None) -> None:
        """Another process begins some time later."""
        if self.process is None or self.process.task.done():
            return
        self.directory = directory or self.copied()
        self.process.kill()
        self.world.break_lines(self.name)
        self.process, self.older = None, None
        self.world.later(self.world.chance.choice((0.2, 3.0, 12.0, 30.0)), self.start)

    def cut_power(self) -> None:
        """What a follower applied at last may be gone."""
        if self.older is not None:
            older, self.older = self.older, None
            if (self.directory / predecessor.FILE).exists():
                shutil.copy(self.directory / predecessor.FILE, older)
            self.kill(older)

    def rest(self) -> None: ...

    def sync(self) -> None:
        """The disk has everything up to now."""
        if self.process is not None and not self.process.leads:
            self.older = self.copied()

    def lose_volume(self) -> None:
        empty = self.world.folder / f"{self.name}-{next(self.world.copies)}"
        empty.mkdir(mode=0o700)
        self.kill(empty)

    def stop(self) -> None:
        """SIGTERM, and another process."""
        process = self.process
        if process is not None and not process.task.done():
            process.replica.stop()
            self.world.later(25.0, lambda: None if process is not self.process else self._again(process))

    def _again(self, process: Process) -> None:
        if process.task.done():
            self.start()
        else:
            self.kill()

    def lose_api(self) -> None:
        if (process := self.process) is not None:
            process.api.reachable = False
            self.world.later(self.world.chance.choice((1.0, 6.0, 25.0)), lambda: self._reach(process))

    def lose_answers(self) -> None:
        if self.process is not None:
            self.process.api.lose_answers += self.world.chance.randint(1, 3)

    def _reach(self, process: Process) -> None:
        process.api.reachable = not process.dead


# ── The world ────────────────────────────────────────────────────────────────


class World:
    """Replicas, and what happens to them and around them."""

    def __init__(self, folder: Path, chance: Random, replicas: int) -> None:
        self.folder, self.chance = folder, chance
        self.store = LeaseStore()
        self.steps: list[str] = []
        """The key of each; the version of a step is its place, from 1."""
        self.news = asyncio.Event()
        self.received: list[Delivery] = []
        self.promised: set[str] = set()
        """What a clean successor has: what was delivered since the last takeover that lacked something."""
        self.numbered: dict[int, str] = {}
        self.contents: dict[Point, bytes] = {}
        self.facts: list[Fact] = []
        self.faults: list[str] = []
        """What must not happen, and has."""
        self.lacking = self.takeovers = 0
        self.cut: set[tuple[str, str]] = set()
        self.servers: dict[str, LineServer] = {}
        self.lines: list[Line] = []
        self.ports, self.runs, self.copies = count(1), count(1), count(1)
        self.calm = False
        self.quiet_until = 0.0
        """No fault is to happen before."""
        self.hosts = [Host(self, f"kubedelta-{number}", folder / f"disk-{number}") for number in range(replicas)]
        for host in self.hosts:
            host.directory.mkdir(mode=0o700)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, act)

    def latency(self) -> float:
        return 0.001 if self.calm else self.chance.choice(LATENCIES)

    def number_of_now(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000_000)

    # ── What happens, and what arrives ───────────────────────────────────────

    def change(self, count: int) -> None:
        self.steps += [self.chance.choice(KEYS) for _ in range(count)]
        self.news.set()
        self.news = asyncio.Event()

    def demand(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.faults.append(otherwise)

    def take_over(self, directory: Path, *, clean: bool) -> None:
        """A replica is about to lead with this state."""
        self.takeovers += 1
        self.lacking += not clean
        has: set[str] = set()
        if (directory / FILE).exists():
            with closing(apsw.Connection(str(directory / FILE))) as connection:
                has = {_name(*row) for row in connection.execute("SELECT op, key, version FROM log")}
                point = history_of(connection).point
                if clean and point is not None:
                    self.demand(digest(connection) == self.contents[point], f"two databases at {point} differ")
        if not clean:
            self.promised = has
        self.demand(self.promised <= has, f"a clean successor lacks what was delivered: {self.promised - has}")

    def deliver(self, delivery: Delivery) -> None:
        known = self.numbered.setdefault(delivery.number, delivery.name)
        self.demand(known == delivery.name, f"number {delivery.number} was {known}, and is {delivery.name}")
        self.received.append(delivery)
        self.promised.add(delivery.name)

    def judge(self) -> None:
        """At the end, in peace."""
        assert not self.faults
        newest: dict[str, Delivery] = {}
        for each in sorted(self.received):
            newest[each.name.partition("@")[0]] = each
        happened = {f"{key}@{version}" for version, key in enumerate(self.steps, 1)}
        assert {each.name for each in self.received} - {GAP} == happened
        last = {key: f"{key}@{version}" for version, key in enumerate(self.steps, 1)}
        assert {key: each.name for key, each in newest.items() if key != GAP} == last
        gaps = len({each.number for each in self.received if each.name == GAP})
        assert gaps <= self.lacking, "a Gap, and nobody lacked anything"
        assert bool(gaps) >= bool(self.lacking), "somebody lacked something, and no Gap says so"

    # ── Lines ────────────────────────────────────────────────────────────────

    async def connect(self, run: str, here: str, leader: Leader) -> Line:
        await asyncio.sleep(self.latency())
        if not any(each.process is not None and each.process.identity == run for each in self.hosts):
            await asyncio.Event().wait()  # It was killed.
        server = self.servers.get(leader.address)
        there = leader.address.rpartition(":")[0]
        if {(here, there), (there, here)} & self.cut:
            await asyncio.sleep(5.0)
            raise TimeoutError
        if server is None or server.fingerprint != leader.fingerprint or not self._is_alive(server):
            raise ConnectionRefusedError(f"nobody listens at {leader.address}")
        mine, its = Line(self, here, there), Line(self, there, here)
        mine.other, its.other = its, mine
        self.lines = [each for each in self.lines if each.open] + [mine]
        server.accept(its)
        return mine

    def _is_alive(self, server: LineServer) -> bool:
        return any(
            each.process is not None
            and each.process.replica.term is not None
            and each.process.replica.term._server is server
            for each in self.hosts
        )

    def break_lines(self, *names: str) -> None:
        for line in self.lines:
            if set(names) <= set(line._way):
                line.break_off()

    # ── Faults of the network, and of the API server ─────────────────────────

    def cut_off(self, one: str, other: str) -> None:
        ways = [{(one, other)}, {(other, one)}, {(one, other), (other, one)}]
        cut = self.chance.choice(ways)
        self.cut |= cut
        lasts = self.chance.choice((0.5, 3.0, 20.0))
        if lasts > HEARTBEAT:
            self.later(HEARTBEAT, lambda: self.break_lines(one, other))
        self.later(lasts, lambda: self.cut.difference_update(cut))

    def back_up(self) -> None:
        self.backup = deepcopy(self.store.body), self.store.version

    def restore(self) -> None:
        """The API server is again as it was backed up last. Excluded: replicas that know nothing of the terms that the
        backup undoes, and come back before the others have a leader again. Nobody could tell such a Lease from a true
        one."""
        running = [each.process for each in self.hosts if each.process is not None and not each.process.task.done()]
        newest = max((each.replica.status().term for each in running), default=0)
        knowing = [each for each in running if each.api.reachable and each.replica.status().term == newest]
        if len(knowing) == len(self.hosts) and any(each.leads for each in knowing):
            self.store.restore(*self.backup)
            self.quiet_until = asyncio.get_running_loop().time() + 40.0

    def forge(self) -> None:
        """Somebody who can write the Lease, and has no key, writes what a leader publishes, or a term."""
        if self.store.body is None:
            return
        if self.chance.random() < 0.3:
            self.store.annotate(TERM, self.chance.choice(("0", "9" * 16, str(1 << 52), "x", str(LAST_TERM))))
            return
        runs = tuple(each.process.identity for each in self.hosts if each.process is not None)
        forged = Published(
            leader=self.chance.choice((self.store.holder, *runs, "nobody")),
            term=self.chance.randint(0, 9),
            address=self.chance.choice(("nowhere:1", *self.servers)),
            fingerprint=self.chance.choice(("", "00" * 32)),
            in_sync=self.chance.choice(((), runs)),
        )
        self.store.annotate(PUBLISHED, msgspec.json.encode(forged).decode())

    # ── A fault by its name ──────────────────────────────────────────────────

    def happens(self, fault: str, which: int) -> None:
        """To this replica, or to the leader."""
        if asyncio.get_running_loop().time() < self.quiet_until:
            return
        host, other = (self.hosts[(which + step) % len(self.hosts)] for step in (0, 1))
        leader = next((each for each in self.hosts if each.process is not None and each.process.leads), host)
        match fault:
            case "kill the leader":
                leader.kill()
            case "isolate the leader":
                leader.lose_api()
                for each in self.hosts:
                    if each is not leader:
                        self.cut_off(leader.name, each.name)
            case "cut":
                self.cut_off(host.name, other.name)
            case "break":
                self.break_lines(host.name)
            case "back_up" | "restore" | "forge":
                getattr(self, fault)()
            case _:
                getattr(host, fault)()


GAP = "gap"


def _name(op: str, key: str, version: str) -> str:
    return GAP if op == record_codec.GAP else f"{key}@{version}"


def digest(connection: apsw.Connection) -> bytes:
    """Of all that a database has."""
    return hashlib.sha256(repr(content(connection)).encode()).digest()


# ── A run ────────────────────────────────────────────────────────────────────


@contextmanager
def over_lines(world: World) -> Iterator[None]:
    """Replicas that are made inside speak over lines."""
    fingerprints = count(1)
    fakes = {
        "ReplicationServer": partial(LineServer, world),
        "StateFollower": partial(LineFollower, world),
        "own_address": lambda host: host,
        "new_identity": lambda _: ServerIdentity(None, f"{next(fingerprints):064x}"),  # type: ignore[arg-type]
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "ThreadPoolExecutor", Inline)
        for name, fake in fakes.items():
            patch.setattr(replica, name, fake)
        yield


FAULTS = [
    *["kill", "kill the leader", "kill the leader", "cut_power", "lose_volume", "stop"],
    *["isolate the leader", "isolate the leader", "cut", "cut", "break", "break", "lose_api", "lose_answers"],
    *["back_up", "restore", "sync", "rest"],
]
PAUSES = (0.0, 0.2, 0.9, 2.0, 8.0, 20.0)
Mutant: TypeAlias = Callable[[pytest.MonkeyPatch], None]
Story: TypeAlias = Sequence[tuple[float, str, int]]
"""Seconds until a fault, the fault, and whom it hits."""

STORIES = st.lists(
    st.tuples(st.sampled_from(PAUSES), st.sampled_from(FAULTS), st.integers(0, 5)),
    min_size=3,
    max_size=14,
)


async def live(folder: Path, seed: int, replicas: int, story: Story) -> World:
    random.seed(seed)  # Of the electors' jitter.
    world = World(folder, Random(seed), replicas)
    with over_lines(world):
        for host in world.hosts:
            world.later(world.chance.uniform(0, 3), host.start)
        await asyncio.sleep(25)
        changing = asyncio.get_running_loop().create_task(change(world))
        world.back_up()
        for seconds, fault, which in story:
            await asyncio.sleep(seconds)
            world.happens(fault, which)
        await asyncio.sleep(5)
        changing.cancel()
        world.calm = True
        await asyncio.sleep(150)
        await end(world)
    return world


async def change(world: World) -> None:
    while True:
        world.change(world.chance.choice((1, 1, 2, 5)))
        await asyncio.sleep(world.chance.choice((0.05, 0.3, 1.5)))


async def end(world: World) -> None:
    """Everybody is in sync with the one leader, and has what it has; then all end."""
    assert not world.faults
    processes = [host.process for host in world.hosts if host.process is not None]
    [leader] = [each for each in processes if each.leads]
    assert all(each.replica.status().in_sync for each in processes)
    assert all(each.in_sync for each in leader.replica.status().followers)
    assert len(leader.replica.status().followers) == len(processes) - 1
    tables = rows_of_all_tables(leader.directory)
    for each in processes:
        assert rows_of_all_tables(each.directory) == tables
    world.judge()
    for each in processes:
        each.replica.stop()
    await asyncio.wait([each.task for each in processes])
    for each in processes:
        each.task.result()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


def lived(seed: int, replicas: int, story: Story) -> World:
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        return run_in_virtual_time(live(Path(folder), seed, replicas, story))


SEEDS = 40
"""Lives in which a mutant is sought."""
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None


@given(seed=st.integers(0, 2**32), replicas=st.integers(2, 3), story=STORIES)
@examples(30, deadline=None)
def test_what_a_destination_has_is_what_happened(seed: int, replicas: int, story: Story) -> None:
    world = lived(seed, replicas, story)
    event(f"{min(world.takeovers, 5)} takeovers, {min(world.lacking, 3)} of them lacking something")


@given(seed=st.integers(0, 2**32), replicas=st.integers(2, 3), forged=st.integers(1, 8), fault=st.sampled_from(FAULTS))
@examples(10, deadline=None)
def test_a_forged_lease_loses_nothing(seed: int, replicas: int, forged: int, fault: str) -> None:
    lived(seed, replicas, [*[(0.9, "forge", 0)] * forged, (2.0, fault, seed % 6), *[(0.9, "forge", 0)] * forged])


# ── Mutants ──────────────────────────────────────────────────────────────────


def delivers_before_the_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    committed = Replicator.committed

    def at_once(self: Replicator, frame: Frame | None, finish: Callable[[], None]) -> None:
        committed(self, frame, lambda: None)
        finish()

    patch.setattr(Replicator, "committed", at_once)


def shrinks_the_list_after_the_delivery(patch: pytest.MonkeyPatch) -> None:
    """It waits for those whom it wants on the list, and not for those whom the Lease may name still."""

    def replicated(self: InSync) -> int:
        return min((self._connected[run].acknowledged for run in self._wanted), default=self.newest)

    patch.setattr(InSync, "replicated", property(replicated))


def takes_over_from_outside_of_the_list(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Elector, "is_clean", property(lambda _: True))


def trusts_a_diverged_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitHistory, "contains", lambda self, point: 0 < point.commit <= self.commit)


ALONE: Story = [(0.9, "isolate the leader", 0), (2.0, "kill the leader", 0)]
RETURNING: Story = [(0.9, "isolate the leader", 0), (2.0, "kill the leader", 0), (20.0, "kill the leader", 0)]
MUTANTS: dict[str, tuple[Mutant | None, Story]] = {
    "the protocol": (None, ALONE),
    "the protocol, and a leader that returns": (None, RETURNING),
    "deliver before the acknowledgement": (delivers_before_the_acknowledgement, ALONE),
    "shrink the list after the delivery": (shrinks_the_list_after_the_delivery, ALONE),
    "take over from outside of the list at once": (takes_over_from_outside_of_the_list, ALONE),
    "trust a diverged log": (trusts_a_diverged_log, RETURNING),
}


@pytest.mark.hypothesis  # With seeds in place of examples.
@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_of_the_protocol_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutant, story = MUTANTS[name]
    if mutant is not None:
        mutant(monkeypatch)
    assert any(fails(seed, story) for seed in range(SEEDS)) is (mutant is not None)


def fails(seed: int, story: Story) -> bool:
    try:
        lived(seed, 2 + seed % 2, story)
    except AssertionError:
        return True
    return False
