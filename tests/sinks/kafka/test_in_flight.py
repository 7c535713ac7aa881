"""Records in flight from one attempt to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

import pytest
from confluent_kafka import KafkaError, Message

from bridge.model.record import Record
from sinks.kafka.delivery import Brokers, InFlightRecords, KafkaDelivery, Refusals, sender
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.options import KafkaOptions
from sinks.kafka.producer import InFlight, KafkaProducer
from sinks.receipt import BatchResult, NotLeading, RetryLater
from tests.kit.records import a_delta


class ReportedMessage:
    """As confluent_kafka gives it to a delivery report."""

    def partition(self) -> int:
        return 3


class SilentProducer:
    """Takes messages; their reports come when the test says so, and no wait sees one."""

    produced = reported = 0
    broken = None
    last_error = ""

    def __init__(self) -> None:
        self.sent: list[InFlight] = []

    def produce(self, record: InFlight, message: KafkaMessage, value: bytes | None) -> bool:
        self.sent.append(record)
        return True

    async def wait(self, reports: int, idle_timeout: float) -> bool:
        return False

    def report_all(self) -> None:
        for record in self.sent:
            if not record.reported:
                record.report(None, cast("Message", ReportedMessage()))


class AnsweringProducer(SilentProducer):
    """Every wait sees all reports."""

    async def wait(self, reports: int, idle_timeout: float) -> bool:
        self.report_all()
        return True


class LateReports(InFlightRecords):
    """The reports arrive while the end of an attempt is being decided, as a thread's may."""

    def __init__(self, producer: SilentProducer) -> None:
        super().__init__()
        self._producer = producer

    def keep(self, records: Iterable[tuple[Record, InFlight]]) -> None:
        self._producer.report_all()
        super().keep(records)


def a_delivery(
    producer: SilentProducer,
    in_flight: InFlightRecords,
    batch: Sequence[Record],
    topics: Mapping[int, str] | None = None,
    **options: Any,
) -> KafkaDelivery:
    """``topics``: of the records to deliver, by their index; by default all go to one topic."""
    topics = dict.fromkeys(range(len(batch)), "topic") if topics is None else topics
    messages = {index: KafkaMessage(topic, "key", (b"value",), {}) for index, topic in topics.items()}
    known: dict[str, Any] = {"unusable_topics": {}, "in_flight": in_flight, "idle_timeout": 1.0, **options}
    return KafkaDelivery(cast("KafkaProducer", producer), messages, BatchResult(batch), **known)


@pytest.mark.parametrize("snapshot", [None, "snapshot/log/1"])
async def test_a_report_behind_the_last_look_is_no_loss(snapshot: str | None) -> None:
    """The records are pending, and the next attempt finds them stored: nothing is sent twice, nor counted twice."""
    producer = SilentProducer()
    in_flight = LateReports(producer)
    batch = [a_delta(number, snapshot=snapshot) for number in range(1, 4)]
    counted: list[tuple[str, str, int]] = []

    async def attempt() -> list[int]:
        delivery = a_delivery(producer, in_flight, batch, count=lambda *stored: counted.append(stored))
        return (await delivery.run(one_by_one=False)).pending

    assert await attempt() == [0, 1, 2]
    assert await attempt() == []
    assert len(producer.sent) == 3
    assert counted == ([] if snapshot is None else [(snapshot, "topic", 3)] * 3)


async def test_a_topic_with_records_in_another_producer_waits_for_them_alone() -> None:
    """What the present producer sent to the topic could be stored in front of them."""
    aside, present, in_flight = SilentProducer(), AnsweringProducer(), InFlightRecords()
    topics = ["silent", "silent", "free", "silent"]
    batch = [a_delta(number, key=f"shop/{topic}") for number, topic in enumerate(topics, 1)]

    def attempt(producer: SilentProducer, *indexes: int) -> KafkaDelivery:
        chosen = {index: topics[index] for index in indexes}
        held = {"held": "topic held: a partition has 2 replicas in sync"}
        return a_delivery(producer, in_flight, batch, chosen, unusable_topics=held)

    first = await attempt(aside, 0, 1).run(one_by_one=False)
    assert first.failure is not None
    assert first.failure.reason == "no acknowledgement within 1 s"

    delivery = attempt(present, 1, 2, 3)
    assert (await delivery.run(one_by_one=False)).pending == [1, 3]
    assert delivery.unusable_topics["silent"] == "topic silent: no acknowledgement within 1 s"
    assert len(present.sent) == 1

    aside.report_all()
    assert (await attempt(present, 0, 1, 3).run(one_by_one=False)).pending == []
    assert (len(aside.sent), len(present.sent)) == (2, 2)


async def test_what_was_produced_in_time_is_not_produced_again() -> None:
    """The Lease is over behind the second record, and confirmed before the next attempt."""

    class Leading(AnsweringProducer):
        left = 2

        def produce(self, record: InFlight, message: KafkaMessage, value: bytes | None) -> bool:
            self.left -= 1
            if self.left == -1:
                raise NotLeading
            return super().produce(record, message, value)

    producer, in_flight = Leading(), InFlightRecords()
    batch = [a_delta(number) for number in range(1, 4)]

    with pytest.raises(NotLeading):
        await a_delivery(producer, in_flight, batch).run(one_by_one=False)
    assert (await a_delivery(producer, in_flight, batch).run(one_by_one=False)).pending == []
    assert len(producer.sent) == 3


async def test_a_silence_among_refused_records_leaves_those_behind_them_pending() -> None:
    """Records that were refused together are sent one by one; a later one of their objects waits for the next round."""

    class Refusing(SilentProducer):
        """Refuses the first batch, and answers nothing behind that."""

        fatal = None

        def produce(self, record: InFlight, message: KafkaMessage, value: bytes | None) -> bool:
            if len(self.sent) < len(batch):
                code = KafkaError._PURGE_QUEUE if self.sent[1:] else KafkaError.MSG_SIZE_TOO_LARGE
                record.error, record.unreported = KafkaError(code), 0
            return super().produce(record, message, value)

    class OneProducer:
        def __init__(self) -> None:
            self.present = Refusing()

        async def current(self, *, gapless: bool) -> SilentProducer:
            return self.present

    class OneTopic:
        usable: ClassVar = {"topic"}
        held: ClassVar[dict[str, str]] = {}

        async def short_of_replicas(self, producer: SilentProducer, topics: set[str]) -> dict[str, str]:
            return {}

    def encode(record: Record) -> KafkaMessage:
        return KafkaMessage("topic", "key", (b"value",), {})

    batch = [a_delta(1, key="shop/web-1"), a_delta(2, key="shop/web-2"), a_delta(3, key="shop/web-2")]
    brokers = Brokers(cast("Any", None), cast("Any", OneProducer()), cast("Any", OneTopic()), Refusals())
    options = KafkaOptions(bootstrap_servers="127.0.0.1:9", topic="topic")
    result = BatchResult(batch)

    receipt = await sender(options, brokers, encode).send(result, result.encode(encode))

    assert receipt.pending == [0, 1, 2]
    assert receipt.failure == RetryLater("no acknowledgement within 10 s")
