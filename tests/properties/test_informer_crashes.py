"""An informer that dies at any moment and goes on from what its ledger remembers, against a cluster that lives on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from bridge.informer import RecoveryLimits, RecoverySlots, SharedInformer, Timing, shared_informer
from bridge.informer.delta_fifo import DeltaFIFO
from bridge.model.answers import (
    Busy,
    EventType,
    Expired,
    Failed,
    HungUp,
    ListRequest,
    Refused,
    Silent,
    TooLarge,
    WatchRequest,
)
from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.record import Delta
from bridge.model.resource import Scope
from tests.kit.cluster_steps import cluster_takes
from tests.kit.examples import examples
from tests.kit.model_ledger import ModelLedger
from tests.kit.records import PODS
from tests.kit.simulated_cluster import Event, SimulatedCluster
from tests.kit.virtual_time import run_in_virtual_time

A_WHILE = 4000.0
"""Seconds in which everything that can be mended is mended: the longest doubt lasts ten minutes."""

Announcement: TypeAlias = tuple[str, str, bool]
"""uid, version, and whether it was the delete."""


ANNOUNCED = (Evidence.WATCHED, Evidence.RECOVERED)
"""A delete then has its own version."""


@dataclass
class Consumers:
    """Take the changes of an informer as exporters would, believe nothing, and keep the state that they lead to.

    Every change must make sense after the exported changes before it. No change is exported twice within an epoch,
    nothing goes back in time, and a position is right in both directions."""

    cluster: SimulatedCluster
    with_body: Callable[[str, ObjectVersion], ApiObject]
    epoch: int = 1
    state: dict[str, ApiObject] = field(default_factory=dict)
    received: Counter[tuple[int, str, str, Op]] = field(default_factory=Counter)
    newest: dict[tuple[int, str], int] = field(default_factory=dict)
    watched: int = 0
    position: int = 0

    def take(self, changes: Sequence[Change], position: str | None, epoch: int) -> None:
        if self.epoch != epoch:
            self.epoch, self.position, self.watched = epoch, 0, 0
        for change in changes:
            self.check(change)
        if position is not None:
            assert int(position) >= self.position
            self.position = int(position)
            self.check_position()

    def check_position(self) -> None:
        """A watch from there sends every change that was not exported yet, and no other."""
        if not self.cluster.lost and self.epoch == self.cluster.epochs:
            assert self.state == self.cluster.states[self.position]

    def check(self, change: Change) -> None:
        thing = change.object
        before = self.state.get(thing.key)
        if change.before is None:
            assert before is None
        else:
            assert before == self.with_body(thing.key, change.before)
        match change.op:
            case Op.ADDED:
                assert before is None
                self.state[thing.key] = thing
            case Op.UPDATED:
                assert before is not None
                assert before.uid == thing.uid
                self.state[thing.key] = thing
            case Op.DELETED:
                assert before is None or before.uid == thing.uid
                if change.evidence not in ANNOUNCED:
                    assert before == thing
                self.state.pop(thing.key, None)
            case Op.SYNC:
                assert before == thing
                return
        self.ascends(change)

    def ascends(self, change: Change) -> None:
        thing, epoch = change.object, self.epoch
        key = (epoch, thing.uid, thing.resource_version, change.op)
        self.received[key] += 1
        assert self.received[key] == 1, "delivered twice"
        version = int(thing.resource_version)
        if change.evidence is Evidence.WATCHED:
            assert version > self.watched, "not in the order in which it was announced"
            self.watched = version
        inferred = change.op is Op.DELETED and change.evidence not in ANNOUNCED
        newest = self.newest.get((epoch, thing.uid), 0)
        assert version > newest or (inferred and version >= newest), "back in time"
        self.newest[epoch, thing.uid] = version


@dataclass(frozen=True)
class FirstSaved:
    """When a position was saved for the first time."""

    position: str
    received: int
    """Changes until then."""
    requests: int


class Resyncs:
    """One listener that wants everything exported again from time to time."""

    def resync_periods(self) -> Mapping[str, float]:
        return {"audit": 47.0}

    async def wait_periods_changed(self) -> None:
        await asyncio.Event().wait()


@dataclass
class Lives:
    """Informers one after the other over one ledger. A crash loses the batch that was not committed; one that was
    committed stays, also where the informer never heard of it."""

    cluster: SimulatedCluster
    tasks: asyncio.TaskGroup
    watch_list: bool
    slow: float
    """Seconds that a batch needs before it is committed, and as many until that is known."""
    max_deltas: int
    """In the queue."""
    recovers: bool
    """Steps that no watch announced."""
    ledger: ModelLedger = field(default_factory=ModelLedger)
    lost: set[Announcement] = field(default_factory=set)
    """Announced to a life that ended, in a history that no later life could ask for."""

    def __post_init__(self) -> None:
        self.targets = Consumers(self.cluster, self.with_body)
        self.informer: SharedInformer | None = None
        self.running: asyncio.Task[None] | None = None
        self.uncommitted: set[Announcement] = set()
        self.born_at = 0
        self.in_order: list[Announcement] = []
        self.relisted: list[Announcement] = []
        self.saved: FirstSaved | None = None

    # ── Its outbox ───────────────────────────────────────────────────────────

    async def deliver(self, batch: ChangeBatch) -> list[Delta]:
        self.check_where_bodies_are(batch)
        await asyncio.sleep(self.slow)
        self.targets.take(batch.changes, batch.position, batch.epoch)
        records = self.ledger.commit(batch)
        self.in_order += [
            (change.object.uid, change.object.resource_version, change.op is Op.DELETED)
            for change in batch.changes
            if change.op is not Op.SYNC
        ]
        self.relisted += [
            (change.object.uid, change.object.resource_version, change.op is Op.DELETED)
            for change in batch.changes
            if change.evidence is Evidence.RELISTED
        ]
        self.check_saved_position()
        if self.saved is None and batch.position is not None:
            self.saved = FirstSaved(batch.position, len(self.in_order), len(self.cluster.requests))
        await asyncio.sleep(self.slow)
        return records

    def with_body(self, key: str, known: ObjectVersion) -> ApiObject:
        """As the outbox sees the state before a change: the record that holds it, or the state exported earlier in the
        same batch."""
        if isinstance(known.state, bytes):
            assert self.targets.state[key].body is known.state
            return ApiObject(key, known.uid, known.resource_version, known.state)
        return ApiObject(key, known.uid, known.resource_version, self.ledger.stored(known.state))

    def check_where_bodies_are(self, batch: ChangeBatch) -> None:
        """The informer holds the bodies of this batch, and no others."""
        assert self.informer is not None
        changed = {change.object.key for change in batch.changes if change.op is not Op.SYNC}
        for key, known in self.informer.indexer.items():
            if key not in changed:
                assert known == self.ledger.objects[key]

    def check_saved_position(self) -> None:
        """Where one is saved, the ledger is exactly what the server had then."""
        ledger, cluster = self.ledger, self.cluster
        if ledger.position is not None and ledger.epoch == cluster.epochs and not cluster.lost:
            then = cluster.states[int(ledger.position)]
            assert {key: (known.uid, known.resource_version) for key, known in ledger.objects.items()} == {
                key: (thing.uid, thing.resource_version) for key, thing in then.items()
            }

    # ── Birth and death ──────────────────────────────────────────────────────

    def start(self) -> None:
        if self.running is not None:
            return
        self.born_at = len(self.cluster.requests)
        with patch.object(shared_informer, "DeltaFIFO", partial(DeltaFIFO, max_deltas=self.max_deltas)):
            self.informer = SharedInformer(
                PODS,
                Scope(),
                self.cluster,
                self.deliver,
                report=lambda _: None,
                timing=Timing(),
                watch_list=self.watch_list,
                resync=Resyncs(),
                stored=self.ledger.stored,
                checkpoint=self.ledger.checkpoint(),
                recovery=RecoverySlots(RecoveryLimits()) if self.recovers else None,
            )
        self.running = self.tasks.create_task(self.informer.run())

    async def crash(self) -> None:
        if self.running is None:
            return
        self.running.cancel()
        await asyncio.wait([self.running])
        self.running = None
        self.add_dead_letters()

    async def end(self) -> None:
        assert self.informer is not None
        assert self.running is not None
        assert self.informer.live
        self.informer.stop()
        await self.running
        self.add_dead_letters()
        assert dict(self.informer.indexer.items()) == self.ledger.objects

    def add_dead_letters(self) -> None:
        """A life that listed may have passed over what was announced to the one before it."""
        if any(is_list(request) for request in self.cluster.requests[self.born_at :]):
            self.lost |= self.uncommitted
        self.uncommitted = set(map(name_of, self.cluster.announced)) - set(self.in_order)
        if self.ledger.position is None:
            self.lost |= self.uncommitted


def name_of(event: Event) -> Announcement:
    kind, thing = event
    return (thing.uid, thing.resource_version, kind is EventType.DELETED)


def is_list(request: ListRequest | WatchRequest) -> bool:
    return isinstance(request, ListRequest) or request.initial_events


async def pause(seconds: float | None) -> None:
    if seconds == 0.0:
        for _ in range(10):
            await asyncio.sleep(0)
    elif seconds is not None:
        await asyncio.sleep(seconds)


Step: TypeAlias = tuple[str, object]
History: TypeAlias = list[tuple[Step, float | None]]

names = st.sampled_from(["a", "b", "c", "d"])
pauses = st.sampled_from([None, None, 0.0, 0.01, 0.6, 1.0, 40.0, 200.0])
"""Seconds after a step; None for none at all, so that the next one happens before anybody can notice this one."""

SLOW_ANSWERS = st.tuples(st.just("latency"), st.sampled_from([0.0, 0.5]))
life_of_a_cluster = [
    st.tuples(st.just("put"), names),
    st.tuples(st.just("put"), names),
    st.tuples(st.just("put"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("reborn"), names),
    SLOW_ANSWERS,
    st.tuples(st.just("slow"), st.sampled_from([0.0, 0.5, 5.0])),
    st.just(("bookmark", None)),
]
deaths = [st.just(("crash", None)), st.just(("crash", None)), st.just(("start", None)), st.just(("start", None))]
kind_steps = st.one_of(*life_of_a_cluster, *deaths, st.just(("hang up", None)))
unkind_steps = st.one_of(
    *life_of_a_cluster,
    *deaths,
    st.tuples(
        st.just("end"),
        st.sampled_from([HungUp("timeout"), Silent(90), Failed("broken"), Busy("429"), Expired("410")]),
    ),
    st.tuples(st.just("cut"), st.sampled_from([HungUp("timeout"), Silent(90), Expired("410")])),
    st.tuples(
        st.just("failure"),
        st.sampled_from([Busy("429"), Failed("500"), Refused(403, "forbidden"), TooLarge("504"), Expired("410")]),
    ),
    st.tuples(st.just("spoil"), st.sampled_from(["unreadable", "unreadable", "twice", "again", "lost"])),
    st.tuples(st.just("repeats"), st.booleans()),
    st.tuples(st.just("hide"), names),
    st.tuples(st.just("behind"), st.integers(0, 6)),
    st.sampled_from([("compact", None), ("compact", None), ("restart", None), ("restart", None), ("show", None)]),
)
forgetful_steps = st.one_of(
    *(step for step in life_of_a_cluster if step is not SLOW_ANSWERS), *deaths, st.just(("restart", None))
)
"""Each step is in etcd's history, and the server answers quickly."""


