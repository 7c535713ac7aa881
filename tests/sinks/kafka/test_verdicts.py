"""Whose fault an error is: a row for each code of the library, and what becomes of a record that gets it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from sinks.kafka.delivery import DeliveryOutcome, InFlightRecords, KafkaDelivery
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.producer import InFlight, ProducerFenced, failure_of
from sinks.kafka.verdicts import VERDICTS, Fault
from tests.kit.records import DEPLOYMENTS, a_delta
from tests.sinks.kafka.test_in_flight import AnsweringProducer, a_delivery

NAMES = {
    code: name
    for name in dir(KafkaError)
    if name.isupper() and isinstance(code := getattr(KafkaError, name), int) and name != "NO_ERROR"
}
IN_BATCH = [a_delta(1), a_delta(2, key="shop/web-2"), a_delta(3, resource=DEPLOYMENTS)]
TOPICS = ["pods", "pods", "deployments"]


class Refusing(AnsweringProducer):
    """Reports each message at once: with the given code, those of the topic of pods; without an error, others."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self._error = KafkaError(code)

    def produce(self, record: InFlight, message: KafkaMessage, value: bytes | None) -> bool:
        record.error, record.unreported = (self._error if message.topic == "pods" else None), 0
        return True


async def delivered(code: int, *, one_by_one: bool) -> tuple[KafkaDelivery, DeliveryOutcome]:
    delivery = a_delivery(Refusing(code), InFlightRecords(), IN_BATCH, dict(enumerate(TOPICS)))
    return delivery, await delivery.run(one_by_one=one_by_one)


def test_every_code_of_the_library_has_a_verdict() -> None:
    assert sorted([*NAMES, KafkaError.NO_ERROR]) == sorted(code for rows in VERDICTS.values() for code in rows)
    assert all(reason for rows in VERDICTS.values() for reason in rows.values())


@pytest.mark.parametrize(
    ("code", "fault"),
    [pytest.param(code, fault, id=NAMES.get(code)) for fault, rows in VERDICTS.items() for code in rows],
)
async def test_the_verdict_decides_on_the_record(code: int, fault: Fault) -> None:
    delivery, outcome = await delivered(code, one_by_one=False)
    assert not delivery._result.rejected, "of two refused records, one may be fine"
    assert outcome.pending == [0, 1], "the record of the other topic is stored"
    refused = fault is Fault.RECORD
    assert (outcome.failure is None) is refused, "refused records are sent one by one, without a pause"
    assert set(delivery.failed_topics()) == ({"pods"} if fault is Fault.TOPIC else set())

    delivery, outcome = await delivered(code, one_by_one=True)
    assert set(delivery._result.rejected) == ({0, 1} if refused else set())
    assert (outcome.failure is None) is refused

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
    delivery, outcome = await delivered(9999, one_by_one=True)
    assert (delivery._result.rejected, outcome.pending) == ({}, [0, 1, 2])
    assert outcome.failure is not None
