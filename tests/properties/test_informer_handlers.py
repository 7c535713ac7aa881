"""Handlers that come, go and dawdle while a cluster lives: each receives a history that makes sense and leads to
what there is, from whichever moment it began."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from bridge.informer import SharedInformer, Timing
from bridge.informer.handlers import Registration
from bridge.model.answers import Expired, HungUp
from bridge.model.change import Change, Op
from bridge.model.object import ApiObject
from bridge.model.resource import Scope
from tests.kit.examples import examples
from tests.kit.records import PODS
from tests.kit.simulated_cluster import SimulatedCluster
from tests.kit.virtual_time import run_in_virtual_time


class Follower:
    """Rebuilds the state from the changes that it receives, and checks each."""

    def __init__(self, slow: float) -> None:
        self.slow = slow
        self.state: dict[str, ApiObject] = {}
        self.syncs = 0

    async def __call__(self, changes: Sequence[Change]) -> None:
        await asyncio.sleep(self.slow)
        for change in changes:
            thing = change.object
            before = self.state.get(thing.key)
            match change.op:
                case Op.ADDED:
                    assert before is None, "added twice"
                    self.state[thing.key] = thing
                case Op.UPDATED:
                    assert before is not None, "a gap"
                    assert change.before is not None
                    assert (before.uid, before.resource_version) == (thing.uid, change.before.resource_version), "a gap"
                    self.state[thing.key] = thing
                case Op.DELETED:
                    assert before is not None, "a gap"
                    assert before.uid == thing.uid
                    del self.state[thing.key]
                case Op.SYNC:
                    assert before == thing, "a resync of what is not the newest"
                    self.syncs += 1


Step: TypeAlias = tuple[str, object]
names = st.sampled_from(["a", "b", "c"])
steps = st.one_of(
    st.tuples(st.just("put"), names),
    st.tuples(st.just("put"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("come"), st.tuples(st.sampled_from([0.0, 0.3, 20.0]), st.sampled_from([0.0, 7.0]))),
    st.tuples(st.just("go"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.01, 1.0, 30.0])),
    st.tuples(st.just("end"), st.sampled_from([HungUp("timeout"), Expired("410")])),
)


async def play(history: list[Step], watch_list: bool) -> None:
    cluster = SimulatedCluster()
    informer = SharedInformer(
        PODS, Scope(), cluster, None, report=lambda _: None, timing=Timing(), watch_list=watch_list
    )
    there: list[tuple[Registration, Follower]] = []
    async with asyncio.TaskGroup() as tasks:
        for place, (step, what) in enumerate(history):
            if place == len(history) // 4:
                tasks.create_task(informer.run())
            match step, what:
                case "put", str(name):
                    cluster.put(name)
                case "delete", str(name):
                    cluster.delete(name)
                case "come", (float(slow), float(resync)):
                    follower = Follower(slow)
                    there.append((informer.handlers.add(f"{place}", follower, resync=resync), follower))
                case "go", int(which) if which < len(there):
                    informer.handlers.remove(there.pop(which)[0])
                case "wait", float(seconds):
                    await asyncio.sleep(seconds)
                case "end", HungUp() | Expired() as end:
                    cluster.end_watches(end)
        await informer.wait_synced()
        await asyncio.sleep(1000)
        assert all(registration.has_synced for registration, _ in there)
        informer.stop()

    for _, follower in there:
        assert follower.state == cluster.objects


@examples(50)
@given(history=st.lists(steps, min_size=8, max_size=40), watch_list=st.booleans())
def test_every_handler_gets_the_changes_up_to_the_present_state(history: list[Step], watch_list: bool) -> None:
    run_in_virtual_time(play(history, watch_list))
