"""The producer, with librdkafka's own cluster in the process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from sinks.kafka.config import ClientConfig
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.options import KafkaOptions
from sinks.kafka.producer import InFlight, KafkaProducer, Producers
from sinks.receipt import NotLeading, WrongOption

MESSAGE = KafkaMessage("k8s", "a", (b"{}",), {})


class SlowCluster:
    """The part of ClientConfig that a producer uses. Each request holds a single message, and takes ``seconds``."""

    tokens = None

    def __init__(self, seconds: float) -> None:
        self._milliseconds = round(1000 * seconds)

    def files(self) -> Sequence[object]:
        return ()

    def refused(self, _error: str) -> bool:
        return False

    def producer(self, *, gapless: bool) -> dict[str, Any]:
        return {
            "test.mock.num.brokers": 1,
            "allow.auto.create.topics": True,
            "test.mock.broker.rtt": self._milliseconds,
            "batch.num.messages": 1,
            "max.in.flight": 1,
            "linger.ms": 0,
            "enable.idempotence": gapless,
        }


@asynccontextmanager
async def producing(seconds: float, count: int) -> AsyncIterator[tuple[KafkaProducer, list[InFlight]]]:
    """A producer with so many messages, to a cluster whose requests take so long."""
    clients, loop = cast("ClientConfig", SlowCluster(seconds)), asyncio.get_running_loop()
    with ThreadPoolExecutor(2) as threads:
        producer = await asyncio.to_thread(KafkaProducer, clients, threads, loop, gapless=True)
        records = [InFlight(producer, 1) for _ in range(count)]
        for each in records:
            assert producer.produce(each, MESSAGE, b"{}")
        yield producer, records


async def test_close_sends_nothing_any_more() -> None:
    """What is sent has its answer awaited; what waits in the queue would be stored while the next leader delivers."""
    seconds = 0.1
    async with producing(seconds, 100) as (producer, records):
        await producer.wait(3, 30.0)
        stored, counted = sum(each.acknowledged for each in records), time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(producer.close(30.0))
            await asyncio.sleep(0)
            between = time.monotonic() - counted

    assert all(record.reported for record in records)
    # One request at a time: the one under way, and those that began between the count and the call.
    assert stored <= sum(each.acknowledged for each in records) <= stored + 2 + between / seconds


async def test_close_does_not_wait_for_reports_that_come_one_by_one() -> None:
    """Else a replica that has lost its Lease would still be delivering when the next leader begins."""
    async with producing(0.2, 50) as (producer, records):
        await producer.wait(1, 30.0)
        await producer.close(0.5)

    assert records[0].acknowledged
    assert all(record.reported for record in records)
    assert not records[-1].acknowledged, "it took a request too long to be waited for"


async def test_a_replica_that_may_not_lead_produces_nothing() -> None:
    clients, loop = cast("ClientConfig", SlowCluster(0)), asyncio.get_running_loop()
    leads = False
    with ThreadPoolExecutor(2) as threads:
        producer = await asyncio.to_thread(KafkaProducer, clients, threads, loop, gapless=True, may_send=lambda: leads)
        assert producer.send([MESSAGE]) == []
        with pytest.raises(NotLeading):
            producer.produce(InFlight(producer, 1), MESSAGE, b"{}")
        assert producer.produced == 0
        leads = True
        assert len(producer.send([MESSAGE])) == 1
        await producer.close(30.0)


class Refused:
    """A producer that brokers refuse, which a late look finds. Requests take no time."""

    def __init__(self, after: float) -> None:
        self._after = after
        self.waited = 0.0

    @property
    def last_error(self) -> str:
        return "connecting to a PLAINTEXT broker listener?" if self.waited > self._after else "closed by peer"

    def metadata(self, _topic: str | None, timeout: float) -> None:
        self.waited += timeout
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    async def close(self, _timeout: float) -> None:
        return


@pytest.mark.parametrize("refused_after", [0, 5, 20])
async def test_a_late_refusal_is_found_long_before_a_long_timeout(
    refused_after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = KafkaOptions.model_validate({"bootstrap_servers": "broker:9092", "topic": "k8s", "connect_timeout": 120})
    refused = Refused(refused_after)
    with ThreadPoolExecutor(1) as threads:
        producers = Producers(options, ClientConfig(options), threads)
        monkeypatch.setattr(producers, "_make", lambda *_: refused)
        with pytest.raises(WrongOption, match="without TLS"):
            await producers.open()

    assert refused.waited <= 1 + 2 * refused_after
