"""The chart before a real kube-apiserver with the definitions of the Prometheus Operator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain
from pathlib import Path

import pytest
import yaml

from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import KubeClient, KubeError
from tests.deploy.helm import CHART, CONFIG, EVERYTHING, PATHS, REPLICAS, Helm, Manifest, Values, one

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def _all_in(folder: Path) -> list[Manifest]:
    return [yaml.safe_load(file.read_text()) for file in sorted(folder.glob("*.yaml"))]


@asynccontextmanager
async def _defined(kube: KubeClient, definitions: list[Manifest]) -> AsyncIterator[None]:
    """Serves these custom resources."""
    async with AsyncExitStack() as stack:
        for each in definitions:
            spec = each["spec"]
            [version] = spec["versions"]
            made = await kube.create_crd(
                spec["group"],
                spec["names"]["plural"],
                spec["names"]["kind"],
                schema=version["schema"]["openAPIV3Schema"],
            )
            stack.push_async_callback(kube.delete_crd, made)
        yield


@pytest.fixture
async def with_operator(kube: KubeClient, prometheus_operator_build: Path) -> AsyncIterator[KubeClient]:
    async with _defined(kube, _all_in(prometheus_operator_build)):
        yield kube


EACH = {"one": EVERYTHING, "two": REPLICAS, "shards": {**REPLICAS, "shards": 2}}
"""Name → values."""


@pytest.fixture
def rendered(helm: Helm, namespace: str) -> dict[str, list[Manifest]]:
    found = {name: helm.rendered(values) for name, values in EACH.items()}
    for each in chain(*found.values()):
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = namespace
    return found


async def test_an_api_server_takes_every_object(
    with_operator: KubeClient, rendered: dict[str, list[Manifest]], namespace: str
) -> None:
    assert {each["kind"] for each in rendered["one"]} == PATHS.keys() - {"StatefulSet"}
    for name in ("two", "shards"):
        assert {each["kind"] for each in rendered[name]} == PATHS.keys() - {"Deployment", "PersistentVolumeClaim"}
    for each in chain(*rendered.values()):
        path = PATHS[each["kind"]].format(namespace)
        await with_operator.create(path, each, fieldValidation="Strict", dryRun="All")
    monitor = one(rendered["one"], "ServiceMonitor")
    monitor["spec"]["endpoints"][0]["prot"] = "http"
    with pytest.raises(KubeError, match="prot"):
        await with_operator.create(
            PATHS["ServiceMonitor"].format(namespace), monitor, fieldValidation="Strict", dryRun="All"
        )


@pytest.fixture
async def restricted_namespace(kube: KubeClient) -> AsyncIterator[str]:
    """Has its labels from the beginning: PodSecurity reads a namespace from the store if its cache lacks it
    (NamespaceGetterFromListerAndClient of k8s.io/pod-security-admission), and would know later labels too late."""
    name = fresh_name("restricted")
    await kube.create_namespace(name, RESTRICTED)
    yield name
    await kube.delete_namespace(name)


@pytest.mark.parametrize("name", EACH)
async def test_the_pod_is_admitted_where_pods_are_restricted(
    kube: KubeClient, rendered: dict[str, list[Manifest]], restricted_namespace: str, name: str
) -> None:
    workload = [each for each in rendered[name] if each["kind"] in ("Deployment", "StatefulSet")][-1]
    template = workload["spec"]["template"]
    if "volumeClaimTemplates" in workload["spec"]:
        template["spec"]["volumes"] += [{"name": "state", "emptyDir": {}}]  # that of the claim, by the controller
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "kubedelta"}}
    del pod["spec"]["priorityClassName"]  # a class that this cluster lacks
    path = f"/api/v1/namespaces/{restricted_namespace}/pods"
    await kube.create(path, pod, fieldValidation="Strict", dryRun="All")
    pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = "yes"
    with pytest.raises(KubeError, match="readOnlyRootFilesystem"):
        await kube.create(path, pod, fieldValidation="Strict", dryRun="All")
    del pod["spec"]["containers"][0]["securityContext"]
    with pytest.raises(KubeError, match="PodSecurity"):
        await kube.create(path, pod, dryRun="All")


async def test_helm_installs_upgrades_and_leaves_the_volume(
    helm: Helm, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = kube.server.kubeconfig(tmp_path / "kubeconfig")
    deployments = f"{PATHS['Deployment'].format(namespace)}/{namespace}"
    roles = f"{PATHS['ClusterRole']}/{namespace}"

    async def run(*words: str, values: Values | None = None) -> None:
        await asyncio.to_thread(helm.on_cluster, kubeconfig, namespace, *words, values=values)

    def values(**changed: object) -> Values:
        return {"fullnameOverride": namespace, "config": {**CONFIG, "resources": ["pods"], **changed}}

    await run("install", "bridge", str(CHART), "-f", "-", values=values())
    before = await kube.get(deployments)
    await run("upgrade", "bridge", str(CHART), "-f", "-", values=values(resources=["pods", "nodes"]))
    after = await kube.get(deployments)
    rules = (await kube.get(roles))["rules"]
    await run("uninstall", "bridge")

    assert before["spec"]["template"]["metadata"] != after["spec"]["template"]["metadata"]
    assert before["spec"]["selector"] == after["spec"]["selector"]
    assert rules[0]["resources"] == ["pods", "nodes"]
    claims = await kube.get(PATHS["PersistentVolumeClaim"].format(namespace))
    assert [each["metadata"]["name"] for each in claims["items"]] == [f"{namespace}-state"]
    for gone in (deployments, roles):
        with pytest.raises(KubeError, match="404"):
            await kube.get(gone)
