"""Whose fault an error is: a row for each code of the library, and what becomes of a record that gets it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from sinks.kafka.delivery import InFlightRecords, KafkaDelivery
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.producer import InFlight, ProducerFenced, failure_of
from sinks.kafka.verdicts import VERDICTS, Fault
from sinks.receipt import BatchResult
from tests.kit.records import DEPLOYMENTS, a_delta

NAMES = {
    code: name
    for name in dir(KafkaError)
    if name.isupper() and isinstance(code := getattr(KafkaError, name), int) and name != "NO_ERROR"
}
IN_BATCH = [a_delta(1), a_delta(2, key="shop/web-2"), a_delta(3, resource=DEPLOYMENTS)]
TOPICS = ["pods", "pods", "deployments"]


class AnsweringProducer:
    """Reports each message at once: with the given code, those of the topic of pods; without an error, others."""

    produced = reported = 0
    broken = None
    last_error = ""

    def __init__(self, code: int) -> None:
        self._error = KafkaError(code)

    def produce(self, record: InFlight, message: KafkaMessage, value: bytes | None) -> bool:
        record.error, record.unreported = (self._error if message.topic == "pods" else None), 0
        return True

    async def wait(self, reports: int, idle_timeout: float) -> bool:
        return True


async def delivered(code: int, *, one_by_one: bool) -> tuple[KafkaDelivery, BatchResult, list[int], bool]:
    """The delivery, the result, the pending records, and whether the attempt failed."""
    result = BatchResult(IN_BATCH)
    messages = {index: KafkaMessage(topic, "key", (b"value",), {}) for index, topic in enumerate(TOPICS)}
    producer = AnsweringProducer(code)
    delivery = KafkaDelivery(
        producer,  # type: ignore[arg-type]
        messages,
        result,
        unusable_topics={},
        in_flight=InFlightRecords(),
        idle_timeout=1,
    )
    outcome = await delivery.run(one_by_one=one_by_one)
    return delivery, result, outcome.pending, outcome.failure is not None


def test_every_code_of_the_library_has_a_verdict() -> None:
    assert sorted([*NAMES, KafkaError.NO_ERROR]) == sorted(code for rows in VERDICTS.values() for code in rows)
    assert all(reason for rows in VERDICTS.values() for reason in rows.values())


@pytest.mark.parametrize(
    ("code", "fault"),
    [pytest.param(code, fault, id=NAMES.get(code)) for fault, rows in VERDICTS.items() for code in rows],
)
async def test_the_verdict_decides_on_the_record(code: int, fault: Fault) -> None:
    delivery, result, pending, failed = await delivered(code, one_by_one=False)
    assert not result.rejected, "of two refused records, one may be fine"
    assert pending == [0, 1], "the record of the other topic is stored"
    assert failed is (fault is not Fault.RECORD), "refused records are sent one by one, without a pause"
    assert set(delivery.failed_topics()) == ({"pods"} if fault is Fault.TOPIC else set())

    _, result, pending, failed = await delivered(code, one_by_one=True)
    assert set(result.rejected) == ({0, 1} if fault is Fault.RECORD else set())
    assert failed is (fault is not Fault.RECORD)

    fenced = isinstance(failure_of(KafkaError(code), "id", ""), ProducerFenced)
    assert fenced is (fault is Fault.FENCE)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("MSG_SIZE_TOO_LARGE", Fault.RECORD),
        ("RECORD_LIST_TOO_LARGE", Fault.RECORD),
        ("INVALID_RECORD", Fault.RECORD),
        ("INVALID_TIMESTAMP", Fault.TOPIC),
        ("NOT_ENOUGH_REPLICAS", Fault.TOPIC),
        ("TOPIC_AUTHORIZATION_FAILED", Fault.TOPIC),
        ("CLUSTER_AUTHORIZATION_FAILED", Fault.SINK),
        ("INVALID_MSG", Fault.SINK),
        ("POLICY_VIOLATION", Fault.TOPIC),
    ],
)
def test_some_verdicts_are_worth_their_own_line(name: str, fault: Fault) -> None:
    assert getattr(KafkaError, name) in VERDICTS[fault]


async def test_an_error_that_only_newer_brokers_know_is_tried_again() -> None:
    _, result, pending, failed = await delivered(9999, one_by_one=True)
    assert (result.rejected, pending, failed) == ({}, [0, 1, 2], True)
