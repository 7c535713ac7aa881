"""Two sinks that never answer, beside two that do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count, islice
from pathlib import Path

import pytest

from bridge.playground import Playground
from bridge.playground.manifests import pod
from tests.cluster.kube_client import Manifest
from tests.kit.bridge_process import BridgeProcess
from tests.kit.received import (
    Version,
    assert_each_once,
    assert_in_order,
    assert_same_state,
    from_events,
    from_file,
    rebuilt,
    received_lists,
)
from tests.kit.webhook_receiver import Answer, WebhookReceiver
from tests.scenarios.stuck_sink import install

OBJECTS = 100
ROUND = 200
"""Changes between two looks."""
WARM_UP, ROUNDS, MANY_ROUNDS = 12, 30, 1500
MAY_GROW = 16 * 1024 * 1024
"""Bytes: the caches of the database fill up. Three times as much passes through after the warm-up: few changes of large
objects, because a test pays for changes and memory for bytes."""


@pytest.fixture
async def stuck_receiver() -> AsyncIterator[WebhookReceiver]:
    async with WebhookReceiver() as running:
        yield running


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(ROUNDS, id="a while"),
        pytest.param(MANY_ROUNDS, id="a long time", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
async def test_a_sink_that_never_answers_costs_the_others_nothing(
    receiver: WebhookReceiver, stuck_receiver: WebhookReceiver, tmp_path: Path, rounds: int
) -> None:
    let_loose = asyncio.Event()
    stuck_receiver.answer = lambda posted: Answer(wait=let_loose)
    file = tmp_path / "deltas.ndjson"
    config = {
        "cluster": {"name": "playground"},
        "resources": ["pods"],
        "sinks": {
            "silent": {"type": "webhook", "url": stuck_receiver.url, "timeout": 600, "window": 100},
            "plugin": {"type": "stuck", "window": 100},
            "hook": {"type": "webhook", "url": receiver.url, "batch": 100},
            "copy": {"type": "file", "path": str(file)},
        },
        "shutdown_grace_seconds": 1,  # The plugin uses up all of it.
    }
    async with Playground() as cluster:
        environ = {"KUBEDELTA__CLUSTER__SERVER": cluster.url, "PYTHONPATH": install(tmp_path / "site-packages")}
        async with BridgeProcess(tmp_path / "bridge", config, environ=environ).started() as bridge:
            changes = _changes(cluster)
            versions: list[Version] = []
            memory: list[int] = []
            for _ in range(rounds):
                versions.extend(islice(changes, ROUND))
                await bridge.until("all is read", lambda now: now.value("records_committed_total") == len(versions))
                metrics = await bridge.until_delivered("hook", "copy")
                memory.append(bridge.rss_bytes())
                assert await bridge.ready(), "a stuck sink is no reason to be not ready"
                assert metrics.value("sink_backlog_records", sink="silent") == len(versions)
                assert metrics.value("sink_backlog_records", sink="plugin") == len(versions)
                assert metrics.value("outbox_records") == len(versions), "kept on disk for those who wait"

            let_loose.set()
            await bridge.until_delivered("silent", timeout=60 + len(versions) / 1000)
        state = {
            f"/api/v1/namespaces/default/pods/{each['metadata']['name']}": _as_sent(each)
            for each in cluster.list("pods")
        }

    streams = {
        "hook": from_events(receiver.events),
        "copy": from_file(file),
        "silent": from_events(stuck_receiver.events),
    }
    for sink, stream in ((name, received_lists(events)) for name, events in streams.items()):
        assert_each_once(stream, versions, sink)
        assert_in_order(stream, sink)
        assert_same_state(rebuilt(stream), state, sink)
    growth = max(memory[WARM_UP:]) - memory[WARM_UP - 1]
    print(
        f"{len(versions)} changes reported to both live sinks, and to the stuck one when it was let loose; memory "
        f"{memory[WARM_UP - 1] >> 20} MiB after {WARM_UP * ROUND} changes, {memory[-1] >> 20} MiB at the end"
    )
    assert growth < MAY_GROW, " ".join(str(each >> 20) for each in memory)


def _changes(cluster: Playground) -> Iterator[Version]:
    """Make one change after another, for ever: each pod is created, changed now and then, deleted, created again."""
    there: set[str] = set()
    for turn in count():
        for number in range(OBJECTS):
            name = f"web-{number}"
            if name not in there:
                there.add(name)
                thing = cluster.create("pods", pod(name, size=16_000))
                yield Version(thing["metadata"]["uid"], thing["metadata"]["resourceVersion"], "added")
            elif (turn + number) % 20 == 0:
                there.remove(name)
                thing = cluster.delete("pods", name)
                yield Version(thing["metadata"]["uid"], cluster.version, "deleted")
            else:
                thing = cluster.patch("pods", name, {"metadata": {"labels": {"turn": str(turn)}}})
                yield Version(thing["metadata"]["uid"], thing["metadata"]["resourceVersion"], "updated")


def _as_sent(thing: Manifest) -> Manifest:
    return {**thing, "metadata": {name: value for name, value in thing["metadata"].items() if name != "managedFields"}}
