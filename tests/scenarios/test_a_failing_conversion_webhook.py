"""A definition whose conversion webhook is down cannot be listed; its only object alone could prove the history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridge.model.resource import Resource
from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import KubeClient, manifest_of
from tests.kit.breakable import Breakable
from tests.kit.bridge_process import BridgeProcess
from tests.kit.received import from_file, received_lists

NOBODY_LISTENS = {"url": "https://127.0.0.1:1/convert"}
LONGEST = 60.0
"""Seconds from the API server's readiness to its first change in a sink, on the slowest machine."""


async def test_an_empty_namespace_is_watched_beside_it(breakable: Breakable, tmp_path: Path) -> None:
    api, namespace, group = breakable.api, fresh_name("empty"), f"{fresh_name('shop')}.kubedelta.test"
    file, config_maps = tmp_path / "deltas.ndjson", f"/api/v1/namespaces/{namespace}/configmaps"
    config = {
        "cluster": {"name": "testbed", "kubeconfig": str(api.kubeconfig(tmp_path / "kubeconfig"))},
        "watch": {"discovery_seconds": 0.5},
        "resources": [{"resource": f"widgets.{group}"}, {"resource": "configmaps", "namespaces": [namespace]}],
        "sinks": {"copy": {"type": "file", "path": str(file)}},
    }
    async with KubeClient(api) as kube, _widgets(kube, namespace, group) as widgets:
        await kube.create(widgets.path(namespace), manifest_of(widgets, "widget"))
        async with BridgeProcess(tmp_path / "bridge", config).started() as bridge:
            await bridge.until("the widget is reported", lambda _: _has(file, "widget"))
            await _serve(
                kube,
                widgets,
                {
                    "strategy": "Webhook",
                    "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": NOBODY_LISTENS},
                },
            )

            await asyncio.to_thread(api.kill9)
            await bridge.until("the outage is noticed", lambda now: now.value("resource_live") == 0)
            await asyncio.to_thread(api.start)
            await kube.create(config_maps, {"metadata": {"name": "after"}})
            await bridge.until("the object after is reported", lambda _: _has(file, "after"), timeout=LONGEST)
            await bridge.until_stands(widgets.name, "conversion webhook")

            await _serve(kube, widgets, {"strategy": "None"})
            await bridge.until("widgets are live", lambda now: now.value("resource_live") == 2, timeout=LONGEST)
    stream = received_lists(from_file(file))
    assert [(each.op, each.subject.rpartition("/")[2]) for each in stream] == [("added", "widget"), ("added", "after")]


@asynccontextmanager
async def _widgets(kube: KubeClient, namespace: str, group: str) -> AsyncIterator[Resource]:
    await kube.create_namespace(namespace)
    widgets = await kube.create_crd(group)
    yield widgets
    await _serve(kube, widgets, {"strategy": "None"})
    await kube.delete_crd(widgets)
    await kube.delete_namespace(namespace)


async def _serve(kube: KubeClient, widgets: Resource, conversion: dict[str, Any]) -> None:
    """Serves v2 alone, into which the objects that are stored as v1 are converted."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": "v1", "served": False, "storage": False, "schema": schema},
        {"name": "v2", "served": True, "storage": True, "schema": schema},
    ]
    definition = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{widgets.name}"
    await kube.patch(definition, {"spec": {"versions": versions, "conversion": {"webhook": None, **conversion}}})


def _has(file: Path, name: str) -> bool:
    return any(received.subject.endswith(f"/{name}") for received in received_lists(from_file(file)))
