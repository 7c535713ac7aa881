"""Transactions of the Kafka sink, against a real broker."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from bridge.model.change import Op
from bridge.model.primitives.shard import Shard
from bridge.model.progress import Progress, decode_progress, encode_progress
from bridge.model.record import Concern, Record, SnapshotEdge, TermBegan
from sinks.base import ALL_STORED, Receipt, RetryLater, SinkContext, SinkUnavailable
from sinks.kafka.options import KafkaOptions
from sinks.kafka.producer import TransactionalProducer
from sinks.kafka.sink import KafkaSink
from tests.cluster.fixtures import MakeTopic, fresh_name
from tests.cluster.servers import Kafka, KafkaBehindALine
from tests.kit.deadlines import BUSY
from tests.kit.records import DEPLOYMENTS, PODS, TIME, a_delta, a_gap, a_snapshot, changes, ids_of
from tests.kit.sinks import failure_of
from tests.kit.tcp_line import Line
from tests.sinks.kafka.test_sink import ids, incompressible, read

pytestmark = pytest.mark.java


def producer_of(sink: KafkaSink) -> TransactionalProducer:
    producer = sink._producers.present
    assert isinstance(producer, TransactionalProducer)
    return producer


class Place:
    """Topics for a test: of records, and of progress."""

    def __init__(self, server: Kafka, make: MakeTopic, **config: str) -> None:
        self.server = server
        self.records = make(partitions=3, **config)
        self.progress = make(cleanup_policy="compact")
        self.reached = Progress()
        """What the present delivery reaches."""
        self.committed: Progress | None = None
        """What the newest sink found when it opened."""
        self.memory: bytes | None = None
        """Of the newest receipt."""

    def sink(self, **options: Any) -> KafkaSink:
        settings = {
            "bootstrap_servers": self.server.bootstrap,
            "topic": self.records,
            "exactly_once": True,
            "progress_topic": self.progress,
            **options,
        }
        chosen = KafkaOptions.model_validate(settings)
        # Of the test alone: brokers remember the name.
        return KafkaSink("audit", chosen, cluster=self.records)

    def context(self, term: int = 0, in_doubt: int = 0, **members: Any) -> SinkContext:
        began = TermBegan(term, 0, TIME) if term else None
        return SinkContext(progress=lambda: self.reached, term=began, in_doubt=in_doubt, **members)

    @asynccontextmanager
    async def opened(self, context: SinkContext | None = None, /, **options: Any) -> AsyncIterator[KafkaSink]:
        sink = self.sink(**options)
        try:
            self.committed = await sink.open(context or self.context())
            yield sink
        finally:
            await sink.close()

    async def deliver(self, sink: KafkaSink, batch: Sequence[Record]) -> None:
        """As the bridge does it: again, as long as brokers are too busy to answer in time."""
        self.reached = reaching(batch[-1].sequence)
        async with asyncio.timeout(60 * BUSY):
            while (receipt := await sink.deliver(batch)) != ALL_STORED:
                assert not receipt.rejected
                await asyncio.sleep(0.02)
        self.memory = receipt.memory

    async def stored(self) -> list[str]:
        await asyncio.to_thread(self.server.settle_transactions, self.records)
        return ids(await read(self.server, self.records))

    async def uncommitted(self) -> list[str]:
        return ids(await asyncio.to_thread(self.server.read_all, self.records, committed=False))

    async def newest_progress(self) -> Progress:
        await asyncio.to_thread(self.server.settle_transactions, self.progress)
        found = (await read(self.server, self.progress))[-1]
        assert found.key == f"{self.records}/audit/0".encode()
        return decode_progress(found.value or b"")


@pytest.fixture
def place(kafka: Kafka, kafka_topic: MakeTopic) -> Place:
    return Place(kafka, kafka_topic)


def reaching(out: int) -> Progress:
    return Progress(start="this", out=out)


async def test_records_and_progress_come_together(place: Place) -> None:
    batch = changes(200, keys=7)
    async with place.opened() as sink:
        assert place.committed is None
        await place.deliver(sink, batch[:150])
        await place.deliver(sink, batch[150:])
        newest = await place.newest_progress()
    assert Counter(await place.stored()) == Counter(ids_of(batch))
    assert (newest.out, newest.start, newest.number) == (200, "this", 2)

    async with place.opened():
        assert place.committed is not None
        assert (place.committed.out, place.committed.start) == (200, "this")
        assert place.committed.memory == place.memory != b""


async def test_a_fenced_producer_stores_nothing_and_says_why(place: Place) -> None:
    batch = changes(30)
    async with place.opened() as old:
        await place.deliver(old, batch[:10])
        async with place.opened() as new:
            first = await old.deliver(batch[10:20])
            assert "fenced" in failure_of(first)
            assert not (first.failure and first.failure.fenced), "it may have timed out"
            second = await old.deliver(batch[10:20])
            assert second.failure is not None
            assert second.failure.fenced
            assert "the same transactional id" in second.failure.reason
            await place.deliver(new, batch[20:])
            assert Counter(await place.stored()) == Counter(ids_of([*batch[:10], *batch[20:]]))
            await place.deliver(old, batch[10:20])  # An operator has resumed it.
            assert "fenced" in failure_of(await new.deliver(batch[:5]))
    assert Counter(await place.stored()) == Counter(ids_of(batch))


async def test_a_transaction_that_brokers_timed_out_is_sent_again(place: Place) -> None:
    """Which looks like a fence, and is none."""
    batch = changes(20)
    async with place.opened() as sink:
        await place.deliver(sink, batch[:10])
        settings = {"bootstrap.servers": place.server.bootstrap, "transactional.id": f"{place.records}/audit/0"}
        other = Producer({**settings, "log_level": 0})
        await asyncio.to_thread(other.init_transactions, 30 * BUSY)  # Takes the name as a coordinator does: silently.
        assert "fenced" in failure_of(await sink.deliver(batch[10:]))
        await place.deliver(sink, batch[10:])
    assert Counter(await place.stored()) == Counter(ids_of(batch))


STEPS = [
    ("begin", "ends"),
    ("wait", "runs"),  # For the reports of the records.
    ("store", "begins"),
    ("store", "ends"),
    ("commit", "begins"),
    ("commit", "runs"),
    ("commit", "ends"),
]


async def test_a_cancelled_delivery_is_stored_once_however_far_it_came(place: Place) -> None:
    """And at the first attempt: the next delivery does not wait until brokers time out what this one left open."""
    batch = changes(20 * len(STEPS))
    async with place.opened(connect_timeout=30) as sink:
        for number, (step, moment) in enumerate(STEPS):
            part = batch[20 * number :][:20]
            place.reached = reaching(part[-1].sequence)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(TransactionalProducer, step, cancelling(step, moment))
                delivering = asyncio.get_running_loop().create_task(sink.deliver(part))
                await asyncio.wait({delivering}, timeout=30 * BUSY)
            assert delivering.cancelled()
            assert await sink.deliver(part) == ALL_STORED
    assert Counter(await place.stored()) == Counter(ids_of(batch))


def cancelling(step: str, moment: str) -> Callable[..., Awaitable[Any]]:
    """In place of this method of a producer: cancels the calling task when the call begins, runs or ends. Only one that
    runs goes on."""
    call = getattr(TransactionalProducer, step)

    async def cut_off(*arguments: Any) -> Any:
        if moment == "ends":
            await call(*arguments)
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)  # Before any answer of a thread.
        if moment == "runs":
            await call(*arguments)
        await asyncio.Event().wait()

    return cut_off


async def test_an_open_transaction_is_aborted_before_the_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else librdkafka now and then ends the process: it was adding partitions to the transaction."""
    calls: list[str] = []
    for step in ("abort", "close"):
        monkeypatch.setattr(TransactionalProducer, step, noted(step, calls))
    async with place.opened(connect_timeout=30) as sink:
        with monkeypatch.context() as patch:
            patch.setattr(TransactionalProducer, "wait", cancelling("wait", "runs"))
            delivering = asyncio.get_running_loop().create_task(sink.deliver(changes(20)))
            await asyncio.wait({delivering}, timeout=30 * BUSY)
        assert await sink.deliver(changes(20)) == ALL_STORED
        assert calls == ["abort", "close"]


