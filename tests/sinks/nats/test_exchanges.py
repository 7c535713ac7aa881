"""How many exchanges a batch takes of which the stream knows some records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from nats.js.api import StreamConfig

from bridge.model.record import Delta
from sinks.nats.connection import NatsConnection
from sinks.nats.delivery import NatsDelivery
from sinks.nats.exchange import Numbering
from tests.cluster.fixtures import MakeStream, NatsStream
from tests.cluster.servers import Nats
from tests.kit.deadlines import BUSY
from tests.kit.records import a_delta, ids_of
from tests.sinks.nats.replicated import cluster as cluster
from tests.sinks.nats.replicated import make_streams
from tests.sinks.nats.test_leading import ids_of_stream
from tests.sinks.nats.test_sink import K8S, opened

COUNT = 1000
Known = Callable[[int], bool]
PATTERNS: dict[str, tuple[Known, int, int]] = {
    "none": (lambda n: False, 1, 1),
    "one": (lambda n: n == 0, 8, 3),
    "a prefix": (lambda n: n < 400, 8, 4),
    "all": (lambda n: True, 8, 3),
    "every second": (lambda n: n % 2 == 1, 520, 12),
    "two of three": (lambda n: n % 3 > 0, 700, 12),
    "one in the middle": (lambda n: n == 500, 4, 3),
}
"""Which records the stream knows, and the most exchanges and messages for each record."""


def objects(count: int) -> list[Delta]:
    return [a_delta(n, key=f"shop/web-{n}") for n in range(1, count + 1)]


class Counted:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.exchanges = self.sent = 0
        exchange, publish = NatsDelivery._exchange, NatsConnection.publish

        async def one_more(delivery: NatsDelivery, pending: Sequence[int]) -> object:
            self.exchanges += 1
            return await exchange(delivery, pending)

        async def sent(connection: NatsConnection, *message: object) -> int:
            self.sent += 1
            return await publish(connection, *message)  # type: ignore[arg-type]

        patch.setattr(NatsDelivery, "_exchange", one_more)
        patch.setattr(NatsConnection, "publish", sent)


async def examine(server: Nats, stream: NatsStream, pattern: str, patch: pytest.MonkeyPatch) -> None:
    known, most, for_each = PATTERNS[pattern]
    batch = objects(COUNT)
    before = [record for index, record in enumerate(batch) if known(index)]
    async with opened(server, stream, ack_timeout=20 * BUSY) as sink:
        assert not before or not (await sink.deliver(before)).pending
    async with opened(server, stream, ack_timeout=20 * BUSY) as sink:
        counted = Counted(patch)
        receipt = await sink.deliver(batch)
        assert (list(receipt.pending), receipt.failure) == ([], None)

    print(f"known: {pattern}: {counted.exchanges} exchanges, {counted.sent} messages for {COUNT} records")
    new = [record for index, record in enumerate(batch) if not known(index)]
    assert await ids_of_stream(server, stream) == ids_of(before) + ids_of(new)
    assert counted.exchanges <= most
    assert counted.sent <= for_each * COUNT


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_what_the_stream_knows_costs_few_exchanges(
    nats_server: Nats, nats_stream: MakeStream, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await examine(nats_server, await nats_stream(), pattern, monkeypatch)


@pytest.mark.parametrize("pattern", ["a prefix", "every second"])
async def test_what_a_replicated_stream_knows_costs_few_exchanges(
    cluster: Sequence[Nats], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    await make_streams(cluster[0], StreamConfig(name="K8S", subjects=["k8s.>"], num_replicas=3))
    await examine(cluster[0], K8S, pattern, monkeypatch)


def test_behind_a_rejected_message_numbers_ascend() -> None:
    numbering = Numbering(100)
    numbering.learn(sent=100, answered=1, duplicates=0, refused=True)
    assert (numbering.ascending, numbering.size) == (True, 100)
