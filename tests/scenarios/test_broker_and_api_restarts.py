"""Servers die, freeze and come back in the middle of a stream of changes; at last the bridge itself is told to end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from bridge.playground import Playground
from bridge.playground.manifests import config_map
from tests.cluster.fixtures import StartKubeApiServer, StartNats
from tests.cluster.kube_client import KubeClient, KubeError, Manifest
from tests.cluster.servers import Etcd, Kafka, KubeApiServer
from tests.kit.bridge_process import BridgeProcess, Metrics
from tests.kit.four_sinks import FourSinks
from tests.kit.told import (
    Told,
    Version,
    as_told,
    assert_in_order,
    assert_same_state,
    from_file,
    rebuilt,
    repeats,
    tolds,
    without_repeats,
)
from tests.kit.webhook_receiver import WebhookReceiver

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
OBJECTS = 20


async def test_servers_that_are_killed_in_the_middle_lose_nothing(
    start_etcd: Callable[[], Etcd],
    start_kube_apiserver: StartKubeApiServer,
    start_kafka: Callable[[Mapping[str, str]], Kafka],
    start_nats: StartNats,
    receiver: WebhookReceiver,
    tmp_path: Path,
) -> None:
    kafka, api = await asyncio.gather(
        asyncio.to_thread(start_kafka, {}), asyncio.to_thread(lambda: start_kube_apiserver(start_etcd()))
    )
    nats_server = await asyncio.to_thread(start_nats)
    sinks = FourSinks(kafka, nats_server, receiver, tmp_path / "deltas.ndjson", "deltas")
    await sinks.prepare()

    async with BridgeProcess(tmp_path / "bridge", _config(api, tmp_path, sinks.section)).started() as bridge:
        async with _changing(api) as writer:
            await _until_told(bridge, "copy", 150)
            for sink, server in (("log", kafka), ("live", nats_server)):
                others = {"log", "live", "hook", "copy"} - {sink}
                await asyncio.to_thread(server.kill9)
                for other in others:
                    await _until_told(bridge, other, 150)
                assert (await bridge.metrics()).value("sink_lag_records", sink=sink) > 0
                assert await bridge.ready(), "a broker that is down is no reason to be not ready"
                await asyncio.to_thread(server.start)
                await _until_told(bridge, sink, 150)
            await asyncio.to_thread(api.kill9)
            await bridge.until("the outage is noticed", lambda now: now.value("resource_live") == 0)
            await asyncio.to_thread(api.start)
            await bridge.until_live("configmaps")
            await _until_told(bridge, "copy", 150)
        async with KubeClient(api) as kube:
            last = await kube.create(CONFIG_MAPS, {"metadata": {"name": "last"}})
            listed = await kube.get(CONFIG_MAPS)
        await bridge.until("the last change is told", lambda _: _has(sinks.file, last))
        await bridge.until_delivered()
        streams = await sinks.told()

    state = as_told(listed, "/api/v1/configmaps", "ConfigMap")
    skipped = _skipped(streams["copy"], writer.confirmed)
    for sink, stream in streams.items():
        assert_in_order(stream, sink)
        assert_same_state(rebuilt(without_repeats(stream)), state, sink)
        assert sorted(without_repeats(stream), key=_sequence) == streams["copy"], f"{sink} was told something else"
        print(f"{sink}: {len(stream)} deltas, {repeats(stream)} of them again, {dict(_evidence(stream))}")
    print(f"{len(writer.confirmed)} changes made, {writer.unsure} more perhaps; steps said to be skipped: {skipped}")


async def test_a_frozen_api_server_is_noticed_and_followed_on_without_a_list(
    start_etcd: Callable[[], Etcd], start_kube_apiserver: StartKubeApiServer, tmp_path: Path
) -> None:
    api = await asyncio.to_thread(lambda: start_kube_apiserver(start_etcd()))
    file = tmp_path / "deltas.ndjson"
    config = {
        **_config(api, tmp_path, {"copy": {"type": "file", "path": str(file)}}),
        "watch": {"silence_seconds": 2},
    }
    async with BridgeProcess(tmp_path / "bridge", config).started() as bridge:
        async with _changing(api) as writer:
            await _until_told(bridge, "copy", 100)
            before = await bridge.metrics()
            api.pause()
            frozen = asyncio.get_running_loop().time()
            await bridge.until("the silence is noticed", lambda now: now.value("resource_live") == 0, timeout=20)
            noticed = asyncio.get_running_loop().time() - frozen
            api.resume()
            await bridge.until_live("configmaps")
            await _until_told(bridge, "copy", 100)
        async with KubeClient(api) as kube:
            last = await kube.create(CONFIG_MAPS, {"metadata": {"name": "last"}})
        await bridge.until("the last change is told", lambda _: _has(file, last))
        after = await bridge.metrics()

    stream = tolds(from_file(file))
    assert before.value("reflector_watches_total") == 1
    assert 1.9 < noticed < 6
    assert after.value("reflector_lists_total") == 1, "the version still held: there was nothing to list"
    assert "relisted" not in _evidence(stream)
    assert not _skipped(stream, writer.confirmed)
    assert_in_order(stream, "copy")
    assert repeats(stream) == 0
    print(f"noticed after {noticed:.1f} s; {len(stream)} deltas, {writer.unsure} of the changes without an answer")


async def test_sigterm_in_the_middle_of_load_delivers_everything_that_was_read(
    four_sinks: FourSinks, tmp_path: Path
) -> None:
    async with Playground() as cluster:
        config = {
            "cluster": {"name": "playground", "server": cluster.url},
            "resources": ["configmaps"],
            "sinks": four_sinks.section,
            "shutdown_grace_seconds": 60,
        }
        bridge = BridgeProcess(tmp_path / "bridge", config)
        bridge.stop_timeout = 70
        async with bridge.started(), _in_background(_change_quickly(cluster)):
            await bridge.until("load is under way", lambda now: now.value("records_committed_total") > 2000)
            behind = (await bridge.metrics()).value("sink_lag_records")
            ending = asyncio.get_running_loop().time()
            await asyncio.to_thread(bridge.stop)
            seconds = asyncio.get_running_loop().time() - ending
        streams = await four_sinks.told()

    read = len(streams["copy"])
    for sink, stream in streams.items():
        assert sorted(told.sequence for told in stream) == list(range(1, read + 1)), sink
        assert_in_order(stream, sink)
    assert read > 2000
    assert behind > 0, "there was something left to deliver"
    print(f"ended with 0 after {seconds:.1f} s; each of {len(streams)} sinks has all of {read} deltas")


class Writer:
    """Changes config maps one after another, and waits out an API server that is down."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self.confirmed: list[Version] = []
        """What the API server said it has stored."""
        self.unsure = 0
        """Changes that got no answer: made or not, nobody knows."""

    async def run(self) -> None:
        """Until cancelled."""
        for number in range(OBJECTS):
            await self._try("added", self._kube.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}))
        for step in count():
            path, change = f"{CONFIG_MAPS}/c{step % OBJECTS}", {"data": {"step": str(step)}}
            await self._try("updated", self._kube.patch(path, change))

    async def _try(self, op: str, asked: Coroutine[Any, Any, Manifest]) -> None:
        try:
            metadata = (await asked)["metadata"]
        except httpx.ConnectError:
            await asyncio.sleep(0.1)  # Nobody is there: not made.
        except (httpx.TransportError, KubeError):
            self.unsure += 1
            await asyncio.sleep(0.1)
        else:
            self.confirmed.append(Version(metadata["uid"], metadata["resourceVersion"], op))


