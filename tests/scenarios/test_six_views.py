"""Six sinks see six parts of the same changes. Another implementation of CEL says which objects each must have."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeAlias

import celpy
import pytest
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError

from tests.cluster.kube_client import KubeClient, Manifest
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, Churn, churning
from tests.kit.received import (
    Received,
    as_received,
    assert_in_order,
    assert_same_state,
    from_file,
    from_kafka,
    rebuilt,
    received_lists,
    without_secrets,
)
from tests.kit.scene import Scene
from tests.kit.webhook_receiver import Answer, WebhookReceiver

Select: TypeAlias = Sequence[Mapping[str, str]]

EVEN = "has(object.metadata.labels) && int(object.metadata.labels['step']) % 2 == 0"
VIEWS: Sequence[Select] = (
    [{"resource": "configmaps", "where": "object.metadata.name.endsWith('-0')"}, {"resource": "pods", "where": EVEN}],
    [{"resource": "secrets", "where": "object.metadata.name.matches('^w[0-2]-')"}, {"resource": "pods"}],
    [{"resource": "configmaps", "where": EVEN}, {"resource": "configmaps", "where": "cluster != 'testbed'"}],
    # Without labels it fails, and so selects.
    [{"resource": "pods", "where": "int(object.metadata.labels.step) % 3 != 0"}],
    [{"resource": "configmaps", "where": "object.metadata.labels.exists(label, label == 'step') ? true : false"}],
)
"""Of all sinks but ``copy``. Each begins with its own, and has the next later."""
COPY: Select = [{"resource": kind, "where": "!object.metadata.name.startsWith('w1-')"} for kind in KINDS]
SINKS = ("log", "table", "live", "hook", "view")
BETWEEN = 40
"""Changes of the cluster between two things that happen to the bridge."""


class Oracle:
    """Decides with cel-python what cel-cpp decides in the bridge."""

    def __init__(self, select: Select) -> None:
        environment = celpy.Environment()
        self._programs = [
            (each["resource"], environment.program(environment.compile(each.get("where", "true")))) for each in select
        ]

    def selects(self, resource: str, thing: Manifest) -> bool:
        names = {"object": json_to_cel(thing), "cluster": json_to_cel("testbed")}
        return any(kind == resource and self._is_true(program, names) for kind, program in self._programs)

    def _is_true(self, program: Any, names: Any) -> bool:
        try:
            return bool(program.evaluate(names))
        except CELEvalError:
            return True


def selections(turn: int) -> dict[str, Select]:
    return {sink: VIEWS[(number + turn) % len(VIEWS)] for number, sink in enumerate(SINKS)} | {"copy": COPY}


def sections(scene: Scene, turn: int) -> dict[str, Any]:
    """The hook's backlog is compacted early."""
    four = scene.sinks.section
    sinks = {
        **four,
        "table": {**four["log"], "topic": _table(scene)},
        "hook": {**four["hook"], "max_backlog": {"records": 20}, "timeout": "60s"},
        "view": {"type": "file", "path": str(scene.folder / "view.ndjson")},
    }
    return {"sinks": {name: {**sinks[name], "select": select} for name, select in selections(turn).items()}}


def _table(scene: Scene) -> str:
    return f"{scene.sinks.name}-table"


@pytest.fixture
async def six(scene: Scene) -> AsyncIterator[Scene]:
    await asyncio.to_thread(scene.servers.kafka.create_topic, _table(scene), 2)
    yield scene
    await asyncio.to_thread(scene.servers.kafka.delete_topic, _table(scene))


