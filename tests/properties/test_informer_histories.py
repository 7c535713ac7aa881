"""Random histories of an API server, played through the real Reflector, DeltaFIFO, Indexer and Controller.

Whatever the server does (it cuts, expires, forgets, loses, repeats, garbles, lags behind, refuses, is restored), the
exported changes must make sense one by one and lead to what the server has in the end; and whatever it
announced readably is exported exactly once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from bridge.informer.controller import Controller
from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.indexer import Indexer
from bridge.informer.reflector.pacing import Timing
from bridge.informer.reflector.reflector import Reflector
from bridge.informer.reflector.states import NotSynced
from bridge.model.answers import (
    Busy,
    EventType,
    Expired,
    Failed,
    HungUp,
    Refused,
    Silent,
    TooLarge,
    Unsupported,
)
from bridge.model.change import ChangeBatch, Op
from bridge.model.resource import Scope
from tests.kit.cluster_steps import cluster_takes
from tests.kit.consumers import Consumers
from tests.kit.examples import examples
from tests.kit.records import PODS
from tests.kit.simulated_cluster import SimulatedCluster
from tests.kit.trusted_history import trusted
from tests.kit.virtual_time import run_in_virtual_time

A_WHILE = 4000.0
"""Seconds in which everything that can be mended is mended: the longest doubt lasts ten minutes."""


@dataclass
class Outlet:
    """Where the Controller delivers to."""

    targets: Consumers
    slow: float = 0.0

    async def deliver(self, batch: ChangeBatch) -> None:
        if self.slow:
            await asyncio.sleep(self.slow)
        self.targets.take(batch.changes, batch.position, batch.epoch)


History: TypeAlias = list[tuple[tuple[str, object], float | None]]

names = st.sampled_from(["a", "b", "c", "d"])
pauses = st.sampled_from([None, None, 0.0, 0.0, 0.01, 1.0, 40.0, 200.0])
"""Seconds after a step; None for none at all, so that the next one happens before anybody can notice this one."""
failures = st.sampled_from(
    [
        Busy("429"),
        Busy("nobody listens", 2.0),
        Failed("500"),
        Refused(403, "forbidden"),
        TooLarge("504"),
        Expired("410"),
    ]
)
ends = st.sampled_from(
    [HungUp("timeout"), Silent(90), Failed("broken"), Busy("429"), Expired("410"), Unsupported("400")]
)
steps = st.one_of(
    st.tuples(st.just("put"), names),
    st.tuples(st.just("put"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("reborn"), names),
    st.tuples(st.just("put"), names),
    st.tuples(st.just("end"), ends),
    st.tuples(st.just("cut"), ends),
    st.tuples(st.just("failure"), failures),
    st.tuples(st.just("spoil"), st.sampled_from(["lost", "unreadable", "twice", "again"])),
    st.tuples(st.just("repeats"), st.booleans()),
    st.tuples(st.just("hide"), names),
    st.tuples(st.just("restore"), names),
    st.tuples(st.just("behind"), st.integers(0, 6)),
    st.tuples(st.just("latency"), st.sampled_from([0.0, 0.5])),
    st.tuples(st.just("slow"), st.sampled_from([0.0, 0.5, 5.0])),
    st.sampled_from([("compact", None), ("bookmark", None), ("show", None), ("resync", None)]),
)


@dataclass
class Run:
    """One history under way."""

    cluster: SimulatedCluster
    reflector: Reflector
    fifo: DeltaFIFO
    outlet: Outlet

    async def take(self, step: str, what: object) -> None:
        if cluster_takes(self.cluster, step, what):
            return
        match step, what:
            case "slow", float(seconds):
                self.outlet.slow = seconds
            case "resync", _:
                await self.fifo.resync()
            case "restore", str(name):
                await self.restore(name)

    async def restore(self, name: str) -> None:
        """The new history begins with a write that uses a version again. A server that has caught up with the version
        that we have seen by the time we ask again cannot be distinguished from the old one: neither is the newest
        version unseen when it is restored, nor is anything more written until we have asked."""
        older = sorted(version for version in self.cluster.states if version < self.cluster.version)
        if len(older) > 1 and self.cluster.newest_exported == self.cluster.version:
            self.cluster.restore(older[-2])
            self.cluster.put(name)
            await self.mended()

    async def mended(self) -> None:
        self.cluster.next_answers.clear()
        self.cluster.unreadable_keys.clear()
        await asyncio.sleep(A_WHILE)


async def pause(seconds: float | None) -> None:
    if seconds == 0.0:
        for _ in range(10):
            await asyncio.sleep(0)
    elif seconds is not None:
        await asyncio.sleep(seconds)


async def play(
    history: History,
    *,
    watch_list: bool,
    catches_up: bool,
    max_deltas: int,
    jitter: float,
    behind: int,
    chunk: int,
    slow: float,
) -> None:
    cluster, indexer = SimulatedCluster(), Indexer()
    cluster.catches_up, cluster.behind, cluster.chunk = catches_up, behind, chunk
    for name in "abcdabcd":
        cluster.put(name)
    fifo = DeltaFIFO(indexer, max_deltas=max_deltas)
    reflector = Reflector(
        PODS,
        Scope(),
        cluster,
        fifo,
        report=lambda _: None,
        timing=Timing(),
        start=NotSynced(watch_list=watch_list),
        **trusted(),
        jitter=lambda: jitter,
    )
    targets = Consumers(cluster, indexer.with_body)
    outlet = Outlet(targets, slow)
    run = Run(cluster, reflector, fifo, outlet)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(reflector.run())
        tasks.create_task(Controller(PODS, Scope(), fifo, indexer, outlet.deliver, None).run())
        for (step, what), seconds in history:
            await run.take(step, what)
            await pause(seconds)
        await run.mended()
        if cluster.lost:
            # Without a trace: it is found by the next list only.
            cluster.end_watches(Expired("410"))
            await asyncio.sleep(A_WHILE)
        assert reflector.live
        assert fifo.has_synced
        reading.cancel()
        fifo.close()

    assert targets.state == cluster.objects
    assert {key: indexer.with_body(key, known) for key, known in indexer.items()} == cluster.objects
    received = {(uid, version, op is Op.DELETED) for _, uid, version, op in targets.received}
    announced = {(thing.uid, thing.resource_version, kind is EventType.DELETED) for kind, thing in cluster.announced}
    assert announced <= received


@examples(50)
@given(
    history=st.lists(st.tuples(steps, pauses), min_size=10, max_size=50),
    watch_list=st.booleans(),
    catches_up=st.booleans(),
    max_deltas=st.sampled_from([1, 3, 2000]),
    jitter=st.sampled_from([0.01, 0.3, 0.999]),
    behind=st.integers(0, 6),
    chunk=st.sampled_from([1, 1000]),
    slow=st.sampled_from([0.0, 0.5]),
)
def test_deltas_are_consistent_and_lead_to_the_servers_state(
    history: History,
    watch_list: bool,
    catches_up: bool,
    max_deltas: int,
    jitter: float,
    behind: int,
    chunk: int,
    slow: float,
) -> None:
    run_in_virtual_time(
        play(
            history,
            watch_list=watch_list,
            catches_up=catches_up,
            max_deltas=max_deltas,
            jitter=jitter,
            behind=behind,
            chunk=chunk,
            slow=slow,
        )
    )
