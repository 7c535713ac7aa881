"""kube-apiserver takes what ``restore`` prints, read by its own reader of YAML."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from bridge.cli.manifests import as_yaml
from bridge.history.restore import restored
from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import KubeClient
from tests.cluster.servers import KubeApiServer
from tests.kit.kinds import EXAMPLES, Example
from tests.kit.texts import TEXTS

RESTORABLE = [each for each in EXAMPLES if each.kind != "Secret"]


async def _posted(kube: KubeClient, path: str, text: str, **query: str) -> httpx.Response:
    return await kube.http.post(path, content=text, headers={"Content-Type": "application/yaml"}, params=query)


@pytest.mark.parametrize("example", RESTORABLE, ids=lambda each: f"{each.kind}-{each.name}")
async def test_a_restored_object_is_accepted(kube_apiserver: KubeApiServer, example: Example) -> None:
    name = fresh_name(example.name)
    path = example.path("default")
    async with KubeClient(kube_apiserver) as kube:
        await kube.create(path, example.manifest(name))
        if example.status:
            await kube.patch(f"{path}/{name}/status", {"status": example.status})
        made = restored(msgspec.json.encode(await kube.get(f"{path}/{name}"))).manifest
        await kube.delete(f"{path}/{name}", gracePeriodSeconds=0)
        # Some are only marked as deleted, since no controller removes their finalizers here.
        made["metadata"]["name"] = fresh_name("restored")
        answer = await _posted(kube, path, as_yaml(made), dryRun="All", fieldValidation="Strict")
        assert answer.status_code == 201, answer.text
        assert _lacks(answer.json(), made) == []


def _lacks(there: Any, wanted: Any, path: str = "") -> list[str]:
    """The paths of what is wanted, and not there."""
    if isinstance(wanted, dict) and isinstance(there, dict):
        return [each for name in wanted for each in _lacks(there.get(name), wanted[name], f"{path}.{name}")]
    if isinstance(wanted, list) and isinstance(there, list) and len(wanted) == len(there):
        pairs = enumerate(zip(there, wanted, strict=True))
        return [each for number, pair in pairs for each in _lacks(*pair, f"{path}[{number}]")]
    return [] if there == wanted else [path]


def test_thirty_kinds_are_tried() -> None:
    assert len({each.kind for each in RESTORABLE}) >= 30


async def test_the_reader_of_the_server_finds_the_same_texts(kube_apiserver: KubeApiServer) -> None:
    name, path = fresh_name("texts"), "/api/v1/namespaces/default/configmaps"
    data = {f"k{number}": text for number, text in enumerate(TEXTS)}
    async with KubeClient(kube_apiserver) as kube:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        assert (await _posted(kube, path, as_yaml(manifest))).status_code == 201
        assert (await kube.get(f"{path}/{name}"))["data"] == data
        await kube.delete(f"{path}/{name}")
