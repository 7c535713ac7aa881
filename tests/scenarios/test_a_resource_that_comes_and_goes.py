"""A resource that is defined and removed while the bridge runs, and one that it may never see."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.model.resource import Resource
from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import KubeClient, manifest_of
from tests.cluster.roles import Roles, roles_of
from tests.kit.bridge_process import BridgeProcess
from tests.kit.received import assert_in_order, from_file, received_lists

WIDGETS = 30


@pytest.fixture
async def roles(kube: KubeClient) -> AsyncIterator[Roles]:
    async with roles_of(kube) as roles:
        yield roles


async def test_a_resource_comes_and_goes_while_another_is_forbidden(
    kube: KubeClient, namespace: str, roles: Roles, tmp_path: Path
) -> None:
    group = f"{fresh_name('shop')}.kubedelta.test"
    await roles.let(["get", "list", "watch"], {"": ["configmaps"], group: ["widgets"]}, namespace)
    await kube.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "hidden"}})
    widgets, file = f"widgets.{group}", tmp_path / "deltas.ndjson"
    config = {
        "cluster": {
            "name": "testbed",
            "kubeconfig": str(kube.server.kubeconfig(tmp_path / "kubeconfig", user="restricted")),
        },
        "watch": {"discovery_seconds": 0.5},
        "resources": [{"resource": name, "namespaces": [namespace]} for name in ("configmaps", "secrets", widgets)],
        "sinks": {"copy": {"type": "file", "path": str(file)}},
    }

    async with BridgeProcess(tmp_path / "bridge", config, waits=False).started() as bridge:
        standing = await bridge.until_stands("secrets", "refused")
        await bridge.until_live("configmaps")
        assert "[-] secrets" in standing["secrets"]
        assert "forbidden" in standing["secrets"]
        assert "[-]" in standing[widgets]
        await _flows(kube, bridge, file, namespace, "before-widgets")

        uids: set[str] = set()
        for _ in range(2):  # Whoever replaces a definition removes it and makes it again within a second.
            definition = await kube.create_crd(group)
            fresh = {await _create(kube, definition, namespace, f"early-{n}") for n in range(WIDGETS)}
            await _until_received(bridge, file, {(uid, "added") for uid in fresh}, timeout=25)
            await bridge.until_live(widgets)
            fresh |= {await _create(kube, definition, namespace, f"late-{n}") for n in range(WIDGETS)}
            await _until_received(bridge, file, {(uid, "added") for uid in fresh})
            await kube.delete_crd(definition)
            await _until_received(bridge, file, {(uid, "deleted") for uid in fresh})
            uids |= fresh
        await bridge.until_stands(widgets, "unknown")
        await _flows(kube, bridge, file, namespace, "after-widgets")

        assert not await bridge.ready()
        assert "secrets" in await bridge.readiness()
        assert len(bridge.logged("refused", '"secrets"')) == 1, "reported once, not at every attempt"
        assert (await bridge.metrics()).value("informer_objects", resource=widgets) == 0

    stream = received_lists(from_file(file))
    assert_in_order(stream, "copy")
    of_widgets = Counter(
        (received.uid, received.op) for received in stream if received.subject.startswith(f"/apis/{group}/")
    )
    assert of_widgets == dict.fromkeys([(uid, op) for uid in uids for op in ("added", "deleted")], 1)
    assert not [received for received in stream if "/secrets/" in received.subject]
    print(f"{len(uids)} widgets: {dict(Counter((each.op, each.evidence) for each in stream if each.uid in uids))}")


async def test_a_redefined_scope_is_followed_and_deletes_keep_the_old(
    kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    """While the bridge runs, and once more while it is killed."""
    group, file = f"{fresh_name('shop')}.kubedelta.test", tmp_path / "deltas.ndjson"
    config = {
        "cluster": {"name": "testbed", "kubeconfig": str(kube.server.kubeconfig(tmp_path / "kubeconfig"))},
        "watch": {"discovery_seconds": 0.5},
        "resources": [{"resource": f"widgets.{group}", "namespaces": [namespace]}],
        "sinks": {"copy": {"type": "file", "path": str(file)}},
    }
    names = {
        True: (f"/apis/{group}/v1/namespaces/{namespace}/widgets/w", f"testbed/{group}/widgets/{namespace}/w"),
        False: (f"/apis/{group}/v1/widgets/w", f"testbed/{group}/widgets/_/w"),
    }
    received: list[tuple[str, str, bool]] = []
    """uid, op, and whether it had a namespace."""
    definition = await kube.create_crd(group)
    bridge = BridgeProcess(tmp_path / "bridge", config, waits=False)
    async with bridge.started():
        for namespaced, killed in ((True, False), (False, False), (True, False), (False, True), (True, True)):
            if killed:
                await asyncio.to_thread(bridge.kill9)
            await kube.delete_crd(definition)
            definition = await kube.create_crd(group, namespaced=namespaced)
            uid = await _create(kube, definition, namespace if namespaced else "", "w")
            if killed:
                await asyncio.to_thread(bridge.start)
            received += [(received[-1][0], "deleted", received[-1][2])] if received else []
            received.append((uid, "added", namespaced))
            await _until_received(bridge, file, {(uid, op) for uid, op, _ in received})
        await bridge.until_live(f"widgets.{group}")
        await bridge.until_delivered()

    events = [json.loads(line) for line in file.read_text().splitlines()]
    found = {(each["uid"], each["op"], each["subject"], each["partitionkey"]) for each in events if "subject" in each}
    assert found == {(uid, op, *names[namespaced]) for uid, op, namespaced in received}
    print(f"{len(received)} deltas of {len({uid for uid, _, _ in received})} widgets, each under its own subject")
    await kube.delete_crd(definition)


async def _create(kube: KubeClient, definition: Resource, namespace: str, name: str) -> str:
    made = await kube.create(definition.path(namespace), manifest_of(definition, name, spec={"size": 1}))
    uid: str = made["metadata"]["uid"]
    return uid


async def _flows(kube: KubeClient, bridge: BridgeProcess, file: Path, namespace: str, name: str) -> None:
    """What the bridge may see goes on arriving, whatever it may not."""
    made = await kube.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": name}})
    await _until_received(bridge, file, {(made["metadata"]["uid"], "added")})


async def _until_received(bridge: BridgeProcess, file: Path, wanted: set[tuple[str, str]], timeout: float = 60) -> None:
    """Wait until the file has these, by uid and op."""

    def is_received(_: object) -> bool:
        return wanted <= {(received.uid, received.op) for received in received_lists(from_file(file))}

    await bridge.until(f"{len(wanted)} deltas are reported", is_received, timeout)