@asynccontextmanager
async def _changing(api: KubeApiServer) -> AsyncIterator[Writer]:
    async with KubeClient(api) as kube:
        writer = Writer(kube)
        async with _in_background(writer.run()):
            yield writer


async def _change_quickly(cluster: Playground) -> None:
    for name in (f"c{number}" for number in range(OBJECTS)):
        cluster.create("configmaps", config_map(name))
    for step in count():
        cluster.patch("configmaps", f"c{step % OBJECTS}", {"data": {"step": str(step)}})
        if step % 10 == 0:
            await asyncio.sleep(0)


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        yield
        task.cancel()


def _config(api: KubeApiServer, folder: Path, sinks: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cluster": {"name": "testbed", "kubeconfig": str(api.kubeconfig(folder / "kubeconfig"))},
        "resources": [{"resource": "configmaps", "namespaces": ["default"]}],
        "sinks": sinks,
    }


async def _until_told(bridge: BridgeProcess, sink: str, more: int) -> None:
    """Wait until the sink has got so many more deltas."""
    told = (await bridge.metrics()).value("sink_delivered_records_total", sink=sink)

    def has_got_more(now: Metrics) -> bool:
        return now.value("sink_delivered_records_total", sink=sink) >= told + more

    await bridge.until(f"{sink} has got {more} more", has_got_more)


def _has(file: Path, thing: Manifest) -> bool:
    return any(told.uid == thing["metadata"]["uid"] for told in tolds(from_file(file)))


def _skipped(stream: list[Told], confirmed: list[Version]) -> int:
    """How many of the confirmed versions were not told. Each of them must be followed by a delta of the same object
    that says so."""
    told = {each.version for each in stream}
    missing = [version for version in confirmed if version not in told]
    for version in missing:
        later = [each for each in stream if each.uid == version.uid and int(each.resource_version) > int(version[1])]
        assert later, f"{version} and all after it are missing"
        assert later[0].evidence == "relisted", f"{version} is missing, and {later[0]} does not say so"
    return len(missing)


def _evidence(stream: list[Told]) -> Counter[str]:
    return Counter(told.evidence for told in stream)


def _sequence(told: Told) -> int:
    return told.sequence
