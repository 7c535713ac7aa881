"""The API server that the bridge watches through dies, and meanwhile the cluster changes through another one."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cluster.fixtures import StartKubeApiServer
from tests.cluster.kube_client import KubeClient, Manifest
from tests.kit.breakable import Breakable
from tests.kit.bridge_process import BridgeProcess
from tests.kit.etcd_history import JSON_STORAGE
from tests.kit.four_sinks import FourSinks
from tests.kit.received import (
    Received,
    Version,
    as_received,
    assert_each_once,
    assert_in_order,
    assert_same_state,
    from_file,
    received_lists,
    without_secrets,
)

NAMESPACE = "behind-the-dead"
OURS = {"story": NAMESPACE}
"""Labels of all objects."""
CONFIG_MAPS, SECRETS = f"/api/v1/namespaces/{NAMESPACE}/configmaps", f"/api/v1/namespaces/{NAMESPACE}/secrets"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"  # They have no namespace.
COLLECTIONS = {CONFIG_MAPS: "/api/v1/configmaps", SECRETS: "/api/v1/secrets", PRIORITIES: PRIORITIES}
KINDS = {CONFIG_MAPS: "ConfigMap", SECRETS: "Secret", PRIORITIES: "PriorityClass"}

SECRET_VALUE = "correct horse battery staple"
CHANGED = ("changed", "changed-twice", "deleted", "recreated", "recreated-twice")
KEPT = 20

State = Mapping[str, Manifest]
"""By subject."""


async def test_changes_behind_a_dead_api_server_come_when_it_is_back(
    breakable: Breakable, start_kube_apiserver: StartKubeApiServer, four_sinks: FourSinks, tmp_path: Path
) -> None:
    etcd, second = breakable.etcd, breakable.api
    # It cannot stream a first state, as servers before 1.32 could not.
    first = await asyncio.to_thread(start_kube_apiserver, etcd, JSON_STORAGE, "--feature-gates=WatchList=false")
    config = {
        "cluster": {"name": "testbed", "kubeconfig": str(first.kubeconfig(tmp_path / "kubeconfig"))},
        "resources": [
            {"resource": "configmaps", "namespaces": [NAMESPACE]},
            {"resource": "secrets", "namespaces": [NAMESPACE]},
            "priorityclasses.scheduling.k8s.io",
        ],
        "sinks": four_sinks.section,
    }
    async with KubeClient(second) as behind, KubeClient(first) as through, _clean(behind):
        for collection in COLLECTIONS:
            for name in (*CHANGED, *(f"kept-{n}" for n in range(KEPT))):
                await behind.create(collection, _object(collection, name))
        assert first.token() == second.token()
        assert first.ca_file.read_bytes() != second.ca_file.read_bytes()

        async with BridgeProcess(tmp_path / "bridge", config).started() as bridge:
            for collection in COLLECTIONS:
                await through.patch(f"{collection}/deleted", _label("touched", "before"))
            before = await _state(behind)
            await bridge.until("the state before is reported", lambda _: _is_received(before, four_sinks))
            await bridge.until_delivered()
            last_before = max(received.sequence for received in received_lists(from_file(four_sinks.file)))

            await asyncio.to_thread(first.kill9)
            await bridge.until("the outage is noticed", lambda metrics: metrics.value("resource_live") == 0)
            assert not await bridge.ready()
            for collection in COLLECTIONS:
                await _change(behind, collection)
            after = await _state(behind)
            await asyncio.to_thread(etcd.compact)
            await asyncio.to_thread(first.start)

            await bridge.until("every watch is live again", lambda metrics: metrics.value("ready") == 1)
            for collection in COLLECTIONS:  # Whatever a comparison found is reported before these.
                await behind.create(collection, _object(collection, "marker"))
            at_last = await _state(behind)
            await bridge.until("the markers are reported", lambda _: _is_received(at_last, four_sinks))
            metrics = await bridge.until_delivered()
            streams = await four_sinks.delivered()

    found, watched = _net_changes(before, after), _net_changes(after, at_last)
    assert Counter(version.op for version in found) == {
        "updated": 2 * len(COLLECTIONS), "deleted": 3 * len(COLLECTIONS), "added": 3 * len(COLLECTIONS)
    }  # fmt: skip
    for sink, stream in streams.items():
        fresh = [received for received in stream if received.sequence > last_before]
        assert_each_once([received for received in fresh if received.evidence == "relisted"], found, sink)
        assert_each_once([received for received in fresh if received.evidence != "relisted"], watched, sink)
        assert_in_order(stream, sink)
        _assert_deletes_carry_the_last_state(fresh, before, sink)
        assert not any(_reveals(received) for received in stream), f"{sink} was reported the content of a Secret"
    assert metrics.value("reflector_relists_total") == len(COLLECTIONS)
    assert SECRET_VALUE not in bridge.log.read_text()
    _print_counts(streams, before, after, last_before)


async def _change(kube: KubeClient, collection: str) -> None:
    """All that can become of an object while nobody looks."""
    await kube.patch(f"{collection}/changed", _label("turn", "1"))
    for turn in ("1", "2"):
        await kube.patch(f"{collection}/changed-twice", _label("turn", turn))
    await kube.delete(f"{collection}/deleted")
    for name, times in (("recreated", 1), ("recreated-twice", 2)):
        for _ in range(times):
            await kube.delete(f"{collection}/{name}")
            await kube.create(collection, _object(collection, name))
    await kube.create(collection, _object(collection, "created"))
    await kube.create(collection, _object(collection, "fleeting"))
    await kube.delete(f"{collection}/fleeting")


def _object(collection: str, name: str) -> Manifest:
    content: dict[str, Manifest] = {
        CONFIG_MAPS: {"data": {"text": "a b"}},
        SECRETS: {"stringData": {"password": SECRET_VALUE}},
        PRIORITIES: {"value": 7, "description": name},
    }
    return {"metadata": {"name": name, "labels": OURS}, **content[collection]}


@asynccontextmanager
async def _clean(kube: KubeClient) -> AsyncIterator[None]:
    """With the namespace, and afterwards without all that is made."""
    await kube.create_namespace(NAMESPACE)
    yield
    await kube.delete(PRIORITIES, labelSelector=",".join(f"{name}={value}" for name, value in OURS.items()))
    await kube.delete_namespace(NAMESPACE)


def _label(name: str, value: str) -> Manifest:
    return {"metadata": {"labels": {name: value}}}


async def _state(kube: KubeClient) -> State:
    objects: dict[str, Manifest] = {}
    for collection, path in COLLECTIONS.items():
        objects |= as_received(await kube.get(collection), path, KINDS[collection])
    return objects


def _version(thing: Manifest, op: str) -> Version:
    return Version(thing["metadata"]["uid"], thing["metadata"]["resourceVersion"], op)


def _is_received(state: State, sinks: FourSinks) -> bool:
    """Whether the file has the newest version of each of these objects."""
    received = {each.version[:2] for each in received_lists(from_file(sinks.file))}
    return all(_version(thing, "")[:2] in received for thing in state.values())


def _net_changes(before: State, after: State) -> list[Version]:
    """The changes that lead from one state to the other."""
    changes = []
    for subject in before.keys() | after.keys():
        old, new = before.get(subject), after.get(subject)
        if old and new and old["metadata"]["uid"] == new["metadata"]["uid"]:
            if old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"]:
                changes.append(_version(new, "updated"))
            continue
        if old:
            changes.append(_version(old, "deleted"))
        if new:
            changes.append(_version(new, "added"))
    return changes


def _assert_deletes_carry_the_last_state(fresh: Iterable[Received], before: State, sink: str) -> None:
    __tracebackhide__ = True
    deleted = {received.subject: received.data for received in fresh if received.op == "deleted"}
    want = {subject: before[subject] for subject in deleted}
    assert_same_state(
        {subject: without_secrets(thing) for subject, thing in deleted.items()},
        {subject: without_secrets(thing) for subject, thing in want.items()},
        sink,
    )


def _reveals(received: Received) -> bool:
    text = json.dumps(received.data)
    return SECRET_VALUE in text or base64.b64encode(SECRET_VALUE.encode()).decode() in text


def _print_counts(streams: Mapping[str, list[Received]], before: State, after: State, last_before: int) -> None:
    print(f"{len(before)} objects before the outage, {len(after)} after it")
    for sink, stream in streams.items():
        ops = Counter((received.op, received.evidence) for received in stream if received.sequence > last_before)
        print(f"{sink}: reported {len(stream)} deltas, since the outage {dict(ops)}")