async def take(lives: Lives, step: str, what: object) -> None:
    if cluster_takes(lives.cluster, step, what):
        return
    match step, what:
        case "slow", float(seconds):
            lives.slow = seconds
        case "crash", _:
            await lives.crash()
        case "start", _:
            lives.start()
        case "hang up", _:
            while lives.running is not None and lives.informer is not None and not lives.informer.live:
                await pause(0.1)
            await asyncio.sleep(2)
            lives.cluster.end_watches(HungUp("timeout"))


async def mended(lives: Lives) -> None:
    lives.cluster.next_answers.clear()
    lives.cluster.unreadable_keys.clear()
    lives.start()
    await asyncio.sleep(A_WHILE)


# ── Whole plays ──────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class World:
    watch_list: bool
    catches_up: bool
    chunk: int
    slow: float
    max_deltas: int
    recovers: bool

    @asynccontextmanager
    async def lives(self) -> AsyncGenerator[Lives]:
        """Ends when all is exported; the exported changes lead to the present state."""
        cluster = SimulatedCluster()
        cluster.catches_up, cluster.chunk = self.catches_up, self.chunk
        for name in "abcdabcd":
            cluster.put(name)
        async with asyncio.TaskGroup() as tasks:
            lives = Lives(cluster, tasks, self.watch_list, self.slow, self.max_deltas, self.recovers)
            lives.start()
            yield lives
            await mended(lives)
            if cluster.lost:
                # Without a trace: it is found by the next list only.
                cluster.end_watches(Expired("410"))
                await asyncio.sleep(A_WHILE)
            await lives.end()
        assert lives.targets.state == cluster.objects


