"""What only a topic can do to a sink."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

import pytest

from bridge.model.change import Op
from bridge.model.record import Record
from tests.cluster.servers import Kafka, KafkaRecord
from tests.contracts.destinations import PATIENCE, ATopic
from tests.contracts.rules import Results, assert_holds, deliver_all
from tests.kit.records import a_delta
from tests.kit.tcp_line import Line

pytestmark = pytest.mark.parametrize("kind", [pytest.param("kafka", marks=pytest.mark.java)], indirect=True)


async def test_a_tombstone_is_never_parted_from_its_delete(destination: ATopic, line: Line, kafka: Kafka) -> None:
    """On a line that is cut again and again: once each, the tombstone right behind the last state of its key."""
    rng = random.Random(11)
    results = Results()
    sent: list[Record] = [
        a_delta(n, key=f"shop/web-{n % 40}", op=Op.DELETED if n % 21 == 0 else Op.UPDATED) for n in range(1, 401)
    ]
    async with destination.opened(tombstones=True) as sink:
        for start in range(0, len(sent), 50):
            line.cut_after(rng.randrange(1, 1_500))
            await deliver_all(sink, sent[start : start + 50], 50, results)
    by_key: dict[bytes, list[KafkaRecord]] = defaultdict(list)
    for record in await asyncio.to_thread(kafka.read_all, destination.name):
        by_key[record.key or b""].append(record)

    deleted = {record.id for record in sent if record.id.endswith("/deleted")}
    assert line.cuts > 3
    assert len(deleted) == 19
    assert sum(len(stream) for stream in by_key.values()) == len(sent) + len(deleted)
    for stream in by_key.values():
        for before, record in zip([None, *stream], stream, strict=False):
            if record.value is None:
                assert before is not None
                assert dict(record.headers)["ce_id"] == dict(before.headers)["ce_id"]
                assert dict(record.headers)["ce_op"] == b"deleted"
                deleted.discard((dict(record.headers)["ce_id"] or b"").decode())
    assert not deleted


@pytest.mark.parametrize("limit", [20_000])
async def test_nothing_overtakes_a_record_that_came_in_a_refused_batch(destination: ATopic, limit: int) -> None:
    """Brokers refuse a whole batch for one record in it, while batches behind it are on their way. No answer is late
    here: a refusal that came behind the timeout would be asked for again, by a producer whose first batch it is."""
    bodies = [b'{"":"%s"}' % (b"x" * size) for size in (3_000, limit + 100)]
    sent = [a_delta(n, body=bodies[n in (31, 64)]) for n in range(1, 121)]
    results = Results()
    many_batches = {"properties": {"batch.size": limit // 2}, "max_message_bytes": 2 * limit}
    async with destination.opened(**many_batches, **destination.uncompressed, **PATIENCE["kafka"]) as sink:
        await deliver_all(sink, sent, len(sent), results)
    found = await destination.stored()

    assert results.rejected.keys() == {sent[30].id, sent[63].id}
    assert_holds(found, sent, results.stored)
    assert [each.id for each in found] == [record.id for record in sent if record.id not in results.rejected]
