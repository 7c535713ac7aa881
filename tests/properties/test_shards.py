"""Bridges with a shard each, and a bridge with all objects, at the same random cluster: together the shards export what
the one bridge does, object by object in order, and no object twice."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from bridge.informer import SharedInformer, Timing
from bridge.kube.lister_watcher import ShardListerWatcher
from bridge.model.answers import Busy, Expired, Failed, HungUp, ListerWatcher, Silent, Unsupported
from bridge.model.change import ChangeBatch, Op
from bridge.model.object import ApiObject
from bridge.model.primitives.shard import Shard, ShardBy
from bridge.model.resource import Scope
from bridge.telemetry.facts import discard
from tests.kit.cluster_steps import cluster_takes
from tests.kit.examples import examples
from tests.kit.records import PODS
from tests.kit.simulated_cluster import SimulatedCluster
from tests.kit.virtual_time import run_in_virtual_time

A_WHILE = 4000.0
"""Seconds in which everything that can be mended is mended."""
NAMES = [f"pod-{number}" for number in range(8)]


@dataclass
class Exported:
    """Changes of an informer, and the state that they lead to."""

    cluster: SimulatedCluster
    shard: Shard | None
    by_uid: dict[str, list[tuple[str, Op]]] = field(default_factory=lambda: defaultdict(list))
    ids: set[tuple[str, str, Op]] = field(default_factory=set)
    state: dict[str, ApiObject] = field(default_factory=dict)
    positions: int = 0

    async def deliver(self, batch: ChangeBatch) -> None:
        for change in batch.changes:
            thing = change.object
            assert self.shard is None or self.shard.contains(thing.uid, thing.key), "an object of another shard"
            self.by_uid[thing.uid].append((thing.resource_version, change.op))
            self.ids.add((thing.uid, thing.resource_version, change.op))
            if change.op is Op.DELETED:
                if (known := self.state.get(thing.key)) is not None and known.uid == thing.uid:
                    del self.state[thing.key]
            else:
                self.state[thing.key] = thing
        if batch.position is not None:
            self.positions += 1
            assert self.state == self.part_of(self.cluster.states[int(batch.position)]), "at the position"

    def part_of(self, state: dict[str, ApiObject]) -> dict[str, ApiObject]:
        if self.shard is None:
            return state
        return {key: each for key, each in state.items() if self.shard.contains(each.uid, key)}


names = st.sampled_from(NAMES)
pauses = st.sampled_from([None, None, 0.0, 0.01, 1.0, 40.0])
lives = st.one_of(
    st.tuples(st.just("put"), names),
    st.tuples(st.just("put"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("reborn"), names),
    st.sampled_from([("bookmark", None)]),
)
troubles = st.one_of(
    lives,
    st.tuples(st.just("end"), st.sampled_from([HungUp("timeout"), Silent(90), Failed("broken"), Expired("410")])),
    st.tuples(st.just("failure"), st.sampled_from([Busy("429"), Failed("500"), Unsupported("400"), Expired("410")])),
    st.tuples(st.just("behind"), st.integers(0, 4)),
    st.sampled_from([("compact", None)]),
)
shards = st.builds(
    lambda of, by: [Shard(of, index, by) for index in range(of)], st.sampled_from([2, 4]), st.sampled_from(ShardBy)
)


async def play(
    history: Sequence[tuple[tuple[str, object], float | None]], parts: Sequence[Shard], *, watch_list: bool
) -> tuple[SimulatedCluster, Exported, list[Exported]]:
    """The cluster at its end, and what each bridge has exported."""
    cluster = SimulatedCluster()
    for name in NAMES[::2]:  # The first list has objects.
        cluster.put(name)
    whole, *others = exported = [Exported(cluster, each) for each in (None, *parts)]
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(informer(cluster, each, watch_list=watch_list).run()) for each in exported]
        await asyncio.sleep(1.0)
        for (step, what), pause in history:
            assert cluster_takes(cluster, step, what)
            if pause is not None:
                await asyncio.sleep(pause)
        cluster.next_answers.clear()
        cluster.behind = 0
        await asyncio.sleep(A_WHILE)
        for task in running:
            task.cancel()
    return cluster, whole, others


def informer(cluster: SimulatedCluster, exported: Exported, *, watch_list: bool) -> SharedInformer:
    source: ListerWatcher = cluster
    if exported.shard is not None:
        source = ShardListerWatcher(cluster, exported.shard)
    return SharedInformer(
        PODS, Scope(), source, exported.deliver, report=discard, timing=Timing(page_size=2), watch_list=watch_list
    )


@examples(60)
@given(st.lists(st.tuples(lives, pauses), max_size=40), shards, st.booleans())
def test_shards_together_export_what_one_bridge_does(
    history: list[tuple[tuple[str, object], float | None]], parts: list[Shard], watch_list: bool
) -> None:
    _, whole, others = run_in_virtual_time(play(history, parts, watch_list=watch_list))

    assert sum(len(each.by_uid) for each in others) == len(whole.by_uid), "each object is in one shard"
    assert {uid: steps for each in others for uid, steps in each.by_uid.items()} == dict(whole.by_uid)


@examples(60)
@given(st.lists(st.tuples(troubles, pauses), max_size=40), shards, st.booleans())
def test_whatever_the_server_does_shards_have_its_objects(
    history: list[tuple[tuple[str, object], float | None]], parts: list[Shard], watch_list: bool
) -> None:
    cluster, _, others = run_in_virtual_time(play(history, parts, watch_list=watch_list))

    assert [each.state for each in others] == [each.part_of(cluster.objects) for each in others]
    ids = list(chain.from_iterable(each.ids for each in others))
    assert len(ids) == len(set(ids))
