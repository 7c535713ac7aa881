"""A JetStream stream that is purged, deleted or receives a replay, under a bridge that is a process of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import nats

from bridge.model.admin import Replayed, ReplayRequest
from bridge.operations.admin.client import AdminClient
from bridge.playground import Playground
from tests.cluster.fixtures import StartNats
from tests.cluster.servers import Nats
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY

OBJECTS = 1500
STREAM = "K8S"


def a_bridge(folder: Path, cluster: Playground, server: Nats) -> BridgeProcess:
    folder.mkdir(exist_ok=True)
    live = {"type": "nats", "servers": [server.url], "stream": STREAM, "create_stream": {"duplicate_window": 600}}
    return BridgeProcess(
        folder,
        {
            "cluster": {"name": "playground", "server": cluster.url},
            "resources": ["configmaps"],
            "state": {"retain": {"age": "1h"}},
            "sinks": {"live": live},
        },
    )


def config_map(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"value": "1"}}


def fill(cluster: Playground, count: int = OBJECTS) -> None:
    for number in range(count):
        cluster.create("configmaps", config_map(f"c{number:05}"))


async def stored(server: Nats) -> Counter[str]:
    """How often each event is in the stream, notices left out: by its CloudEvents identity."""
    found = await server.read_all(STREAM)
    return Counter(f"{each.headers['ce-source']} {each.headers['ce-id']}" for each in found if "ce-op" in each.headers)


async def test_a_killed_replay_is_stored_once_and_so_is_the_next(start_nats: StartNats, tmp_path: Path) -> None:
    server = start_nats()
    async with Playground() as cluster:
        fill(cluster)
        bridge = a_bridge(tmp_path / "bridge", cluster, server)
        async with bridge.started():
            await bridge.until_delivered("live")
            async with AdminClient(bridge.state) as admin:
                assert await admin.replay(ReplayRequest("live", "beginning")) == Replayed(OBJECTS, 1, OBJECTS)
            async with await nats.connect(server.url) as reflector:
                jetstream = reflector.jetstream()
                async with asyncio.timeout(60 * BUSY):
                    while (await jetstream.stream_info(STREAM)).state.messages <= OBJECTS:
                        pass
            await asyncio.to_thread(bridge.kill9)
            in_the_middle = sum((await stored(server)).values())
            await asyncio.to_thread(bridge.start)
            await bridge.until_delivered("live")
            after_one = await stored(server)
            async with AdminClient(bridge.state) as admin:
                await admin.replay(ReplayRequest("live", "beginning"))
            await bridge.until_delivered("live")
            after_two = await stored(server)

    print(f"killed when {in_the_middle - OBJECTS} of {OBJECTS} were reported again")
    assert len(after_one) == OBJECTS
    assert set(after_one.values()) == {2}, "once, and once more, and nothing a third time because of the kill"
    assert set(after_two.values()) == {3}


async def test_a_new_state_behind_a_purge_fills_the_stream_again(start_nats: StartNats, tmp_path: Path) -> None:
    server = start_nats()
    async with Playground() as cluster:
        fill(cluster)
        async with a_bridge(tmp_path / "first", cluster, server).started() as bridge:
            await bridge.until_delivered("live")
        async with await nats.connect(server.url) as operator:
            await operator.jetstream().purge_stream(STREAM)
        async with a_bridge(tmp_path / "second", cluster, server).started() as bridge:
            await bridge.until_delivered("live")

    found = await stored(server)
    assert len(found) == OBJECTS
    assert set(found.values()) == {1}


async def test_a_stream_deleted_under_a_bridge_is_recreated_and_logged(start_nats: StartNats, tmp_path: Path) -> None:
    server = start_nats()
    async with Playground() as cluster:
        fill(cluster, 20)
        async with a_bridge(tmp_path / "bridge", cluster, server).started() as bridge:
            await bridge.until_delivered("live")
            async with await nats.connect(server.url) as operator:
                await operator.jetstream().delete_stream(STREAM)
            cluster.create("configmaps", config_map("late"))
            await bridge.until("it is made", lambda now: now.value("sink_destinations_created_total", sink="live") == 2)
            await bridge.until_delivered("live")
            assert len(await stored(server)) == 1
            assert bridge.logged("gone, and is created again", STREAM)
            assert bridge.logged("has lost records that it had stored", f"stream {STREAM} was deleted")
            first, *_ = await server.read_all(STREAM)
            assert first.headers["ce-type"] == "kubedelta.gap.v1"
            async with AdminClient(bridge.state) as admin:
                await admin.replay(ReplayRequest("live", "beginning"))
            await bridge.until_delivered("live")

    assert len(await stored(server)) == 21
