"""Leaders of several terms on a bucket that three real servers store."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from nats.js.api import StreamConfig

from tests.cluster.fixtures import NatsStream
from tests.cluster.servers import Nats
from tests.kit.records import a_delta
from tests.sinks.nats.replicated import cluster as cluster
from tests.sinks.nats.replicated import make_streams
from tests.sinks.nats.test_leading import FORMER, NEXT, in_term
from tests.sinks.nats.test_leading_bucket import frozen, leading, objects, store, values, values_in

STREAM = NatsStream("K8S", "k8s")

pytestmark = pytest.mark.long


@pytest.mark.parametrize("sent", [0, 40])
async def test_a_replicated_bucket_refuses_a_former_leader_and_goes_on(cluster: Sequence[Nats], sent: int) -> None:
    """A refused entry must leave the bucket in order: servers of 2.15 stop a stream for another refusal."""
    bucket, batch, server = "states", objects(90), cluster[0]
    one = {"max_msgs_per_subject": 1, "allow_rollup_hdrs": True}
    await make_streams(
        server,
        StreamConfig(name=STREAM.name, subjects=[f"{STREAM.prefix}.>"]),
        StreamConfig(name=f"KV_{bucket}", subjects=[f"$KV.{bucket}.>"], num_replicas=3, **one),  # type: ignore[arg-type]
    )
    async with leading(server, STREAM, bucket, FORMER) as former:
        await store(former, in_term(FORMER, batch))
        later = [a_delta(1000 + index, key=each.key) for index, each in enumerate(batch)]
        async with (
            frozen(former, in_term(FORMER, later), sent) as delivering,
            leading(server, STREAM, bucket, NEXT),
        ):
            pass
        refused = await delivering
        assert len(refused.pending) == 90 - sent
        assert refused.failure is not None
        assert refused.failure.doubted
        assert await values_in(server, bucket) == values(*later[:sent], *batch[sent:])
        async with leading(server, STREAM, bucket, NEXT) as successor:
            await store(successor, in_term(NEXT, later))

    assert await values_in(server, bucket) == values(*later)
