"""Three servers that store each message three times."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress

import nats
import pytest
from nats.js.api import StreamConfig
from nats.js.errors import APIError

from tests.cluster.fixtures import StartNats
from tests.cluster.servers import Nats
from tests.cluster.servers.ports import reserve_port
from tests.kit.deadlines import BUSY


@pytest.fixture
def cluster(start_nats: StartNats) -> Sequence[Nats]:
    """Three servers."""
    ports = [reserve_port() for _ in range(3)]
    routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
    return [
        start_nats(
            *("-n", f"nats-{port}", "--cluster_name", "cluster"),
            *("--cluster", f"nats://127.0.0.1:{port}", "--routes", routes),
        )
        for port in ports
    ]


async def make_streams(server: Nats, *configs: StreamConfig) -> None:
    async with await nats.connect(server.url) as connection, asyncio.timeout(60 * BUSY):
        for config in configs:
            while True:
                try:
                    await connection.jetstream().add_stream(config)
                    break
                except (APIError, nats.errors.Error):  # The servers have not found each other yet.
                    await asyncio.sleep(0.1)


async def change_leader(server: Nats, stream: str) -> None:
    """Another server leads the stream then."""
    async with await nats.connect(server.url) as connection, asyncio.timeout(60 * BUSY):
        while True:
            # Without a leader at this moment, the stream has nobody who answers.
            with suppress(nats.errors.TimeoutError):
                answer = await connection.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", timeout=2)
                if json.loads(answer.data).get("success"):
                    return
