"""A gap and the end of a snapshot, stored in every partition that they belong to. Against a real broker."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from bridge.model.record import Concern, Delta, Gap, Record, SnapshotEdge
from bridge.model.resource import Resource
from sinks.base import ALL_STORED, RetryLater, SinkContext
from sinks.kafka import memory
from sinks.kafka.sink import KafkaSink
from tests.cluster.fixtures import MakeTopic, fresh_name
from tests.cluster.servers import Kafka, KafkaBehindALine, KafkaRecord
from tests.kit.deadlines import BUSY
from tests.kit.records import DEPLOYMENTS, NODES, PODS, a_delta, a_gap, a_snapshot
from tests.kit.sinks import until_stored
from tests.kit.tcp_line import Line
from tests.sinks.kafka.test_sink import opened, read, the_sink

pytestmark = pytest.mark.java

GAP, ENDED = "kubedelta.gap.v1", "kubedelta.snapshot.ended.v1"
SNAPSHOT = a_snapshot().snapshot


def a_gap_of(*concerns: Resource | Concern, first: int = 5, last: int = 9) -> Gap:
    """Of these and of nothing else."""
    about = tuple(each if isinstance(each, Concern) else Concern(each) for each in concerns)
    return msgspec.structs.replace(a_gap(first, last), concerns=about, only=True)


def some(resource: Resource, first: int, count: int = 60, snapshot: str | None = None) -> list[Delta]:
    """Of so many objects, so that every partition gets one."""
    return [
        a_delta(n, resource=resource, key=f"shop/web-{n - first}", snapshot=snapshot)
        for n in range(first, first + count)
    ]


def attribute(record: KafkaRecord, name: str) -> str:
    return (dict(record.headers).get(name) or b"").decode()


def by_partition(records: Sequence[KafkaRecord]) -> dict[int, list[KafkaRecord]]:
    found: dict[int, list[KafkaRecord]] = defaultdict(list)
    for record in records:
        found[record.partition].append(record)
    return found


async def deliver(sink: KafkaSink, *batches: Sequence[Record]) -> bytes:
    """As a worker does it, which delivers again what waits: a refused marker may cost the producer. Returns the newest
    memory."""
    memory = b""
    for batch in batches:
        waiting = list(batch)
        async with asyncio.timeout(30 * BUSY):
            while (receipt := await sink.deliver(waiting)) != ALL_STORED:
                assert isinstance(receipt.failure, RetryLater)
                assert not receipt.rejected
                waiting = [waiting[index] for index in receipt.pending]
        memory = memory if receipt.memory is None else receipt.memory
    return memory


@pytest.fixture
def topics(kafka_topic: MakeTopic) -> str:
    """The prefix of topics for pods and deployments with several partitions, and for notices."""
    prefix = fresh_name("marked")
    kafka_topic(name=f"{prefix}.pods", partitions=4)
    kafka_topic(name=f"{prefix}.deployments", partitions=3)
    kafka_topic(name=f"{prefix}.notice", partitions=2)
    return prefix


async def test_each_partition_has_the_gap_between_its_records(kafka: Kafka, topics: str) -> None:
    async with opened(kafka, f"{topics}.{{resource}}") as sink:
        await deliver(sink, [*some(PODS, 1), *some(DEPLOYMENTS, 100)])
        await deliver(sink, [a_gap_of(PODS, first=200, last=299)])
        await deliver(sink, [*some(PODS, 300), *some(DEPLOYMENTS, 400)])
    pods = by_partition(await read(kafka, f"{topics}.pods"))
    deployments = await read(kafka, f"{topics}.deployments")
    [notice] = await read(kafka, f"{topics}.notice")

    assert len(pods) == 4
    for partition, records in pods.items():
        [at] = [place for place, record in enumerate(records) if attribute(record, "ce_type") == GAP]
        sequences = [int(attribute(record, "ce_sequence")) for record in records]
        assert 0 < at < len(records) - 1
        assert max(sequences[:at]) < 200 <= sequences[at] == 299 < min(sequences[at + 1 :])
        marker = records[at]
        assert attribute(marker, "ce_id") == f"gap/200/299/p{partition}"
        assert marker.key is None
        assert json.loads(marker.value or b"")["resources"] == ["pods"]
    assert {attribute(record, "ce_type") for record in deployments} == {"kubedelta.object.updated.v1"}
    assert attribute(notice, "ce_id") == "gap/200/299"
    assert not any(attribute(record, "kubedelta-gap") for records in pods.values() for record in records)


async def test_a_refused_object_leaves_its_snapshot_incomplete(kafka: Kafka, topics: str) -> None:
    objects = some(PODS, 1, 20, SNAPSHOT)
    objects[7] = msgspec.structs.replace(objects[7], body=b'"%s"' % (b"x" * 20_000))
    async with opened(kafka, f"{topics}.{{resource}}", max_message_bytes=10_000) as sink:
        receipt = await sink.deliver(objects)
        assert list(receipt.rejected) == [7]
        await deliver(sink, [a_snapshot(SnapshotEdge.ENDED, count=20)])
    ends = [json.loads(each.value or b"") for each in await read(kafka, f"{topics}.pods") if each.key is None]

    assert sum(end["objects"] for end in ends) == 19
    assert [end["dead_letters"] for end in ends] == [1, 1, 1, 1]


async def test_compacted_records_name_the_newest_gap_without_markers(
    kafka: Kafka, kafka_topic: MakeTopic, topics: str
) -> None:
    """Also after a restart, and where nobody may ask how the topic is kept: then the broker's refusal says so."""
    kafka_topic(name=f"{topics}.nodes", partitions=2, cleanup_policy="compact")
    template = f"{topics}.{{resource}}"
    async with opened(kafka, template) as sink:
        await deliver(sink, some(NODES, 1), [a_gap_of(NODES, PODS, first=60, last=69)], some(NODES, 100))
        saved = await deliver(sink, [a_gap_of(PODS, first=200, last=209)], some(NODES, 300), some(PODS, 400))
    reminded = the_sink(kafka, template)
    await reminded.open(SinkContext(memory=saved))
    reminded._topics._policies[f"{topics}.nodes"] = None  # As if describe_configs were refused.
    await deliver(reminded, [a_gap_of(NODES, first=500, last=509)], some(NODES, 600))
    await reminded.close()
    nodes = await read(kafka, f"{topics}.nodes")

    assert all(record.key is not None for record in nodes)
    named = {(int(attribute(record, "ce_sequence")) // 100, attribute(record, "kubedelta-gap")) for record in nodes}
    assert named == {(0, ""), (1, "gap/60/69"), (3, "gap/200/209"), (6, "gap/500/509")}
    pods = await read(kafka, f"{topics}.pods")
    assert {attribute(record, "kubedelta-gap") for record in pods} == {""}
    assert Counter(attribute(record, "ce_id") for record in pods if record.key is None) == {
        f"gap/{name}/p{partition}": 1 for name in ("60/69", "200/209") for partition in range(4)
    }
    notices = {attribute(record, "ce_id") for record in await read(kafka, f"{topics}.notice")}
    assert notices == {"gap/60/69", "gap/200/209", "gap/500/509"}


async def test_envelopes_name_the_newest_gap_without_markers(kafka: Kafka, topics: str) -> None:
    async with opened(kafka, f"{topics}.{{resource}}", format="envelope") as sink:
        await deliver(sink, some(PODS, 1, 9), [a_gap_of(PODS, first=20, last=29)], some(PODS, 30, 9))
        await deliver(sink, some(PODS, 40, 9, SNAPSHOT), [a_snapshot(SnapshotEdge.ENDED, through=49, count=9)])
    pods = await read(kafka, f"{topics}.pods")

    envelopes: list[dict[str, Any]] = [json.loads(record.value or b"") for record in pods]
    assert {envelope["op"] for envelope in envelopes} <= {"c", "u", "d", "r"}
    for record, envelope in zip(pods, envelopes, strict=True):
        behind = int(envelope["source"]["sequence"]) > 29
        assert (
            attribute(record, "kubedelta-gap") == envelope["source"].get("gap", "") == ("gap/20/29" if behind else "")
        )
    notices = [attribute(record, "ce_type") for record in await read(kafka, f"{topics}.notice")]
    assert sorted(notices) == [GAP, ENDED]


async def test_beyond_the_bound_records_name_the_gap_without_markers(
    kafka: Kafka, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sinks.kafka import topics as names

    monkeypatch.setattr(names, "MAX_MARKED_PARTITIONS", 6)
    monkeypatch.setattr(memory, "MAX_MARKED_PARTITIONS", 6)
    async with opened(kafka, f"{topics}.{{resource}}") as sink:
        await deliver(sink, [a_gap_of(PODS, DEPLOYMENTS)], some(PODS, 100))
        objects = [*some(PODS, 200, 60, SNAPSHOT), *some(DEPLOYMENTS, 300, 60, SNAPSHOT)]
        await deliver(sink, objects, [a_snapshot(SnapshotEdge.ENDED, count=120)])
        await deliver(sink, [a_gap_of(PODS, first=500, last=509)], some(PODS, 600))
    pods = await read(kafka, f"{topics}.pods")

    markers_found = {attribute(record, "ce_id") for record in pods if record.key is None}
    assert markers_found == {f"gap/500/509/p{partition}" for partition in range(4)}
    assert {attribute(record, "kubedelta-gap") for record in pods if record.key is not None} == {"gap/5/9"}


async def test_a_gap_about_anything_is_marked_in_every_used_topic(kafka: Kafka, topics: str) -> None:
    """What comes to be watched later learns of it by a header. Until discovery has answered, the gap waits."""
    watched: list[Sequence[Resource] | None] = [None]
    context = SinkContext(watched=lambda: watched[0])
    async with opened(kafka, f"{topics}.{{resource}}", context) as sink:
        await deliver(sink, some(PODS, 1))
        receipt = await sink.deliver([a_gap(100, 199)])
        assert list(receipt.pending) == [0]
        watched[0] = [PODS, NODES]
        await deliver(sink, [a_gap(100, 199)], some(PODS, 200), some(DEPLOYMENTS, 300))
    pods = await read(kafka, f"{topics}.pods")

    assert sorted(attribute(record, "ce_id") for record in pods if record.key is None) == [
        f"gap/100/199/p{partition}" for partition in range(4)
    ]
    deployments = await read(kafka, f"{topics}.deployments")
    assert {attribute(record, "kubedelta-gap") for record in deployments} == {"gap/100/199"}
    assert len(await read(kafka, f"{topics}.notice")) == 1, "the attempt that failed reported it already"


async def test_namespaces_have_topics_of_their_own(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    prefix = fresh_name("spaces")
    for name in ("shop.pods", "bank.pods", "_.nodes", "_.notice"):
        kafka_topic(name=f"{prefix}.{name}", partitions=2)
    async with opened(kafka, f"{prefix}.{{namespace}}.{{resource}}") as sink:
        await deliver(sink, [a_gap_of(Concern(PODS, "shop"), NODES, first=1, last=9)])
        await deliver(sink, [a_gap_of(PODS, first=11, last=19)])
        await deliver(sink, [a_delta(20, key="bank/web")])
    found = {
        name: {attribute(each, "ce_id") for each in await read(kafka, f"{prefix}.{name}") if each.key is None}
        for name in ("shop.pods", "bank.pods", "_.nodes")
    }

    assert found == {
        "shop.pods": {"gap/1/9/p0", "gap/1/9/p1", "gap/11/19/p0", "gap/11/19/p1"},
        "bank.pods": {"gap/11/19/p0", "gap/11/19/p1"},
        "_.nodes": {"gap/1/9/p0", "gap/1/9/p1"},
    }


async def test_markers_are_repeated_until_all_are_stored(kafka: KafkaBehindALine, kafka_topic: MakeTopic) -> None:
    """Nothing behind them comes before; the broker is gone in the middle of it, and the sink restarted."""
    prefix = fresh_name("repeated")
    for name, partitions in ((f"{prefix}.pods", 8), (f"{prefix}.notice", 1)):
        kafka_topic(partitions, name)
    gap = a_gap_of(PODS, first=100, last=199)
    by_the_line: dict[str, Any] = {
        "bootstrap_servers": f"127.0.0.1:{kafka.line_port}",
        "ack_timeout": 0.5,
        "connect_timeout": 1,
    }
    async with (
        Line(kafka.behind_the_line, port=kafka.line_port) as line,
        opened(kafka, f"{prefix}.{{resource}}", **by_the_line) as sink,
    ):
        await until_stored(sink, some(PODS, 1))
        async with asyncio.TaskGroup() as tasks:
            delivering = tasks.create_task(sink.deliver([gap]))
            await asyncio.sleep(0.01)
            line.refusing = True
            line.cut()
        first = delivering.result()
    async with opened(kafka, f"{prefix}.{{resource}}", ack_timeout=0.5) as sink:
        await until_stored(sink, [gap])
        await until_stored(sink, some(PODS, 200))
    found = by_partition(await read(kafka, f"{prefix}.pods"))

    assert first == ALL_STORED or list(first.pending) == [0]
    for partition, records in found.items():
        places = [place for place, record in enumerate(records) if record.key is None]
        assert places == list(range(places[0], places[-1] + 1))
        assert {attribute(records[place], "ce_id") for place in places} == {f"gap/100/199/p{partition}"}
        sequences = [int(attribute(record, "ce_sequence")) for record in records]
        assert max(sequences[: places[0]]) < 100
        assert min(sequences[places[-1] + 1 :]) >= 200
