"""A Deployment lives its life beside a busy custom resource, and four destinations have it afterwards."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.model.resource import Resource
from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import KubeClient, KubeError, Manifest, manifest_of
from tests.cluster.servers import ControllerManager
from tests.kit.bridge_process import BridgeProcess
from tests.kit.four_sinks import FourSinks
from tests.kit.independent_watch import IndependentWatch
from tests.kit.received import (
    Received,
    as_received,
    assert_each_once,
    assert_in_order,
    assert_same_state,
    from_file,
    rebuilt,
    received_lists,
)
from tests.kit.records import DEPLOYMENTS, PODS

REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True)
BUILT_IN = (PODS, REPLICA_SETS, DEPLOYMENTS)
Lists = Mapping[Resource, Manifest]


@dataclass(frozen=True, slots=True)
class Size:
    replicas: int
    """Of the deployment at most; later a fifth of them."""
    changes: int
    """Of both orders together."""

    @property
    def few(self) -> int:
        return self.replicas // 5


@pytest.mark.parametrize(
    "size",
    [pytest.param(Size(20, 150), id="small"), pytest.param(Size(100, 2000), id="large", marks=pytest.mark.soak)],
)
async def test_four_destinations_can_rebuild_the_life_of_a_deployment(
    kube: KubeClient,
    controller_manager: ControllerManager,
    namespace: str,
    four_sinks: FourSinks,
    tmp_path: Path,
    size: Size,
) -> None:
    group = f"{fresh_name('shop')}.kubedelta.test"
    names = ["pods", "replicasets.apps", "deployments.apps", f"orders.{group}"]
    config = {
        "cluster": {"name": "testbed", "kubeconfig": str(kube.server.kubeconfig(tmp_path / "kubeconfig"))},
        "resources": [{"resource": name, "namespaces": [namespace]} for name in names],
        "sinks": four_sinks.section,
    }
    lists: list[Lists] = []
    bridge = BridgeProcess(tmp_path / "bridge", config, waits=False)

    async with bridge.started(), IndependentWatch(kube, namespace) as witness:
        for each in BUILT_IN:
            await witness.follow(each)
            await bridge.until_live(each.name)
        witness.spawn(_run_pods(kube, namespace))
        assert not await bridge.ready(), "orders are not there yet"

        orders = await kube.create_crd(group, "orders", "Order")
        try:
            await witness.follow(orders)
            async with asyncio.TaskGroup() as beside:
                beside.create_task(_change_orders(kube, bridge, orders, namespace, size.changes))
                async for _ in _life_of_a_deployment(kube, witness, size, namespace):
                    lists.append(await _lists(kube, namespace, BUILT_IN))
            await witness.until(orders, lambda found: _all_changed(found, size.changes))
            lists.append(await _lists(kube, namespace, [*BUILT_IN, orders]))
            await bridge.until("the file has everything", lambda _: _has_all(four_sinks, witness))
            await bridge.until_delivered()
            assert await bridge.ready()
            happened = witness.versions
            received = await four_sinks.delivered()
        finally:
            await kube.delete_crd(orders)

    lines = [json.loads(line) for line in bridge.log.read_text().splitlines()]
    assert len(lines) < 30, "nothing is logged for each event"
    for sink, stream in received.items():
        assert_each_once(stream, happened, sink)
        assert_in_order(stream, sink)
        for at_once in lists:
            _assert_rebuilt(stream, at_once, namespace, sink)
    _print_counts(received, lists)


async def _life_of_a_deployment(
    kube: KubeClient, witness: IndependentWatch, size: Size, namespace: str
) -> AsyncIterator[None]:
    """Created, scaled, rolled, deleted. Yields in the middle and at the end of each step."""
    web = DEPLOYMENTS.path(namespace, "web")

    await kube.create(DEPLOYMENTS.path(namespace), _deployment(size.replicas, image="web:1"))
    yield
    await witness.until(DEPLOYMENTS, lambda found: _has_settled(found, size.replicas))
    yield
    await kube.patch(web, {"spec": {"replicas": size.few}})
    yield
    await witness.until(DEPLOYMENTS, lambda found: _has_settled(found, size.few))
    await witness.until(PODS, lambda found: len(found) == size.few)
    yield
    await kube.patch(web, {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}})
    yield
    await witness.until(DEPLOYMENTS, lambda found: _has_settled(found, size.few))
    await witness.until(PODS, lambda found: len(found) == size.few and all(_image(pod) == "web:2" for pod in found))
    yield
    await kube.delete(web, propagationPolicy="Foreground")
    yield
    for each in BUILT_IN:
        await witness.until(each, lambda found: not found)
    yield


def _deployment(replicas: int, image: str) -> Manifest:
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
    # As kubectl apply leaves it: a copy of the whole inside itself, which must not reach a sink.
    applied = {"kubectl.kubernetes.io/last-applied-configuration": '{"spec":"whole"}', "team": "shop"}
    return {"metadata": {"name": "web", "annotations": applied}, "spec": spec}


def _has_settled(deployments: list[Manifest], replicas: int) -> bool:
    [web] = deployments
    status = web["status"]
    counted = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
    return status.get("observedGeneration") == web["metadata"]["generation"] and counted == [replicas] * 4


def _image(pod: Manifest) -> str:
    image: str = pod["spec"]["containers"][0]["image"]
    return image


async def _change_orders(
    kube: KubeClient, bridge: BridgeProcess, orders: Resource, namespace: str, changes: int
) -> None:
    """Once the bridge has noticed the new resource: two objects, changed so often together."""
    await bridge.until_live(orders.name)
    for name in ("first", "second"):
        await kube.create(orders.path(namespace), manifest_of(orders, name, spec={"step": 0}))
    for step in range(1, changes // 2 + 1):
        for name in ("first", "second"):
            changed = {"spec": {"step": step, "note": "a b\u2028c\u0085d"}}
            await kube.patch(orders.path(namespace, name), changed)


def _all_changed(orders: list[Manifest], changes: int) -> bool:
    return [order["spec"]["step"] for order in orders] == [changes // 2] * 2


async def _run_pods(kube: KubeClient, namespace: str) -> None:
    """Be the kubelet: report every pod of the namespace as running and ready as soon as it is there. Does not end."""
    now = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    running = {"status": {"phase": "Running", "startTime": now, "conditions": [ready]}}
    while True:
        async with aclosing(kube.watch(PODS.path(namespace))) as events:
            async for event in events:
                if event["type"] == "ADDED":
                    try:
                        await kube.patch(f"{PODS.path(namespace, event['object']['metadata']['name'])}/status", running)
                    except KubeError as error:
                        if error.code != 404:  # It was deleted meanwhile.
                            raise


async def _lists(kube: KubeClient, namespace: str, resources: Iterable[Resource]) -> Lists:
    return {each: await kube.get(each.path(namespace)) for each in resources}


def _has_all(sinks: FourSinks, witness: IndependentWatch) -> bool:
    return {received.version for received in received_lists(from_file(sinks.file))} >= set(witness.versions)


def _assert_rebuilt(stream: Iterable[Received], lists: Lists, namespace: str, sink: str) -> None:
    """At the version of each list the sink knew what the list says."""
    __tracebackhide__ = True
    for resource, listed in lists.items():
        version = int(listed["metadata"]["resourceVersion"])
        inside = f"{resource.path(namespace)}/"
        have = rebuilt((received for received in stream if received.subject.startswith(inside)), through=version)
        assert_same_state(have, as_received(listed, resource.path(), resource.kind), f"{sink} at {version}")


def _print_counts(received: Mapping[str, list[Received]], lists: list[Lists]) -> None:
    objects = sum(len(listed["items"]) for each in lists for listed in each.values())
    print(f"{len(lists)} states of the cluster, {objects} objects in them, rebuilt from each of {len(received)} sinks")
    for sink, stream in received.items():
        print(
            f"{sink}: {len(stream)} deltas of {len({each.uid for each in stream})} objects, "
            f"{dict(Counter(each.op for each in stream))}, {dict(Counter(each.evidence for each in stream))}"
        )
