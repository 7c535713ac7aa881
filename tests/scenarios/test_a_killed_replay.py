"""A JetStream stream that receives a replay, from a bridge that is killed in the middle of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import nats

from bridge.app.admin.client import AdminClient
from bridge.model.admin import Replayed, ReplayRequest
from bridge.playground import Playground
from bridge.playground.simulation.manifests import config_map
from tests.cluster.fixtures import StartNats
from tests.cluster.servers import Nats
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY

OBJECTS = 1500
STREAM = "K8S"


async def stored(server: Nats) -> Counter[str]:
    """How often each event is in the stream, notices left out: by its CloudEvents identity."""
    found = await server.read_all(STREAM)
    return Counter(f"{each.headers['ce-source']} {each.headers['ce-id']}" for each in found if "ce-op" in each.headers)


async def test_a_killed_replay_is_stored_once_and_so_is_the_next(start_nats: StartNats, tmp_path: Path) -> None:
    server = start_nats()
    live = {"type": "nats", "servers": [server.url], "stream": STREAM, "create_stream": {"duplicate_window": 600}}
    async with Playground() as cluster:
        for number in range(OBJECTS):
            cluster.create("configmaps", config_map(f"c{number:05}"))
        config = {
            "cluster": {"name": "playground", "server": cluster.url},
            "resources": ["configmaps"],
            "state": {"retain": {"age": "1h"}},
            "sinks": {"live": live},
        }
        bridge = BridgeProcess(tmp_path / "bridge", config)
        async with bridge.started():
            await bridge.until_delivered("live")
            async with AdminClient(bridge.state) as admin:
                assert await admin.replay(ReplayRequest("live", "beginning")) == Replayed(OBJECTS, 1, OBJECTS)
            async with await nats.connect(server.url) as observer, asyncio.timeout(60 * BUSY):
                while (await observer.jetstream().stream_info(STREAM)).state.messages <= OBJECTS:
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
