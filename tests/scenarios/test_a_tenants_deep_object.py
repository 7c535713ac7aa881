"""A tenant makes a custom resource nested as deep as the API server takes it, beside others. The others are exported as
if it were not there; of the deep one is reported that it is there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bridge.model.resource import Resource
from tests.cluster.fixtures import DefineCustomResource
from tests.cluster.kube_client import KubeClient, manifest_of
from tests.kit.bridge_process import BridgeProcess
from tests.kit.received import Received, from_file, received_lists

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
GOOD = 30
DEEPEST = 10_000
"""kube-apiserver's own bound: Go's encoding/json goes no further."""


async def make_as_deep_as_it_goes(
    kube: KubeClient, widgets: Resource, namespace: str, name: str, most: int = DEEPEST
) -> int:
    """The depth of its spec. Each try costs the API server most of a second."""
    for depth in range(most, 0, -500):
        spec = '{"a":' * depth + "1" + "}" * depth
        body = json.dumps(manifest_of(widgets, name, spec="HERE")).replace('"HERE"', spec)
        answer = await kube.http.post(
            widgets.path(namespace), content=body, headers={"Content-Type": "application/json"}
        )
        if answer.is_success:
            return depth
    raise AssertionError("no depth was taken")


INITIALS = {"listed": "never", "streamed": "auto"}
"""How a bridge learns what is there when it starts → its ``watch.watch_list``."""


def a_bridge(kube: KubeClient, widgets: Resource, initial: str, folder: Path) -> BridgeProcess:
    folder.mkdir()
    return BridgeProcess(
        folder,
        {
            "cluster": {"name": "testbed", "kubeconfig": str(kube.server.kubeconfig(folder / "kubeconfig"))},
            "watch": {"watch_list": INITIALS[initial]},
            "resources": [widgets.name],
            "sinks": {"copy": {"type": "file", "path": str(deltas_of(folder))}},
        },
    )


def deltas_of(folder: Path) -> Path:
    return folder / "deltas.ndjson"


async def test_the_deep_object_is_exported_minimal_and_others_whole(
    kube: KubeClient, namespace: str, custom_resource: DefineCustomResource, tmp_path: Path
) -> None:
    widgets = await custom_resource(schema=ANYTHING)
    path = widgets.path(namespace)
    for number in range(GOOD):
        await kube.create(path, manifest_of(widgets, f"good-{number}", spec={"n": 0}))
    depth = await make_as_deep_as_it_goes(kube, widgets, namespace, "a-deep-one")
    bridges = {initial: a_bridge(kube, widgets, initial, tmp_path / initial) for initial in INITIALS}
    async with bridges["listed"].started(), bridges["streamed"].started():
        for bridge in bridges.values():
            await until_received(bridge, GOOD + 1)
        lists = {initial: await lists_of(bridge) for initial, bridge in bridges.items()}
        await make_as_deep_as_it_goes(kube, widgets, namespace, "another-deep-one", depth)
        for number in range(GOOD):
            await kube.patch(f"{path}/good-{number}", {"spec": {"n": 1}})
        await kube.delete(f"{path}/a-deep-one")
        await kube.create(path, manifest_of(widgets, "last"))
        for initial, bridge in bridges.items():
            await until_received(bridge, 2 * GOOD + 4)
            metrics = await bridge.metrics()
            assert metrics.value("reflector_bare_objects_total") == 3
            assert await lists_of(bridge) == lists[initial], "no list was needed"
            assert metrics.value("reflector_unreadable_total") == metrics.value("reflector_failures_total") == 0
            assert bridge.logged("a-deep-one: it is nested")

    assert lists == {"listed": 1, "streamed": 1}
    for initial, bridge in bridges.items():
        received = received_lists(from_file(deltas_of(bridge.folder)))
        assert_each_is_there(received)
        print(
            f"\nPython {sys.version.split()[0]}, {initial}: the API server took specs nested {depth} deep; "
            f"{len(received) - 3} deltas of {GOOD + 1} others, 3 bare ones of 2 deep ones, 0 failures"
        )


def assert_each_is_there(received: list[Received]) -> None:
    named = [f"{each.op} {each.subject.rpartition('/')[2]}" for each in received]
    first, then = named[: GOOD + 1], named[GOOD + 1 :]
    assert sorted(first) == sorted([*(f"added good-{number}" for number in range(GOOD)), "added a-deep-one"])
    assert then == [
        "added another-deep-one",
        *(f"updated good-{number}" for number in range(GOOD)),
        "deleted a-deep-one",
        "added last",
    ]
    bare = [each.data for each in received if "deep-one" in each.subject]
    assert all(set(each) == {"kind", "apiVersion", "metadata"} for each in bare), "nothing but which object it is"


async def lists_of(bridge: BridgeProcess) -> float:
    return (await bridge.metrics()).value("reflector_lists_total")


async def until_received(bridge: BridgeProcess, count: int) -> None:
    await bridge.until(f"{count} are reported", lambda _: len(from_file(deltas_of(bridge.folder))) >= count)