worlds = st.builds(
    World,
    watch_list=st.booleans(),
    catches_up=st.booleans(),
    chunk=st.sampled_from([1, 1000]),
    slow=st.sampled_from([0.0, 0.5, 5.0]),
    max_deltas=st.sampled_from([1, 2000]),
    recovers=st.booleans(),
)


async def play(history: History, world: World) -> Lives:
    async with world.lives() as lives:
        for (step, what), seconds in history:
            await take(lives, step, what)
            await pause(seconds)
    return lives


@examples(30)
@given(history=st.lists(st.tuples(unkind_steps, pauses), min_size=10, max_size=50), world=worlds)
def test_deltas_are_consistent_and_lead_to_the_servers_state(history: History, world: World) -> None:
    lives = run_in_virtual_time(play(history, world))

    assert set(map(name_of, lives.cluster.announced)) <= set(lives.in_order) | lives.lost


@examples(30)
@given(history=st.lists(st.tuples(kind_steps, pauses), min_size=10, max_size=50), world=worlds)
def test_after_a_saved_position_each_version_comes_once_unlisted(history: History, world: World) -> None:
    lives = run_in_virtual_time(play(history, world))
    cluster = lives.cluster
    assert lives.saved is not None
    since = int(lives.saved.position)
    happened = [name_of(event) for version, event in cluster.history if version > since]
    assert lives.in_order[lives.saved.received :] == happened
    assert not any(is_list(request) for request in cluster.requests[lives.saved.requests :])


