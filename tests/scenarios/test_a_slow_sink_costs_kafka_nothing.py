"""A sink that takes one delivery a second, beside Kafka at full load."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from bridge.playground import Playground
from bridge.playground.manifests import config_map
from tests.cluster.fixtures import MakeTopic
from tests.cluster.servers import Kafka
from tests.kit.bridge_process import BridgeProcess
from tests.kit.received import Version, assert_each_once, assert_in_order, from_events, from_kafka, received_lists
from tests.kit.small_disk import MEBIBYTE
from tests.kit.webhook_receiver import ACCEPTED, Answer, Posted, WebhookReceiver

OBJECTS = 100


@dataclass(frozen=True, slots=True)
class Length:
    changes: int
    """In each phase."""
    phases: int
    warm_up: int
    """Of these, how many do not count: while they last, caches fill and files grow to their size."""
    slower_by: float
    """A share that Kafka may lose. Short phases on a busy machine differ by much; held up by the sink, Kafka would lose
    nine tenths."""


@pytest.mark.parametrize(
    "length",
    [
        pytest.param(Length(1_500, 6, 4, slower_by=0.6), id="some seconds"),
        pytest.param(
            Length(20_000, 22, 4, slower_by=0.05), id="a minute", marks=[pytest.mark.soak, pytest.mark.timeout(1200)]
        ),
    ],
)
async def test_kafka_is_as_fast_beside_a_slow_sink_as_alone(
    kafka: Kafka, kafka_topic: MakeTopic, receiver: WebhookReceiver, tmp_path: Path, length: Length
) -> None:
    """Two bridges take turns, each with a namespace of its own, so that both meet the same weather."""
    receiver.answer = _after_a_second
    hook = {"type": "webhook", "url": receiver.url, "batch": 100, "concurrency": 1}
    topics = {name: kafka_topic(3) for name in ("alone", "beside")}
    log = {name: {"type": "kafka", "bootstrap_servers": kafka.bootstrap, "topic": topics[name]} for name in topics}
    async with Playground(history=2 * length.changes) as cluster, AsyncExitStack() as stack:
        alone = BridgeProcess(tmp_path / "alone", _config(cluster, "alone", {"log": log["alone"]}))
        beside = BridgeProcess(tmp_path / "beside", _config(cluster, "beside", {"log": log["beside"], "hook": hook}))
        bridges = {"alone": alone, "beside": beside}
        for bridge in bridges.values():
            await stack.enter_async_context(bridge.started())
        load = {name: _changes(cluster, name) for name in bridges}
        made: dict[str, list[Version]] = {name: [] for name in bridges}

        rates: dict[str, list[float]] = {name: [] for name in bridges}
        memory: list[int] = []
        for _ in range(length.phases):
            for name, bridge in bridges.items():
                made[name] += islice(load[name], length.changes)  # None leaves before the event loop goes on.
                rates[name].append(length.changes / await _seconds_to_kafka(bridge, len(made[name])))
            memory.append(beside.rss_bytes())
        behind = (await beside.metrics()).value("sink_backlog_records", sink="hook")

        receiver.answer = lambda posted: ACCEPTED
        await beside.until_delivered(timeout=300)

    print(f"Kafka got {_listed(rates['alone'])} changes a second alone")
    print(f"Kafka got {_listed(rates['beside'])} beside a sink that was {behind:.0f} behind at last")
    print(f"memory after each phase, MiB: {_listed(each / MEBIBYTE for each in memory)}")
    alone_rate, beside_rate = (median(each[length.warm_up :]) for each in rates.values())
    assert behind > length.changes * length.phases / 2, "the slow sink was slow"
    assert beside_rate > alone_rate * (1 - length.slower_by)
    assert max(memory[length.warm_up :]) - memory[length.warm_up - 1] < 8 * MEBIBYTE
    for who, stream in {
        "log": from_kafka(await asyncio.to_thread(kafka.read_all, topics["beside"])),
        "hook": from_events(receiver.events),
    }.items():
        assert_each_once(received_lists(stream), made["beside"], who)
        assert_in_order(received_lists(stream), who)


def _listed(numbers: Iterable[float]) -> str:
    return " ".join(f"{each:.0f}" for each in numbers)


def _after_a_second(posted: Posted) -> Answer:
    answered = asyncio.Event()
    asyncio.get_running_loop().call_later(1, answered.set)
    return Answer(wait=answered)


def _config(cluster: Playground, namespace: str, sinks: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cluster": {"name": "playground", "server": cluster.url},
        "resources": [{"resource": "configmaps", "namespaces": [namespace]}],
        "sinks": sinks,
    }


async def _seconds_to_kafka(bridge: BridgeProcess, records: int) -> float:
    clock = asyncio.get_running_loop().time
    began = clock()
    await bridge.until(
        "Kafka has everything", lambda now: now.value("sink_delivered_records_total", sink="log") == records
    )
    return clock() - began


def _changes(cluster: Playground, namespace: str) -> Iterator[Version]:
    """Create config maps, and then change them one after another for ever."""
    for number in range(OBJECTS):
        made = cluster.create("configmaps", config_map(f"c{number}", {"text": "x" * 1000}, namespace=namespace))
        yield _version(made, "added")
    for step in count():
        patch = {"metadata": {"labels": {"step": str(step)}}}
        yield _version(cluster.patch("configmaps", f"c{step % OBJECTS}", patch, namespace=namespace), "updated")


def _version(thing: dict[str, Any], op: str) -> Version:
    return Version(thing["metadata"]["uid"], thing["metadata"]["resourceVersion"], op)