def noted(step: str, calls: list[str]) -> Callable[..., Awaitable[Any]]:
    call = getattr(TransactionalProducer, step)

    async def noting(*arguments: Any) -> Any:
        calls.append(step)
        return await call(*arguments)

    return noting


async def test_an_owner_whose_first_progress_was_aborted_owns_nothing(place: Place) -> None:
    batch = changes(20)
    async with place.opened(connect_timeout=30) as sink:
        await place.deliver(sink, batch[:10])
        name = f"{place.records}/audit/0"
        other = Producer({"bootstrap.servers": place.server.bootstrap, "transactional.id": name, "log_level": 0})
        await asyncio.to_thread(other.init_transactions, 30 * BUSY)
        other.begin_transaction()
        other.produce(place.progress, encode_progress(Progress(owner="other")), name, 0)
        await asyncio.to_thread(other.flush, 30 * BUSY)
        assert "fenced" in failure_of(await sink.deliver(batch[10:]))
        await asyncio.to_thread(other.abort_transaction, 30 * BUSY)
        assert await sink.deliver(batch[10:]) == ALL_STORED
    assert Counter(await place.stored()) == Counter(ids_of(batch))


async def test_only_readers_of_uncommitted_records_see_aborted_ones(place: Place) -> None:
    """A record without a form is rejected, and ends the transaction of the records around it."""
    batch = [a_delta(1), a_delta(2, key="shop/large", body=incompressible(20_000)), a_delta(3), a_delta(4)]
    async with place.opened(max_message_bytes=10_000) as sink:
        receipt = await sink.deliver(batch)
        assert list(receipt.rejected) == [1]
        assert list(receipt.pending) == [0, 2, 3]
        assert "aborted" in failure_of(receipt)
        assert await place.stored() == []
        await place.deliver(sink, [batch[index] for index in receipt.pending])
    assert Counter(await place.stored()) == Counter(ids_of([batch[0], *batch[2:]]))
    assert Counter(await place.uncommitted())[batch[0].id] == 2


