"""Two replicas of a bridge, each with a state of its own: the leader is killed, stopped and frozen, again and again."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.cluster.servers.ports import reserve_port
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, churning
from tests.kit.deadlines import BUSY
from tests.kit.judge import assert_complete, assert_makes_sense, assert_true
from tests.kit.received import (
    Received,
    received_lists,
    repeats,
    without_repeats,
)
from tests.kit.replicas import Replicas
from tests.kit.rerouted import Rerouted
from tests.kit.scene import Scene
from tests.kit.tcp_line import Line

pytestmark = pytest.mark.long

SHORT = {"lease_duration": "3s", "renew_deadline": "2s", "retry_period": "300ms"}
PATIENT = {"lease_duration": "9s", "renew_deadline": "6s", "retry_period": "300ms"}
"""No request of the holder is so late, however busy the machine is."""


class JudgedReplicas(Replicas):
    def __init__(self, scene: Scene, both: Sequence[BridgeProcess]) -> None:
        super().__init__(both)
        self.scene = scene

    async def until_received(self, *kinds: str, timeout: float = 120) -> None:
        """All that happened to objects of these kinds, or of all."""
        marked = await self.scene.mark()
        markers = {each["metadata"]["uid"] for each in marked if not kinds or each["kind"] in kinds}
        async with asyncio.timeout(timeout * BUSY):
            while True:
                streams = await self.streams()
                if not any(markers - {each.uid for each in stream} for stream in streams.values()):
                    return
                await asyncio.sleep(0.1)

    async def streams(self) -> dict[str, list[Received]]:
        streams = await self.scene.sinks.streams()
        return {name: received_lists(streams[name]) for name in ("log", "live", "hook")}

    async def judged(self) -> dict[str, int]:
        """Every step reached every sink, in the order of its object; sink → records that came twice."""
        happened = await self.scene.remember()
        again = {}
        for name, stream in (await self.streams()).items():
            first = without_repeats(stream)
            assert_makes_sense(first, name)
            assert_true(first, happened, name)
            assert assert_complete(first, happened, name) == 0, f"{name}: steps were skipped"
            again[name] = repeats(stream)
            if name == "live":
                terms = [each.term for each in stream]
                assert terms == sorted(terms), "the stream has nothing of a former leader behind its successor"
                assert again[name] == 0, "the stream drops what it has, within its duplicate window"
            print(f"{name}: {len(happened)} versions, {len(stream)} delivered, {again[name]} of them again, 0 lost")
        return again


@asynccontextmanager
async def replicas(
    scene: Scene, sections: Mapping[str, Any] | None = None, /, **election: str
) -> AsyncIterator[JudgedReplicas]:
    """One leads, and has listed everything; the other is in sync. ``sections``: see ``config_of``."""
    configs = {name: config_of(scene, name, election, **(sections or {})) for name in ("pod-0", "pod-1")}
    both = [BridgeProcess(scene.folder / name, config) for name, config in configs.items()]
    async with AsyncExitStack() as stack:
        for each in both:
            await stack.enter_async_context(each.started())
        run = JudgedReplicas(scene, both)
        await run.until_live(*KINDS)
        yield run


def config_of(scene: Scene, name: str, election: Mapping[str, Any], **sections: Any) -> dict[str, Any]:
    """Of the replica of this name. ``sections`` come on top."""
    key = scene.folder / "redaction.key"
    key.write_text("k" * 64)
    settings: dict[str, Any] = {
        "sinks": {name: options for name, options in scene.sinks.section.items() if name != "copy"},
        "redaction": {"key_file": str(key)},
        "election": {"enabled": True, "namespace": scene.namespace, "identity": name, "port": 0, **election},
    }
    return scene.config(**settings | sections)


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(3, id="3 times"),
        pytest.param(100, id="100 times", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
async def test_a_leader_that_is_killed_loses_no_step(scene: Scene, rounds: int) -> None:
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed} makes the same changes")
    chance = random.Random(seed)
    times = []
    async with replicas(scene, **SHORT) as run:
        now = asyncio.get_running_loop().time
        async with churning(scene.servers.api, scene.namespace, seed=seed, pause=0.1) as churn:
            for _ in range(rounds):
                leader = await run.leader()
                await churn.until_made(chance.randrange(5, 40))
                await run.until_in_sync(leader)
                await asyncio.to_thread(leader.kill9)
                killed = now()
                await run.leader(other_than=leader)
                times.append(now() - killed)
                await asyncio.to_thread(leader.start)
                await run.until_equal()
        await run.until_received()
    again = await run.judged()
    print(f"takeovers after {', '.join(f'{each:.1f}' for each in times)} s; again: {again}")
    assert max(times) < (3 + 1 + 2 * 0.3) * BUSY


async def test_a_leader_that_is_stopped_hands_over_at_once(scene: Scene) -> None:
    async with replicas(scene, **PATIENT) as run:
        async with churning(scene.servers.api, scene.namespace, seed=1, pause=0.1) as churn:
            leader = await run.leader()
            await churn.until_made(20)
            await run.until_in_sync(leader)
            os.kill(leader.pid, signal.SIGTERM)
            other = await run.leader(other_than=leader)
            await asyncio.to_thread(leader.wait)
            assert leader.logged("the Lease is released after the last delivery")
            assert other.logged("no replica holds the Lease; this replica may take it"), "it waits for no deadline"
            await asyncio.to_thread(leader.start)
            await churn.until_made(20)
            await run.until_equal()
        await run.until_received()
    again = await run.judged()
    assert not any(again.values()), "all that was delivered is settled, here and there"
    seconds = [json.loads(line)["takeover_seconds"] for line in other.logged("this replica leads: it delivers")]
    print(f"the other leads {seconds[0]} s after it took the Lease; again: {again}")


async def test_a_frozen_leader_delivers_nothing_when_it_wakes(scene: Scene) -> None:
    async with replicas(scene, **SHORT) as run:
        async with churning(scene.servers.api, scene.namespace, seed=2, pause=0.1) as churn:
            leader = await run.leader()
            await churn.until_made(20)
            await run.until_in_sync(leader)
            os.kill(leader.pid, signal.SIGSTOP)
            await run.leader(other_than=leader)
            await churn.until_made(20)
            os.kill(leader.pid, signal.SIGCONT)
            await leader.until("it follows", lambda metrics: metrics.value("leader") == 0)
            await churn.until_made(20)
            await run.until_equal()
        await run.until_received()
        assert leader.logged("this replica leads no more")
        assert not leader.logged("listed again")
    await run.judged()


async def test_replicas_that_are_cut_off_from_each_other_lose_nothing(scene: Scene) -> None:
    """Deliveries go on without the follower; when the connection is back it is in sync again, and takes over."""
    async with AsyncExitStack() as stack:
        links = {name: await stack.enter_async_context(Line(reserve_port())) for name in ("pod-0", "pod-1")}
        routes = {each.targets[0]: each.port for each in links.values()}
        both = [
            Rerouted(scene.folder / name, config_of(scene, name, {**SHORT, "port": link.targets[0]}), routes)
            for name, link in links.items()
        ]
        for each in both:
            await stack.enter_async_context(each.started())
        run = JudgedReplicas(scene, both)
        leader = await run.until_live(*KINDS)
        link, other = links[leader.folder.name], run.other(leader)
        async with churning(scene.servers.api, scene.namespace, seed=7, pause=0.1) as churn:
            await churn.until_made(20)
            link.block()
            await leader.until("nobody is in sync", lambda now: now.value("replica_in_sync") == 0)
            await other.until("it knows that it lacks something", lambda now: now.value("replica_in_sync") == 0)
            delivered = (await leader.metrics()).value("sink_delivered_records_total")
            await churn.until_made(20)
            await leader.until("it delivers", lambda now: now.value("sink_delivered_records_total") > delivered + 20)
            link.mend()
            link.cut()
            await run.until_in_sync(leader)
            await run.until_equal()
            await asyncio.to_thread(leader.kill9)
            assert await run.leader(other_than=leader) is other
            assert not other.logged("listed again"), "it goes on where the leader watched"
            await asyncio.to_thread(leader.start)
        await run.until_received()
    await run.judged()


async def test_a_volume_that_is_lost_is_copied_anew(scene: Scene) -> None:
    """Under load. Who has the copy goes on where the leader watched, when that is killed."""
    copied = "a follower has got a copy of the whole state"
    async with replicas(scene, **SHORT) as run:
        async with churning(scene.servers.api, scene.namespace, seed=6, pause=0.1) as churn:
            leader = await run.leader()
            for _ in range(2):
                other = run.other(leader)
                await run.until_in_sync(leader)
                await asyncio.to_thread(other.kill9)
                shutil.rmtree(other.state)
                other.state.mkdir()
                copies = len(leader.logged(copied))
                await asyncio.to_thread(other.start)
                await run.until_equal()
                assert len(leader.logged(copied)) == copies + 1
                await run.until_in_sync(leader)
                await asyncio.to_thread(leader.kill9)
                await run.leader(other_than=leader)
                await churn.until_made(20)
                assert (await other.metrics()).value("reflector_lists_total") == 0, "the leader alone lists"
                await asyncio.to_thread(leader.start)
                leader = other
        await run.until_received()
    await run.judged()
