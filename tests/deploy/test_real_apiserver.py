"""The manifests before a real kube-apiserver: it takes them, and gives the account these rights and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml

from tests.cluster.kube_client import KubeClient, KubeError, Manifest

DEPLOY = Path(__file__).parents[2] / "deploy"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/kubedelta/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "PersistentVolumeClaim": "/api/v1/namespaces/kubedelta/persistentvolumeclaims",
    "Deployment": "/apis/apps/v1/namespaces/kubedelta/deployments",
    "Service": "/api/v1/namespaces/kubedelta/services",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/kubedelta/networkpolicies",
}
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding")


def _manifests() -> list[Manifest]:
    """As kustomize would bring them, in its order."""
    files = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    return [each for file in files for each in yaml.safe_load_all((DEPLOY / file).read_text())]


@pytest.fixture
async def deployed(kube: KubeClient) -> AsyncIterator[KubeClient]:
    async with AsyncExitStack() as stack:
        for manifest in _manifests():
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            await kube.create(PATHS[kind], manifest, fieldValidation="Strict")
            if kind == "Namespace":
                stack.push_async_callback(kube.delete_namespace, name)
            elif kind in CLUSTER_WIDE:
                stack.push_async_callback(kube.delete, f"{PATHS[kind]}/{name}")
        yield kube


async def _may(kube: KubeClient, verb: str, resource: str, *, group: str = "", name: str = "") -> bool:
    attributes = {"verb": verb, "group": group, "resource": resource, "name": name, "version": "v1"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "system:serviceaccount:kubedelta:kubedelta", "resourceAttributes": attributes},
    }
    answer = await kube.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


async def test_an_api_server_takes_all_manifests_and_a_restricted_pod(deployed: KubeClient) -> None:
    [deployment] = [each for each in _manifests() if each["kind"] == "Deployment"]
    pod = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"] = {**pod["metadata"], "name": "kubedelta"}
    admitted = await deployed.create("/api/v1/namespaces/kubedelta/pods", pod, fieldValidation="Strict", dryRun="All")
    assert admitted["spec"]["serviceAccountName"] == "kubedelta"
    pod["spec"] = {**pod["spec"], "hostNetwork": True}
    with pytest.raises(KubeError, match="PodSecurity"):
        await deployed.create("/api/v1/namespaces/kubedelta/pods", pod, dryRun="All")


async def test_the_account_has_exactly_the_rights_it_needs(deployed: KubeClient) -> None:
    for group, resource in (("", "pods"), ("", "services"), ("apps", "deployments"), ("batch", "jobs")):
        for verb, allowed in (("list", True), ("watch", True), ("get", False), ("update", False), ("delete", False)):
            assert await _may(deployed, verb, resource, group=group) is allowed, (verb, resource)
    assert await _may(deployed, "get", "namespaces", name="kube-system")
    assert not await _may(deployed, "get", "namespaces", name="default")
    assert not await _may(deployed, "list", "namespaces")
    assert not await _may(deployed, "list", "secrets")
