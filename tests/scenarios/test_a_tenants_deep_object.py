"""A tenant makes a custom resource nested as deep as the API server takes it, beside others. The others are exported as
if it were not there; of the deep one is reported that it is there."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.fixtures import StartKubeApiServer
from tests.cluster.kube_client import CustomResource, KubeClient
from tests.cluster.servers import Etcd
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY
from tests.kit.received import from_file, received_lists

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
GOOD = 30
DEEPEST = 10_000
"""kube-apiserver's own bound: Go's encoding/json goes no further."""


async def make_as_deep_as_it_goes(kube: KubeClient, widgets: CustomResource, namespace: str, name: str) -> int:
    """The depth of its spec."""
    for depth in range(DEEPEST, 0, -500):
        spec = '{"a":' * depth + "1" + "}" * depth
        body = json.dumps(widgets.manifest(name, spec="HERE")).replace('"HERE"', spec)
        answer = await kube.http.post(
            widgets.path(namespace), content=body, headers={"Content-Type": "application/json"}
        )
        if answer.is_success:
            return depth
    raise AssertionError("no depth was taken")


@pytest.mark.go
@pytest.mark.parametrize("initial", ["listed", "streamed"])
async def test_the_deep_object_is_exported_minimal_and_others_whole(
    initial: str, start_etcd: Callable[[], Etcd], start_kube_apiserver: StartKubeApiServer, tmp_path: Path
) -> None:
    gates = f"--feature-gates=WatchList={'false' if initial == 'listed' else 'true'}"
    api = await asyncio.to_thread(start_kube_apiserver, start_etcd(), gates)
    async with KubeClient(api) as kube:
        await kube.create_namespace("shop")
        widgets = await kube.create_crd("test.kubedelta.test", schema=ANYTHING)
        for number in range(GOOD):
            await kube.create(widgets.path("shop"), widgets.manifest(f"good-{number}", spec={"n": 0}))
        depth = await make_as_deep_as_it_goes(kube, widgets, "shop", "a-deep-one")
        deltas = tmp_path / "deltas.ndjson"
        bridge = BridgeProcess(
            tmp_path,
            {
                "cluster": {"name": "testbed", "kubeconfig": str(api.kubeconfig(tmp_path / "kubeconfig"))},
                "resources": [widgets.name],
                "sinks": {"copy": {"type": "file", "path": str(deltas)}},
            },
        )
        async with bridge.started():
            await until_received(deltas, GOOD + 1)
            lists = (await bridge.metrics()).value("reflector_lists_total")
            deeper = await make_as_deep_as_it_goes(kube, widgets, "shop", "another-deep-one")
            for number in range(GOOD):
                await kube.patch(f"{widgets.path('shop')}/good-{number}", {"spec": {"n": 1}})
            await kube.delete(f"{widgets.path('shop')}/a-deep-one")
            await kube.create(widgets.path("shop"), widgets.manifest("last"))
            await until_received(deltas, 2 * GOOD + 4)
            metrics = await bridge.metrics()
            log = bridge.log_tail(1000)

    received = received_lists(from_file(deltas))
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
    assert "a-deep-one: it is nested" in log
    assert metrics.value("reflector_bare_objects_total") == 3
    assert metrics.value("reflector_lists_total") == lists, "no list was needed"
    assert metrics.value("reflector_unreadable_total") == metrics.value("reflector_failures_total") == 0
    print(
        f"\nPython {sys.version.split()[0]}, {initial}: the API server took specs nested {depth} and {deeper} deep; "
        f"{len(received) - 3} deltas of {GOOD + 1} others, 3 bare ones of 2 deep ones, "
        f"{metrics.value('reflector_lists_total'):.0f} lists, 0 failures"
    )


async def until_received(deltas: Path, lines: int) -> None:
    async with asyncio.timeout(60 * BUSY):
        while await asyncio.to_thread(lines_of, deltas) < lines:  # noqa: ASYNC110 (a file announces nothing)
            await asyncio.sleep(0.05)


def lines_of(deltas: Path) -> int:
    return deltas.read_bytes().count(b"\n") if deltas.exists() else 0
