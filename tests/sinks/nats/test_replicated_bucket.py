"""Leaders of several terms on a bucket that three real servers store."""

from __future__ import annotations

import asyncio

import nats
import pytest
from nats.js.api import StreamConfig
from nats.js.errors import APIError

from tests.cluster.fixtures import NatsStream, StartNats
from tests.cluster.servers import Nats
from tests.cluster.servers.ports import reserve_port
from tests.kit.deadlines import BUSY
from tests.kit.records import a_delta
from tests.sinks.nats.test_leading import FORMER, NEXT, in_term
from tests.sinks.nats.test_leading_bucket import frozen, leading, objects, store, values, values_in

STREAM = NatsStream("K8S", "k8s")


@pytest.fixture
def cluster(start_nats: StartNats) -> Nats:
    """One of its three servers."""
    ports = [reserve_port() for _ in range(3)]
    routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
    first, *_ = [
        start_nats(
            *("-n", f"nats-{port}", "--cluster_name", "cluster"),
            *("--cluster", f"nats://127.0.0.1:{port}", "--routes", routes),
        )
        for port in ports
    ]
    return first


async def make_streams(server: Nats, bucket: str) -> None:
    """The history on one server, the bucket on three."""
    subjects = [f"$KV.{bucket}.>"]
    history = StreamConfig(name=STREAM.name, subjects=[f"{STREAM.prefix}.>"])
    states = StreamConfig(
        name=f"KV_{bucket}", subjects=subjects, num_replicas=3, max_msgs_per_subject=1, allow_rollup_hdrs=True
    )
    async with await nats.connect(server.url) as connection, asyncio.timeout(60 * BUSY):
        for config in (history, states):
            while True:
                try:
                    await connection.jetstream().add_stream(config)
                    break
                except (APIError, nats.errors.Error):  # The servers have not found each other yet.
                    await asyncio.sleep(0.1)


@pytest.mark.parametrize("sent", [0, 40])
async def test_a_replicated_bucket_refuses_a_former_leader_and_goes_on(cluster: Nats, sent: int) -> None:
    """A refused entry must leave the bucket in order: servers of 2.15 stop a stream for another refusal."""
    bucket, batch = "states", objects(90)
    await make_streams(cluster, bucket)
    async with leading(cluster, STREAM, bucket, FORMER) as former:
        await store(former, in_term(FORMER, batch))
        later = [a_delta(1000 + index, key=each.key) for index, each in enumerate(batch)]
        async with (
            frozen(former, in_term(FORMER, later), sent) as delivering,
            leading(cluster, STREAM, bucket, NEXT),
        ):
            pass
        refused = await delivering
        assert len(refused.pending) == 90 - sent
        assert refused.failure is not None
        assert refused.failure.doubted
        assert await values_in(cluster, bucket) == values(*later[:sent], *batch[sent:])
        async with leading(cluster, STREAM, bucket, NEXT) as successor:
            await store(successor, in_term(NEXT, later))

    assert await values_in(cluster, bucket) == values(*later)
