"""Two replicas get the next version, whose state has another format, and one of them the former version again."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, closing

import apsw
import pytest

from bridge.outbox import FILE
from bridge.outbox.storage.schema import FORMAT
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, churning
from tests.kit.next_version import RolledOut
from tests.kit.scene import Scene
from tests.scenarios.test_two_replicas import PATIENT, JudgedReplicas, config_of

pytestmark = pytest.mark.long


def format_of(replica: BridgeProcess) -> int:
    with closing(apsw.Connection(str(replica.state / FILE), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        return int(connection.pragma("user_version"))


async def test_a_newer_format_is_rolled_out_and_the_former_refused(scene: Scene) -> None:
    """The follower first, as a StatefulSet does. It follows the older leader, and migrates when it leads."""
    both = [RolledOut(scene.folder / name, config_of(scene, name, PATIENT)) for name in ("pod-0", "pod-1")]
    async with AsyncExitStack() as stack:
        for each in both:
            await stack.enter_async_context(each.started())
        run = JudgedReplicas(scene, both)
        leader = await run.until_live(*KINDS)
        former, newer = both if both[0] is leader else both[::-1]
        async with churning(scene.servers.api, scene.namespace, seed=8, pause=0.1) as churn:
            await churn.until_made(20)

            newer.next_version = True
            await asyncio.to_thread(newer.restart)
            await run.until_in_sync(former)
            await churn.until_made(20)
            await run.until_equal()
            assert [format_of(each) for each in both] == [FORMAT, FORMAT], "it follows with the leader's format"

            await asyncio.to_thread(former.stop)
            await run.leader(other_than=former)
            assert [json.loads(line)["was"] for line in newer.logged("the state is migrated")] == [FORMAT]
            await churn.until_made(20)

            await asyncio.to_thread(former.launch)
            refusal = f"the leader's state has format {FORMAT + 1}, and this version of kubedelta has {FORMAT}: run the"
            await former.until("it is refused", lambda _: bool(former.logged(refusal)))
            assert refusal in await former.readiness()
            assert not await former.ready()
            assert format_of(former) == FORMAT, "it has what it had"
            await asyncio.to_thread(former.stop)
            former.next_version = True
            await asyncio.to_thread(former.start)
            await run.until_in_sync(newer)
            await churn.until_made(20)
            await run.until_equal()
            assert [format_of(each) for each in both] == [FORMAT + 1, FORMAT + 1]

            await asyncio.to_thread(former.stop)
            former.next_version = False
            before = await newer.metrics()
            assert await asyncio.to_thread(former.ended) == 78
            [ended] = former.logged("has format", '"exit_code":78')
            assert f"has format {FORMAT + 1}, written by another kubedelta; this version reads the formats" in ended
            assert "run the version that wrote it" in ended
            await churn.until_made(20)
            assert format_of(former) == FORMAT + 1, "nothing has taken its place"
            now = await newer.metrics()
            assert now.value("leader") == 1
            assert now.value("leader_term") == before.value("leader_term")
            assert now.value("sink_delivered_records_total") > before.value("sink_delivered_records_total")

            former.next_version = True
            await asyncio.to_thread(former.start)
            await run.until_in_sync(newer)
            await run.until_equal()
        await run.until_received()
    assert not newer.logged("each sink gets a Gap"), "it had everything"
    assert not newer.logged("listed again")
    assert not any((await run.judged()).values())
