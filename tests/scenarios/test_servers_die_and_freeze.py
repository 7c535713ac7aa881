"""Each server that the bridge depends on is killed, frozen, or away all along, in the middle of a stream of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from tests.kit.bridge_process import BridgeProcess, Metrics
from tests.kit.churn import churning
from tests.kit.judge import Verdict
from tests.kit.scene import Scene

BROKERS = {"kafka": "log", "nats": "live"}
"""With the sink that each is for."""

seconds_frozen = pytest.mark.parametrize(
    "frozen",
    [
        pytest.param(3, id="3 seconds"),
        pytest.param(30, id="30 seconds", marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
)


@seconds_frozen
async def test_brokers_that_die_and_freeze_get_everything_in_order(scene: Scene, frozen: float) -> None:
    brokers = [scene.servers.servers[name] for name in BROKERS]
    bridge = scene.bridge()
    async with bridge.started():
        async with churning(scene.servers.api, scene.namespace, pause=0.3):
            for broker in brokers:
                await asyncio.to_thread(broker.kill9)
            await _until_the_others_have_more(bridge, *BROKERS.values())
            assert await bridge.ready(), "a broker that is down is no reason to be not ready"
            for broker in brokers:
                await asyncio.to_thread(broker.start)
            await _until_received_more(bridge, *BROKERS.values())
            for broker in brokers:
                broker.pause()
            await asyncio.sleep(frozen)
            await _until_the_others_have_more(bridge, *BROKERS.values())
            for broker in brokers:
                broker.resume()
            await _until_received_more(bridge, *BROKERS.values())
        await scene.until_received(bridge)
        metrics = await bridge.metrics()

    assert metrics.value("reflector_relists_total") == 0
    _assert_everything_was_watched(await scene.judged())


@seconds_frozen
async def test_a_cluster_that_dies_and_freezes_loses_no_change(scene: Scene, frozen: float) -> None:
    api, etcd = scene.servers.api, scene.servers.etcd
    bridge = scene.bridge(watch={"silence_seconds": 2})
    async with bridge.started():
        async with churning(api, scene.namespace) as churn:
            await churn.until_made(30)
            await asyncio.to_thread(api.kill9)
            await bridge.until("the outage is noticed", _is_blind)
            await asyncio.to_thread(api.start)
            await bridge.until("every watch is live again", _is_ready)
            await churn.until_made(30)
            await asyncio.to_thread(etcd.kill9)
            await asyncio.to_thread(etcd.start)
            await churn.until_made(30)
            for server in (api, etcd):
                server.pause()
                await asyncio.sleep(frozen)
                server.resume()
                await churn.until_made(30)
                await bridge.until("every watch is live again", _is_ready)
        await scene.until_received(bridge)

    await scene.judged()  # A killed API server has forgotten the steps in between; what was skipped must be said.


async def test_a_broker_away_all_along_gets_everything_in_the_end(scene: Scene) -> None:
    bridge = scene.bridge()
    await asyncio.to_thread(scene.servers.kafka.kill9)
    async with bridge.started():
        async with churning(scene.servers.api, scene.namespace) as churn:
            await churn.until_made(60)
            await asyncio.to_thread(bridge.kill9)
            await asyncio.to_thread(bridge.start)
            await churn.until_made(60)
        await scene.until_received(bridge, *{*scene.sinks.section} - {"log"})
        assert (await bridge.metrics()).value("sink_backlog_records", sink="log") > 120
        await asyncio.to_thread(scene.servers.kafka.start)
        await bridge.until_delivered()

    verdicts = await scene.judged()
    assert verdicts["log"].duplicates == 0
    _assert_everything_was_watched(verdicts)


def _assert_everything_was_watched(verdicts: dict[str, Verdict]) -> None:
    for verdict in verdicts.values():
        assert verdict.relisted == verdict.skipped == 0, "the position held"


def _is_blind(now: Metrics) -> bool:
    return now.value("resource_live") == 0


def _is_ready(now: Metrics) -> bool:
    return now.value("ready") == 1


async def _until_the_others_have_more(bridge: BridgeProcess, *away: str) -> None:
    """They go on, while what these cannot take waits for them."""
    sinks = [labels["sink"] for labels, _ in (await bridge.metrics()).samples["kubedelta_sink_backlog_records"]]
    await _until_received_more(bridge, *(sink for sink in sinks if sink not in away))
    metrics = await bridge.metrics()
    assert all(metrics.value("sink_backlog_records", sink=sink) > 0 for sink in away)


async def _until_received_more(bridge: BridgeProcess, *sinks: str, more: int = 30) -> None:
    before = await bridge.metrics()

    def have_more(now: Metrics) -> bool:
        return all(_delivered(now, sink) >= _delivered(before, sink) + more for sink in sinks)

    await bridge.until(f"{_names(sinks)} got {more} more", have_more)


def _delivered(now: Metrics, sink: str) -> float:
    return now.value("sink_delivered_records_total", sink=sink)


def _names(sinks: Iterable[str]) -> str:
    return ", ".join(sorted(sinks))
