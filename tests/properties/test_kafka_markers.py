"""Whoever reads one partition of a topic can decide what is missing from it, whatever happened on the way.

The sink is ours, the broker a model: partitions in memory, markers that fail, and a bridge that is killed anywhere and
goes on from what it had saved.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Concern, Delta, Gap, Record, Snapshot, SnapshotEdge
from bridge.model.resource import Resource
from sinks.kafka.encode import Headers, KafkaMessage
from sinks.kafka.options import KafkaOptions
from sinks.kafka.producer import InFlight
from sinks.kafka.sink import KafkaSink
from tests.kit.examples import examples
from tests.kit.records import DEPLOYMENTS, NODES, PODS, TIME, a_delta

PARTITIONS = {"k8s.pods": 3, "k8s.deployments": 2, "k8s.nodes": 2, "k8s.notice": 1}
COMPACTED = {"k8s.nodes"}
RESOURCES = (PODS, DEPLOYMENTS, NODES)
TOPICS = {resource: f"k8s.{resource.plural}" for resource in RESOURCES}


@dataclass
class Broker:
    """What lies in each partition: headers and value."""

    failures: Iterator[bool]
    lies: dict[tuple[str, int], list[tuple[dict[str, str], bytes]]] = field(default_factory=lambda: defaultdict(list))

    def take(self, topic: str, key: str | None, value: bytes, headers: Headers, partition: int) -> int | None:
        """Where it is now; None where it was not stored."""
        if key is None and next(self.failures):
            return None
        place = partition if partition >= 0 else zlib.crc32((key or "").encode()) % PARTITIONS[topic]
        self.lies[topic, place].append(({name: text.decode() for name, text in headers.items()}, value))
        return place


class FakeProducer:
    """In place of a producer: every produced message has its report."""

    gapless, fatal, broken, last_error, in_flight = True, None, None, "", 0
    produced = reported = 0

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def produce(self, record: InFlight, message: KafkaMessage, value: bytes) -> bool:
        topic, key = message.topic, message.key
        if key is None and topic in COMPACTED:
            error: KafkaError | None = KafkaError(KafkaError.INVALID_RECORD)
            place = None
        else:
            place = self._broker.take(topic, key, value, message.headers, message.partition)
            error = None if place is not None else KafkaError(KafkaError._TRANSPORT)
        record.report(error, SimpleNamespace(partition=lambda: place))  # type: ignore[arg-type]
        return True

    async def wait(self, messages: int, idle_timeout: float) -> bool:
        return True

    def metadata(self, topic: str | None, timeout: float) -> Any:
        found = {name: SimpleNamespace(error=None, partitions=range(n)) for name, n in PARTITIONS.items()}
        return SimpleNamespace(topics=found)

    async def close(self, timeout: float) -> None: ...


def a_sink(broker: Broker, memory: bytes, *, may_ask: bool) -> KafkaSink:
    sink = KafkaSink("audit", KafkaOptions(bootstrap_servers="b:1"), cluster="prod")
    sink._writer._notices.restore(memory)  # As ``open`` does.
    sink._producers.present = FakeProducer(broker)  # type: ignore[assignment]
    sink._topics._cleanup_policies = lambda topics: {  # type: ignore[method-assign]
        topic: ("compact" if topic in COMPACTED else "delete") if may_ask else None for topic in topics
    }
    return sink


@st.composite
def streams(draw: st.DrawFn) -> list[list[Record]]:
    """Batches as a worker hands them out: some changes, gaps, and one snapshot."""
    fetches: list[list[Record]] = []
    last = 0

    def some(snapshot: str | None = None) -> list[Record]:
        nonlocal last
        found: list[Record] = []
        for resource in draw(st.lists(st.sampled_from(RESOURCES), max_size=12)):
            last += 1
            found.append(a_delta(last, resource=resource, key=f"shop/web-{draw(st.integers(0, 9))}", snapshot=snapshot))
        return found

    if draw(st.booleans()):
        objects: list[Record] = []
        for number, resource in enumerate(draw(st.lists(st.sampled_from(RESOURCES), max_size=20)), 1):
            objects.append(a_delta(number, resource=resource, key=f"shop/of-{number}", snapshot="snapshot/audit/50"))
        fetches.append([Snapshot(SnapshotEdge.BEGAN, 50, "audit", len(objects), TIME)])
        fetches += [objects[:7], objects[7:14], objects[14:]]
        fetches.append([Snapshot(SnapshotEdge.ENDED, 50, "audit", len(objects), TIME)])
    last = 50
    for _ in range(draw(st.integers(1, 4))):
        fetches.append(some())
        first, last = last + 1, last + 5
        about = tuple(Concern(each) for each in draw(st.sets(st.sampled_from(RESOURCES), min_size=1)))
        fetches.append([Gap(last, first, 5, "dropped", TIME, concerns=about, only=True)])
        fetches.append(some())
    return [fetch for fetch in fetches if fetch]


@examples(50)
@given(
    fetches=streams(),
    crashes=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=4),
    failures=st.lists(st.booleans(), max_size=20),
    may_ask=st.booleans(),
)
def test_a_reader_of_one_partition_knows_what_is_missing(
    fetches: list[list[Record]], crashes: list[tuple[int, int]], failures: list[bool], may_ask: bool
) -> None:
    """``crashes``: behind which fetch, and how many of the last ones were not saved."""
    broker = Broker(iter([*failures, *[False] * 10_000]))
    asyncio.run(deliver(broker, fetches, dict(crashes), may_ask))

    gaps = [record for (record, *_) in fetches if isinstance(record, Gap)]
    for (topic, partition), lies in broker.lies.items():
        if topic == "k8s.notice":
            continue
        for gap in gaps:
            if TOPICS_OF[topic] in {concern.resource for concern in gap.concerns}:
                if topic in COMPACTED:
                    assert_named(gap, gaps, lies)
                else:
                    assert_marked(gap, partition, lies)
        if topic in COMPACTED:
            assert all("/p" not in headers["ce_id"] for headers, _ in lies)
        else:
            assert_complete(topic, partition, lies, fetches)
    assert_every_partition_has_it(broker, gaps)


TOPICS_OF: dict[str, Resource] = {topic: resource for resource, topic in TOPICS.items()}


async def deliver(broker: Broker, fetches: Sequence[Sequence[Record]], crashes: dict[int, int], may_ask: bool) -> None:
    """As a worker does it; unsaved records are delivered again after a crash."""
    saved, place = [b""], 0
    sink, memory = a_sink(broker, b"", may_ask=may_ask), b""
    with patch("sinks.kafka.topics.Topics.unusable", no_topic_is_unusable):
        while place < len(fetches):
            batch = list(fetches[place])
            while batch:
                receipt = await sink.deliver(batch)
                memory = memory if receipt.memory is None else receipt.memory
                batch = [batch[each] for each in receipt.pending]
            place += 1
            saved.append(memory)
            if (lost := crashes.pop(place, None)) is not None:
                await sink.close()
                place = max(0, place - lost)
                del saved[place + 1 :]
                memory = saved[place]
                sink = a_sink(broker, memory, may_ask=may_ask)
    await sink.close()


async def no_topic_is_unusable(*_: object) -> dict[str, str]:
    return {}


Lies = list[tuple[dict[str, str], bytes]]


def assert_marked(gap: Gap, partition: int, lies: Lies) -> None:
    """The first marker stands behind everything in front of the gap, and in front of everything behind it."""
    places = [n for n, (headers, _) in enumerate(lies) if headers["ce_id"] == f"{gap.id}/p{partition}"]
    assert places
    for place, (headers, _) in enumerate(lies):
        if "/p" in headers["ce_id"]:
            continue
        behind = int(headers["ce_sequence"]) > gap.sequence
        assert not behind or place > places[0]
        if not behind and place > places[-1]:
            # It was reported again after a crash, and the gap will be behind it once more, or was known before.
            assert headers["ce_id"] in {each["ce_id"] for each, _ in lies[: places[0]]}


def assert_named(gap: Gap, gaps: Sequence[Gap], lies: Lies) -> None:
    for headers, _ in lies:
        if int(headers["ce_sequence"]) > gap.sequence:
            newest = max(
                (each for each in gaps if each.sequence < int(headers["ce_sequence"])), key=lambda g: g.sequence
            )
            assert int(headers["kubedelta-gap"].rpartition("/")[2]) >= newest.sequence


def assert_complete(topic: str, partition: int, lies: Lies, fetches: Sequence[Sequence[Record]]) -> None:
    """By the first end of the snapshot a reader has met as many objects as it says, and these are all of them."""
    ends = [n for n, (headers, _) in enumerate(lies) if headers["ce_id"] == f"snapshot/audit/50/ended/p{partition}"]
    if not ends:
        return
    ended = msgspec.json.decode(lies[ends[0]][1])
    met = {
        headers["ce_id"] for headers, _ in lies[: ends[0]] if headers.get("ce_snapshot") and "uid" in headers["ce_id"]
    }
    mine = {
        record.id
        for fetch in fetches
        for record in fetch
        if isinstance(record, Delta) and record.snapshot and TOPICS[record.resource] == topic
        if zlib.crc32(CloudEvents("prod").partition_key(record).encode()) % PARTITIONS[topic] == partition
    }
    assert met == mine
    assert (ended["objects"], ended["dead_letters"]) == (len(met), 0)


def assert_every_partition_has_it(broker: Broker, gaps: Sequence[Gap]) -> None:
    for gap in gaps:
        for concern in gap.concerns:
            topic = TOPICS[concern.resource]
            for partition in range(0 if topic in COMPACTED else PARTITIONS[topic]):
                ids = {headers["ce_id"] for headers, _ in broker.lies[topic, partition]}
                assert f"{gap.id}/p{partition}" in ids
        notices = {headers["ce_id"] for headers, _ in broker.lies["k8s.notice", 0]}
        assert gap.id in notices