async def test_each_of_six_sinks_has_what_another_cel_selects(six: Scene, receiver: WebhookReceiver) -> None:
    bridge = six.bridge(**sections(six, turn=0))
    async with bridge.started():
        async with churning(six.servers.api, six.namespace, seed=6, pause=0.05, writers=4) as churn:
            await churn.until_made(BETWEEN)
            await _compacted(bridge, churn, receiver)
            await asyncio.to_thread(bridge.kill9)
            await churn.until_made(BETWEEN)
            await asyncio.to_thread(bridge.start)
            await churn.until_made(BETWEEN)

            bridge.reconfigure(**sections(six, turn=1))
            os.kill(bridge.pid, signal.SIGHUP)
            await bridge.until("the selections change", lambda now: bool(now.value("config_reloads_total")))
            snapshots = [await bridge.snapshot(sink) for sink in (*SINKS, "copy")]
            await churn.until_made(BETWEEN)

            await asyncio.to_thread(bridge.stop)
            bridge.reconfigure(**sections(six, turn=2))
            await asyncio.to_thread(bridge.start)
            snapshots += [await bridge.snapshot(sink) for sink in ("log", "hook")]
            await asyncio.to_thread(bridge.kill9)
            await asyncio.to_thread(bridge.start)
            await churn.until_made(BETWEEN)
        await six.until_received(bridge)
        await bridge.until("all snapshots are delivered", lambda now: now.value("sink_backfill_records") == 0)
        await bridge.until_delivered()
        objects = await _objects(six)
        streams = await _streams(six)

    for sink, select in selections(turn=2).items():
        oracle, stream = Oracle(select), streams[sink]
        wanted = {subject: thing for subject, (kind, thing) in objects.items() if oracle.selects(kind, thing)}
        held = {subject: without_secrets(thing) for subject, thing in rebuilt(stream).items()}
        assert_same_state(held, {name: without_secrets(each) for name, each in wanted.items()}, sink)
        assert_in_order(stream, sink)
        assert_same_state(_by_sequence(stream), held, f"a table of {sink}")
        _assert_ids_are_unique(stream)
        print(f"{sink}: {len(wanted)} of {len(objects)} objects by {len(stream)} records")
        assert 0 < len(wanted) < len(objects)
    assert {"watched", "unselected"} <= {each.evidence for stream in streams.values() for each in stream}
    for each in snapshots:
        of_it = {found.id for found in streams[each.sink] if found.id.endswith(f"/snapshot/{each.number}")}
        compacted = each.sink == "hook"
        assert len(of_it) == each.objects or (compacted and len(of_it) < each.objects), each


async def _compacted(bridge: BridgeProcess, churn: Churn, receiver: WebhookReceiver) -> None:
    """Until the backlog of the hook, whose receiver does not answer, was compacted."""
    held = asyncio.Event()
    receiver.answer = lambda _: Answer(wait=held)
    while not (await bridge.metrics()).value("sink_compactions_total", sink="hook"):
        await churn.until_made(10)
    receiver.answer = lambda _: Answer()
    held.set()


async def _objects(scene: Scene) -> dict[str, tuple[str, Manifest]]:
    """Subject → resource and object, as objects leave the bridge."""
    kinds = {"configmaps": "ConfigMap", "secrets": "Secret", "pods": "Pod"}
    found = {}
    async with KubeClient(scene.servers.api) as kube:
        for resource, kind in kinds.items():
            listed = as_received(await kube.get(f"{scene.root}/{resource}"), f"/api/v1/{resource}", kind)
            found.update({subject: (resource, thing) for subject, thing in listed.items()})
    return found


async def _streams(scene: Scene) -> dict[str, list[Received]]:
    table = await asyncio.to_thread(scene.servers.kafka.read_all, _table(scene))
    return {
        **await scene.sinks.delivered(),
        "table": received_lists(from_kafka(table)),
        "view": received_lists(from_file(scene.folder / "view.ndjson")),
    }


def _assert_ids_are_unique(stream: Sequence[Received]) -> None:
    """Records may come again, with all that they had."""
    of_id: dict[tuple[int, str], tuple[int, str, str]] = {}
    for each in stream:
        content = each.sequence, each.op, each.resource_version
        assert of_id.setdefault(each.unique_id, content) == content, each


def _by_sequence(stream: Sequence[Received]) -> dict[str, Manifest]:
    """The objects in a table that keeps the row with the largest sequence number, whatever the order of arrival."""
    newest: dict[str, Received] = {}
    for each in reversed(stream):
        if each.subject not in newest or each.sequence > newest[each.subject].sequence:
            newest[each.subject] = each
    return {subject: without_secrets(each.data) for subject, each in newest.items() if each.op != "deleted"}
