"""The state topic of a Kafka sink, against a real broker."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.change import Op
from bridge.model.record import Delta
from sinks.base import ALL_STORED, SinkContext
from tests.cluster.fixtures import MakeTopic, fresh_name
from tests.cluster.servers import Kafka
from tests.kit.records import DEPLOYMENTS, PODS, a_delta, a_gap, changes, ids_of
from tests.kit.sinks import failure_of
from tests.sinks.kafka.test_sink import ids, opened, read, the_sink


def compacted(make: MakeTopic, partitions: int = 1, max_message_bytes: str = "1048588") -> str:
    return make(partitions, cleanup_policy="compact", max_message_bytes=max_message_bytes)


async def state_in(server: Kafka, topic: str) -> dict[str, bytes | None]:
    """The value of each key, as a compacted topic keeps it."""
    return {(record.key or b"").decode(): record.value for record in await read(server, topic)}


def a_delete(sequence: int, key: str) -> Delta:
    return a_delta(sequence, key=key, op=Op.DELETED)


async def test_the_state_has_the_newest_form_of_each_object(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic, state = kafka_topic(3), compacted(kafka_topic, 2)
    batch: Sequence[Delta] = [*changes(20, keys=4), a_delete(21, "shop/web-1")]
    async with opened(kafka, topic, state_topic=state) as sink:
        assert await sink.deliver(batch[:10]) == ALL_STORED
        assert await sink.deliver(batch[10:]) == ALL_STORED

    assert len(await read(kafka, topic)) == 21
    wanted = {f"prod/core/pods/{each.key}": None if each.op is Op.DELETED else each.body for each in batch}
    assert await state_in(kafka, state) == wanted
    assert len(await read(kafka, state)) == 8, "one record of each object in a batch"


async def test_notices_are_in_no_state_topic(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic, state = kafka_topic(), compacted(kafka_topic)
    async with opened(kafka, topic, SinkContext(watched=lambda: [PODS]), state_topic=state) as sink:
        assert await sink.deliver([a_gap(1, 2)]) == ALL_STORED
        assert await sink.deliver([a_delta(3)]) == ALL_STORED

    assert [record.value for record in await read(kafka, state)] == [a_delta(3).body]


async def test_an_object_with_a_new_uid_is_another_row(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic, state = kafka_topic(), compacted(kafka_topic)
    gone = a_delta(1, op=Op.DELETED, uid="first")
    async with opened(kafka, topic, state_topic=state, key="uid") as sink:
        assert await sink.deliver([gone, a_delta(2, op=Op.ADDED, uid="second")]) == ALL_STORED

    assert (await state_in(kafka, state)).keys() == {"first", "second"}
    assert (await state_in(kafka, state))["first"] is None


async def test_a_topic_that_would_lose_states_gets_none(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic, state = kafka_topic(), kafka_topic(cleanup_policy="compact,delete")
    reason = f"topic {state}: cleanup.policy is compact,delete, which removes the newest records; set it to compact"
    async with opened(kafka, topic, state_topic=state) as sink:
        receipt = await sink.deliver([a_delta(1)])
        again = await sink.deliver([a_delta(1)])

    assert failure_of(receipt) == failure_of(again) == reason
    assert len(await read(kafka, topic)) == 1, "what waits for its state is not sent to the history again"
    assert not await read(kafka, state)


async def test_a_check_names_state_topics_that_are_wrong(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic, prefix = kafka_topic(), fresh_name("asked")
    kafka_topic(name=f"{prefix}.pods")
    sink = the_sink(kafka, topic, state_topic=f"{prefix}.{{resource}}")
    found = await sink.check_destinations([PODS, DEPLOYMENTS])
    await sink.close()

    assert found == [
        f"no topic {prefix}.deployments, and brokers create none: create them, or set create_topics",
        f"topic {prefix}.pods: cleanup.policy is delete, which removes the newest records; set it to compact",
    ]


async def test_a_state_that_is_too_large_is_a_rejected_record(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic, state = kafka_topic(), compacted(kafka_topic, max_message_bytes="3000")
    large = b'"' + bytes(range(65, 90)) * 400 + b'"'
    batch = [a_delta(1), a_delta(2, body=large), a_delta(3), a_delta(4, key="shop/b")]
    async with opened(kafka, topic, state_topic=state, compression="none") as sink:
        receipt = await sink.deliver(batch[:2] + batch[3:])
        assert await sink.deliver([a_delta(5, key="shop/b")]) == ALL_STORED

    assert list(receipt.rejected) == [1]
    assert receipt.rejected[1].startswith("the state: ")
    wanted = {"prod/core/pods/shop/web-1": batch[0].body, "prod/core/pods/shop/b": a_delta(5, key="shop/b").body}
    assert await state_in(kafka, state) == wanted


async def test_what_does_not_fit_is_trimmed_in_the_state(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic, state = kafka_topic(), compacted(kafka_topic, max_message_bytes="3000")
    large = b'{"kind":"Pod","status":{"x":"%s"}}' % (b"y" * 9000)
    async with opened(kafka, topic, state_topic=state, compression="none", too_large="trim") as sink:
        assert await sink.deliver([a_delta(1, body=large)]) == ALL_STORED

    [record] = await read(kafka, state)
    assert (record.value, dict(record.headers)["ce_trimmed"]) == (b'{"kind":"Pod"}', b"status")
    assert [each.value for each in await read(kafka, topic)] == [large], "the history takes it as it is"


async def test_a_state_topic_of_a_known_sink_is_reported(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic, state = kafka_topic(), compacted(kafka_topic)
    async with opened(kafka, topic, state_topic=state) as sink:
        receipt = await sink.deliver([a_delta(1)])
        assert receipt.changed == "", "a new sink begins with a snapshot"
        assert receipt.memory is not None
    other = compacted(kafka_topic)
    async with opened(kafka, topic, SinkContext(memory=receipt.memory), state_topic=other) as sink:
        receipt = await sink.deliver([a_delta(2)])
        assert await sink.deliver([a_delta(3)]) == ALL_STORED

    assert f"state_topic {other} is new" in receipt.changed
    assert ids(await read(kafka, other)) == ids_of([a_delta(2), a_delta(3)])