async def die_in_doubt(lives: Lives) -> None:
    """The ledger has the newest version, and no position."""
    cluster = lives.cluster
    cluster.spoil_next_event("unreadable")
    cluster.put("a")
    cluster.put("b")
    cluster.next_answers.extend([Failed("500")] * 50)
    await asyncio.sleep(200)  # A slow outbox has saved what came before as well.
    await lives.crash()
    cluster.next_answers.clear()
    assert lives.ledger.position is None


async def restore(
    history: History, world: World, in_doubt: bool, undone: int, further: int, crashes: list[float]
) -> Lives:
    """The new history begins with a write that takes the place of an old one, version and object, and may be longer
    than the old one by the time we look; and crashes come while the new epoch begins. Where nothing that is known was
    undone (but deletes), a longer one cannot be distinguished from the old one: then no more is written before the
    ledger has the new epoch."""
    async with world.lives() as lives:
        cluster = lives.cluster
        for (step, what), seconds in history:
            await take(lives, step, what)
            await pause(seconds)
        await mended(lives)
        if in_doubt:
            await die_in_doubt(lives)
        assert lives.ledger.newest == str(cluster.version)
        again = cluster.history[-undone][1][1].name
        newest = max((int(thing.resource_version) for thing in cluster.objects.values()), default=0)
        cluster.restore(sorted(cluster.states)[-1 - undone])
        cluster.put(again)
        for turn in range(further if newest > cluster.version - 1 else 0):
            cluster.put("ab"[turn % 2])
        for seconds in crashes:
            lives.start()
            await asyncio.sleep(seconds)
            await lives.crash()
            if lives.ledger.epoch == cluster.epochs:
                cluster.put("c")
    assert lives.ledger.epoch == cluster.epochs == 2
    return lives


@examples(10)
@given(
    history=st.lists(st.tuples(st.one_of(*life_of_a_cluster), pauses), max_size=10),
    world=worlds,
    in_doubt=st.booleans(),
    undone=st.integers(2, 4),
    further=st.integers(0, 6),
    crashes=st.lists(st.sampled_from([0.1, 0.3, 0.9, 1.1, 2.1, 5.3, 90.0]), max_size=6),
)
def test_a_restore_is_exported_right_however_often_we_crash(
    history: History, world: World, in_doubt: bool, undone: int, further: int, crashes: list[float]
) -> None:
    run_in_virtual_time(restore(history, world, in_doubt, undone, further, crashes))


@examples(30)
@given(history=st.lists(st.tuples(forgetful_steps, pauses), min_size=10, max_size=50), world=worlds)
def test_with_recovery_no_step_of_an_exported_object_is_missing(history: History, world: World) -> None:
    lives = run_in_virtual_time(play(history, replace(world, recovers=True)))
    assert lives.saved is not None
    since = int(lives.saved.position)
    happened = [name_of(event) for version, event in lives.cluster.history if version > since]
    exported = lives.in_order[lives.saved.received :]
    never_seen = {uid for uid, _, _ in happened} - {uid for uid, _, _ in exported}
    assert never_seen <= {uid for uid, _, is_delete in happened if is_delete}, "they came and went"
    assert sorted(exported) == sorted(each for each in happened if each[0] not in never_seen)
    assert not [each for each in lives.relisted if int(each[1]) > since]
