"""A sink that takes one delivery a second, beside Kafka at full load."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from bridge.playground import Playground
from bridge.playground.manifests import pod
from tests.cluster.fixtures import MakeTopic
from tests.cluster.servers import Kafka
from tests.kit.bridge_process import BridgeProcess
from tests.kit.told import Version, assert_each_once, assert_in_order, from_events, from_kafka, tolds
from tests.kit.webhook_receiver import ACCEPTED, Answer, Posted, WebhookReceiver

OBJECTS = 100
WARM_UP = 2
"""Phases of each bridge that do not count: seconds in which caches fill and files grow to their size."""


@pytest.mark.parametrize(
    ("phases", "changes", "slower_by", "may_grow"),
    [
        pytest.param(6, 2_000, 0.3, 16, id="some seconds"),
        pytest.param(12, 15_000, 0.05, 16, id="a minute", marks=[pytest.mark.soak, pytest.mark.timeout(1200)]),
    ],
)
async def test_kafka_is_as_fast_beside_a_slow_sink_as_alone(
    kafka: Kafka,
    kafka_topic: MakeTopic,
    receiver: WebhookReceiver,
    tmp_path: Path,
    phases: int,
    changes: int,
    slower_by: float,
    may_grow: int,
) -> None:
    """Two bridges take turns, each with a namespace of its own. ``slower_by`` is a share; ``may_grow`` is in MiB."""
    receiver.answer = _after_a_second
    hook = {"type": "webhook", "url": receiver.url, "batch": 200, "concurrency": 1}
    topics = {name: kafka_topic(3) for name in ("alone", "beside")}
    log = {name: _kafka(kafka, topic) for name, topic in topics.items()}
    async with Playground() as cluster, AsyncExitStack() as stack:
        load = {name: _changes(cluster, name) for name in topics}
        made: dict[str, list[Version]] = {name: [] for name in topics}
        alone = BridgeProcess(tmp_path / "alone", _config(cluster, "alone", {"log": log["alone"]}))
        beside = BridgeProcess(tmp_path / "beside", _config(cluster, "beside", {"log": log["beside"], "hook": hook}))
        bridges = {"alone": alone, "beside": beside}
        for bridge in bridges.values():
            await stack.enter_async_context(bridge.started())

        rates: dict[str, list[float]] = {name: [] for name in topics}
        memory: list[int] = []
        for _ in range(WARM_UP + phases):
            for name, bridge in bridges.items():
                seconds = await _told_to_kafka(bridge, load[name], made[name], changes)
                rates[name].append(changes / seconds)
            memory.append(beside.rss_bytes() >> 20)
        behind = (await beside.metrics()).value("sink_lag_records", sink="hook")

        receiver.answer = lambda posted: ACCEPTED
        await beside.until_delivered(timeout=300)

    fast, slow = (median(rates[name][WARM_UP:]) for name in bridges)
    print(f"Kafka got {fast:.0f} changes a second alone, {slow:.0f} beside a sink that was {behind:.0f} behind at last")
    print(f"memory after each phase, MiB: {memory}")
    assert behind > changes * phases / 2, "the slow sink was slow"
    assert slow > fast * (1 - slower_by)
    assert max(memory[WARM_UP:]) - memory[WARM_UP - 1] <= may_grow
    for who, stream in {
        "log": from_kafka(await asyncio.to_thread(kafka.read_all, topics["beside"])),
        "hook": from_events(receiver.events),
    }.items():
        assert_each_once(tolds(stream), made["beside"], who)
        assert_in_order(tolds(stream), who)


def _after_a_second(posted: Posted) -> Answer:
    answered = asyncio.Event()
    asyncio.get_running_loop().call_later(1, answered.set)
    return Answer(wait=answered)


def _config(cluster: Playground, namespace: str, sinks: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cluster": {"name": "playground", "server": cluster.url},
        "resources": [{"resource": "pods", "namespaces": [namespace]}],
        "sinks": sinks,
    }


def _kafka(kafka: Kafka, topic: str) -> dict[str, Any]:
    return {"type": "kafka", "bootstrap_servers": kafka.bootstrap, "topic": topic}


async def _told_to_kafka(bridge: BridgeProcess, load: Iterator[Version], made: list[Version], changes: int) -> float:
    """Make so many changes, as fast as it goes, and return the seconds until Kafka has them all."""
    clock = asyncio.get_running_loop().time
    began = clock()
    for _ in range(changes // 50):
        made.extend(islice(load, 50))
        await asyncio.sleep(0)
    await bridge.until(
        "Kafka has everything", lambda now: now.value("sink_delivered_records_total", sink="log") == len(made)
    )
    return clock() - began


def _changes(cluster: Playground, namespace: str) -> Iterator[Version]:
    """Create pods, and then change them one after another for ever."""
    for number in range(OBJECTS):
        manifest = pod(f"web-{number}", size=2000)
        manifest["metadata"]["namespace"] = namespace
        yield _version(cluster.create("pods", manifest), "added")
    for step in count():
        patch = {"metadata": {"labels": {"step": str(step)}}}
        yield _version(cluster.patch("pods", f"web-{step % OBJECTS}", patch, namespace=namespace), "updated")


def _version(thing: dict[str, Any], op: str) -> Version:
    return Version(thing["metadata"]["uid"], thing["metadata"]["resourceVersion"], op)