@pytest.mark.parametrize("large", [{5}, {0, 17, 18}])
async def test_a_refused_record_is_found_in_its_batch_and_rejected(
    kafka: Kafka, kafka_topic: MakeTopic, large: set[int]
) -> None:
    place = Place(kafka, kafka_topic, max_message_bytes="20000")
    batch = [
        a_delta(n + 1, key=f"shop/p{n % 5}", body=incompressible(30_000 if n in large else 800)) for n in range(40)
    ]
    rejected: set[int] = set()
    left = list(range(40))
    async with place.opened() as sink:
        place.reached = reaching(40)
        for _ in range(6 * len(large)):
            if not left:
                break
            receipt = await sink.deliver([batch[index] for index in left])
            rejected |= {left[index] for index in receipt.rejected}
            left = [left[index] for index in receipt.pending]
    assert rejected == large
    assert Counter(await place.stored()) == Counter(ids_of([each for n, each in enumerate(batch) if n not in large]))


async def test_a_batch_that_is_too_large_only_as_a_whole_is_stored(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    place = Place(kafka, kafka_topic, max_message_bytes="300000")
    batch = [a_delta(n, body=incompressible(60_000)) for n in range(1, 11)]
    async with place.opened() as sink:
        await place.deliver(sink, batch)
        await place.deliver(sink, changes(5, first=41))
    assert Counter(await place.stored()) == Counter(ids_of([*batch, *changes(5, first=41)]))


async def test_a_record_too_large_for_the_topic_is_trimmed(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    place = Place(kafka, kafka_topic, max_message_bytes="20000")
    status = incompressible(30_000).decode()
    batch = [*changes(5), a_delta(6, key="shop/large", body=b'{"metadata":{},"status":%s}' % status.encode())]
    async with place.opened(too_large="trim") as sink:
        await place.deliver(sink, batch)
        await place.deliver(sink, changes(5, first=7))
    found = await read(kafka, place.records)
    assert Counter(ids(found)) == Counter(ids_of([*batch, *changes(5, first=7)]))
    assert [dict(each.headers)["ce_trimmed"] for each in found if b"shop/large" in (each.key or b"")] == [b"status"]


async def test_notices_markers_and_states_are_in_the_same_transaction(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    place = Place(kafka, kafka_topic)
    state = kafka_topic(cleanup_policy="compact")
    gap = replace(a_gap(2, 4), concerns=(Concern(PODS),), only=True)
    batch: list[Record] = [a_delta(1), gap, a_delta(5, op=Op.DELETED)]
    context = place.context(watched=lambda: (PODS,))
    async with place.opened(context, state_topic=state, notice_topic=place.records) as sink:
        await place.deliver(sink, batch)
        assert (await place.newest_progress()).number == 1
    found = [each.removesuffix(f"/p{n}") for n in range(3) for each in await place.stored() if each.endswith(f"/p{n}")]
    assert found == [gap.id] * 3
    assert {batch[0].id, batch[2].id} <= set(await place.stored())
    assert [each.value for each in await read(kafka, state)][-1] is None


async def test_the_end_of_a_snapshot_counts_once_through_an_abort(place: Place) -> None:
    """What an aborted transaction remembered is forgotten with it."""
    began, ended = (a_snapshot(edge, through=9, count=5) for edge in (SnapshotEdge.BEGAN, SnapshotEdge.ENDED))
    records = [a_delta(n, key=f"shop/p{n}", op=Op.ADDED, snapshot=began.snapshot) for n in range(1, 6)]
    large = a_delta(6, key="shop/large", body=incompressible(20_000), snapshot=began.snapshot)
    async with place.opened(max_message_bytes=10_000, notice_topic=place.records) as sink:
        place.reached = reaching(9)
        receipt = await sink.deliver([began, *records, large, ended])
        assert list(receipt.rejected) == [6]
        await place.deliver(sink, [began, *records, ended])
    found = await read(place.server, place.records)
    counts = [each.value for each in found if b"/ended/p" in (dict(each.headers)["ce_id"] or b"")]
    assert sum(int((value or b"").split(b'"objects":')[1].split(b",")[0].rstrip(b"}")) for value in counts) == 5


async def test_a_cut_line_leaves_every_record_stored_once(kafka: KafkaBehindALine, kafka_topic: MakeTopic) -> None:
    place = Place(kafka, kafka_topic)
    batch = changes(200, keys=11)
    async with Line(kafka.behind_the_line, port=kafka.line_port) as line:
        soon = {"properties": {"reconnect.backoff.max.ms": 200}, "ack_timeout": 2, "connect_timeout": 5}
        async with place.opened(bootstrap_servers=f"127.0.0.1:{kafka.line_port}", **soon) as sink:
            for number, start in enumerate(range(0, 200, 20)):
                part = batch[start : start + 20]
                place.reached = reaching(part[-1].sequence)
                # At another moment of the transaction each time: also behind the request to end it.
                line.cut_after(150 * number, back=bool(number % 2))
                async with asyncio.timeout(60 * BUSY):
                    while await sink.deliver(part) != ALL_STORED:  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
    assert line.cuts > 4
    assert Counter(await place.stored()) == Counter(ids_of(batch))


async def test_an_unacknowledged_record_gets_another_producer(
    kafka: Kafka, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may have it. librdkafka would give its number to the next one, which the broker then leaves out."""
    place, batch = Place(kafka, kafka_topic), changes(4)
    async with place.opened() as sink:
        await place.deliver(sink, batch[:2])
        before = producer_of(sink)

        async def unacknowledged(_writer: object, records: Sequence[Record]) -> Receipt:
            return Receipt(range(len(records)), RetryLater("no acknowledgement within 2 s"))

        with monkeypatch.context() as patched:
            patched.setattr(sink._transactions, "_send", unacknowledged)
            assert (await sink.deliver(batch[2:])).failure == RetryLater("no acknowledgement within 2 s")
        await place.deliver(sink, batch[2:])
        assert producer_of(sink) is not before
    assert Counter(await place.stored()) == Counter(ids_of(batch))


async def test_check_fences_no_bridge_and_names_a_wrong_topic(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    place = Place(kafka, kafka_topic)
    async with place.opened() as running:
        checked = place.sink()
        assert "brokers" in await checked.check()
        assert await checked.check_destinations([PODS]) == []
        await checked.close()
        await place.deliver(running, changes(3))
    wrong = kafka_topic()
    refused = place.sink(progress_topic=wrong)
    assert await refused.check_destinations([PODS]) == [
        f"topic {wrong}: cleanup.policy is delete, which removes the newest records; set it to compact"
    ]
    with pytest.raises(SinkUnavailable, match=r"cleanup\.policy is delete"):
        await refused.open(SinkContext())
    await refused.close()
    missing = place.sink(progress_topic=fresh_name("missing"))
    [mistake] = await missing.check_destinations([DEPLOYMENTS])
    assert mistake.startswith("no topic missing")
    with pytest.raises(SinkUnavailable, match=r"does not exist; create it with cleanup\.policy compact"):
        await missing.open(SinkContext())
    await missing.close()


async def test_progress_is_found_behind_thousands_of_others(place: Place) -> None:
    async with place.opened() as sink:
        await place.deliver(sink, changes(3))
    crowd = Producer({"bootstrap.servers": place.server.bootstrap, "log_level": 0})
    for number in range(3000):
        crowd.produce(place.progress, b"{}", f"other/{number}", 0)
    await asyncio.to_thread(crowd.flush, 30 * BUSY)
    async with place.opened():
        assert place.committed is not None
        assert place.committed.out == 3


async def test_unreadable_progress_stops_the_sink_with_a_way_out(place: Place) -> None:
    crowd = Producer({"bootstrap.servers": place.server.bootstrap, "log_level": 0})
    crowd.produce(place.progress, b'{"v":9}', f"{place.records}/audit/0", 0)
    await asyncio.to_thread(crowd.flush, 30 * BUSY)
    sink = place.sink()
    with pytest.raises(SinkUnavailable, match=r"version 9.*set another progress_topic"):
        await sink.open(SinkContext())
    await sink.close()


async def test_a_leader_of_an_earlier_term_stores_nothing_until_it_is_confirmed(place: Place) -> None:
    """It was frozen in the middle of its own takeover: it fences the leader, and must not keep the topics. It is
    confirmed where the Lease was deleted, and its terms began anew. A term later than the one in doubt is another
    doubt."""

    async def refused(term: int, context: SinkContext) -> SinkUnavailable:
        sink = place.sink()
        found = f"term {term} has taken the topics over, and this replica led in term 1"
        with pytest.raises(SinkUnavailable, match=found) as raised:
            await sink.open(context)
        await sink.close()
        return raised.value

    batch = changes(40)
    async with place.opened(place.context(term=8)) as leader:
        await place.deliver(leader, batch[:10])
        error = await refused(8, place.context(term=1))
        assert (error.fenced, error.in_doubt) == (True, 8)
        await place.deliver(leader, batch[10:20])
        assert (await place.newest_progress()).term == 8
    async with place.opened(place.context(term=1, in_doubt=8)) as confirmed:
        await place.deliver(confirmed, batch[20:30])
        assert (await place.newest_progress()).term == 1
    async with place.opened(place.context(term=9)) as later:
        await place.deliver(later, batch[30:])
    await refused(9, place.context(term=1, in_doubt=8))
    assert Counter(await place.stored()) == Counter(ids_of(batch))


async def test_a_shard_has_progress_of_its_own(place: Place) -> None:
    batch = changes(20)
    for index in (0, 1):
        async with place.opened(place.context(shard=Shard(2, index))) as sink:
            assert place.committed is None
            await place.deliver(sink, batch[10 * index : 10 * index + 10])
    async with place.opened():
        assert place.committed is None
    assert Counter(await place.stored()) == Counter(ids_of(batch))
    await asyncio.to_thread(place.server.settle_transactions, place.progress)
    keys = {each.key for each in await read(place.server, place.progress)}
    assert keys == {f"{place.records}/audit/{end}".encode() for end in ("0", "0-of-2", "1-of-2")}
