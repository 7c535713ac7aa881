"""A Deployment lives its life beside a busy custom resource, and four destinations have it afterwards."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import KubeClient, Manifest
from tests.cluster.servers import ControllerManager
from tests.kit.bridge_process import BridgeProcess
from tests.kit.four_sinks import FourSinks
from tests.kit.independent_watch import Collection, IndependentWatch, run_pods
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

Lists = Mapping[Collection, Manifest]


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
    pods = Collection("pods", "/api/v1/pods", "Pod", namespace)
    replica_sets = Collection("replicasets.apps", "/apis/apps/v1/replicasets", "ReplicaSet", namespace)
    deployments = Collection("deployments.apps", "/apis/apps/v1/deployments", "Deployment", namespace)
    group = f"{fresh_name('shop')}.kubedelta.test"
    names = ["pods", "replicasets.apps", "deployments.apps", f"orders.{group}"]
    config = {
        "cluster": {"name": "testbed", "kubeconfig": str(kube.server.kubeconfig(tmp_path / "kubeconfig"))},
        "resources": [{"resource": name, "namespaces": [namespace]} for name in names],
        "sinks": four_sinks.section,
    }
    lists: list[Lists] = []
    bridge = BridgeProcess(tmp_path / "bridge", config, waits=False)

    async with bridge.started(), IndependentWatch(kube) as witness:
        for each in (pods, replica_sets, deployments):
            await witness.follow(each)
            await bridge.until_live(each.resource)
        witness.spawn(run_pods(kube, namespace))
        assert not await bridge.ready(), "orders are not there yet"

        definition = await kube.create_crd(group, "orders", "Order")
        try:
            orders = Collection.of(definition, namespace)
            await witness.follow(orders)
            async with asyncio.TaskGroup() as beside:
                beside.create_task(_change_orders(kube, bridge, orders, size.changes))
                async for _ in _life_of_a_deployment(kube, witness, size, deployments, replica_sets, pods):
                    lists.append(await _lists(kube, [deployments, replica_sets, pods]))
            await witness.until(orders, lambda found: _all_changed(found, size.changes))
            lists.append(await _lists(kube, [deployments, replica_sets, pods, orders]))
            await bridge.until("the file has everything", lambda _: _has_all(four_sinks, witness))
            await bridge.until_delivered()
            assert await bridge.ready()
            happened = witness.versions
            received = await four_sinks.delivered()
        finally:
            await kube.delete_crd(definition)

    lines = [json.loads(line) for line in bridge.log.read_text().splitlines()]
    assert len(lines) < 30, "nothing is logged for each event"
    for sink, stream in received.items():
        assert_each_once(stream, happened, sink)
        assert_in_order(stream, sink)
        for at_once in lists:
            _assert_rebuilt(stream, at_once, sink)
    _print_counts(received, lists)


async def _life_of_a_deployment(
    kube: KubeClient,
    witness: IndependentWatch,
    size: Size,
    deployments: Collection,
    replica_sets: Collection,
    pods: Collection,
) -> AsyncIterator[None]:
    """Created, scaled, rolled, deleted. Yields in the middle and at the end of each step."""
    web = f"{deployments.inside}/web"

    await kube.create(deployments.inside, _deployment(size.replicas, image="web:1"))
    yield
    await witness.until(deployments, lambda found: _has_settled(found, size.replicas))
    yield
    await kube.patch(web, {"spec": {"replicas": size.few}})
    yield
    await witness.until(deployments, lambda found: _has_settled(found, size.few))
    await witness.until(pods, lambda found: len(found) == size.few)
    yield
    await kube.patch(web, {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}})
    yield
    await witness.until(deployments, lambda found: _has_settled(found, size.few))
    await witness.until(pods, lambda found: len(found) == size.few and all(_image(pod) == "web:2" for pod in found))
    yield
    await kube.delete(web, propagationPolicy="Foreground")
    yield
    for each in (deployments, replica_sets, pods):
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


async def _change_orders(kube: KubeClient, bridge: BridgeProcess, orders: Collection, changes: int) -> None:
    """Once the bridge has noticed the new resource: two objects, changed so often together."""
    await bridge.until_live(orders.resource)
    for name in ("first", "second"):
        body = {"apiVersion": orders.api_version, "kind": orders.kind, "metadata": {"name": name}, "spec": {"step": 0}}
        await kube.create(orders.inside, body)
    for step in range(1, changes // 2 + 1):
        for name in ("first", "second"):
            await kube.patch(f"{orders.inside}/{name}", {"spec": {"step": step, "note": "a b\u2028c\u0085d"}})


def _all_changed(orders: list[Manifest], changes: int) -> bool:
    return [order["spec"]["step"] for order in orders] == [changes // 2] * 2


async def _lists(kube: KubeClient, collections: Iterable[Collection]) -> Lists:
    return {each: await kube.get(each.inside) for each in collections}


def _has_all(sinks: FourSinks, witness: IndependentWatch) -> bool:
    return {received.version for received in received_lists(from_file(sinks.file))} >= set(witness.versions)


def _assert_rebuilt(stream: Iterable[Received], lists: Lists, sink: str) -> None:
    """At the version of each list the sink knew what the list says."""
    __tracebackhide__ = True
    for collection, listed in lists.items():
        version = int(listed["metadata"]["resourceVersion"])
        of_collection = [received for received in stream if received.subject.startswith(f"{collection.inside}/")]
        have = rebuilt(of_collection, through=version)
        assert_same_state(have, as_received(listed, collection.path, collection.kind), f"{sink} at {version}")


def _print_counts(received: Mapping[str, list[Received]], lists: list[Lists]) -> None:
    objects = sum(len(listed["items"]) for each in lists for listed in each.values())
    print(f"{len(lists)} states of the cluster, {objects} objects in them, rebuilt from each of {len(received)} sinks")
    for sink, stream in received.items():
        print(
            f"{sink}: {len(stream)} deltas of {len({each.uid for each in stream})} objects, "
            f"{dict(Counter(each.op for each in stream))}, {dict(Counter(each.evidence for each in stream))}"
        )
