"""The manifests before a real kube-apiserver: it takes them, and gives the account these rights and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.cluster.kube_client import KubeClient, Manifest
from tests.cluster.roles import roles_of
from tests.deploy.component import plain, plain_replicas

PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/kubedelta/serviceaccounts",
    "PersistentVolumeClaim": "/api/v1/namespaces/kubedelta/persistentvolumeclaims",
    "Deployment": "/apis/apps/v1/namespaces/kubedelta/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/kubedelta/statefulsets",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/kubedelta/poddisruptionbudgets",
    "Service": "/api/v1/namespaces/kubedelta/services",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/kubedelta/networkpolicies",
}
RBAC = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
ACCOUNT = "system:serviceaccount:kubedelta:kubedelta"
LEASES = "coordination.k8s.io"


@pytest.fixture
def manifests() -> list[Manifest]:
    return plain()


@pytest.fixture
async def deployed(kube: KubeClient, manifests: list[Manifest]) -> AsyncIterator[KubeClient]:
    async with AsyncExitStack() as stack:
        namespace, *others = manifests
        await kube.create(PATHS["Namespace"], namespace, fieldValidation="Strict")
        stack.push_async_callback(kube.delete_namespace, namespace["metadata"]["name"])
        roles = await stack.enter_async_context(roles_of(kube, ACCOUNT))
        for manifest in others:
            if (kind := manifest["kind"]) in RBAC:
                inside = {} if kind.startswith("Cluster") else {"namespace": "kubedelta"}  # kustomization.yaml has it
                await roles.apply(manifest | {"metadata": {**manifest["metadata"], **inside}})
            else:
                await kube.create(PATHS[kind], manifest, fieldValidation="Strict")
        yield kube


async def _may(
    kube: KubeClient, verb: str, resource: str, *, group: str = "", name: str = "", namespace: str = ""
) -> bool:
    attributes = {"verb": verb, "group": group, "resource": resource, "name": name, "version": "v1"}
    attributes["namespace"] = namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "resourceAttributes": attributes},
    }
    answer = await kube.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


async def test_the_account_has_exactly_the_rights_it_needs(deployed: KubeClient) -> None:
    for group, resource in (("", "pods"), ("", "services"), ("apps", "deployments"), ("batch", "jobs")):
        for verb, allowed in (("list", True), ("watch", True), ("get", False), ("update", False), ("delete", False)):
            assert await _may(deployed, verb, resource, group=group) is allowed, (verb, resource)
    assert await _may(deployed, "get", "namespaces", name="kube-system")
    assert not await _may(deployed, "get", "namespaces", name="default")
    assert not await _may(deployed, "list", "namespaces")
    assert not await _may(deployed, "list", "secrets")
    assert not await _may(deployed, "create", "leases", group=LEASES)


@pytest.mark.parametrize("manifests", [plain_replicas()], ids=["replicas"])
async def test_replicas_may_write_their_lease_and_no_other(deployed: KubeClient) -> None:
    for verb, allowed in (("get", True), ("update", True), ("watch", True), ("delete", False), ("patch", False)):
        assert await _may(deployed, verb, "leases", group=LEASES, name="kubedelta", namespace="kubedelta") is allowed
        assert not await _may(deployed, verb, "leases", group=LEASES, name="other", namespace="kubedelta")
        assert not await _may(deployed, verb, "leases", group=LEASES, name="kubedelta", namespace="default")
    assert await _may(deployed, "create", "leases", group=LEASES, namespace="kubedelta")
    assert not await _may(deployed, "list", "leases", group=LEASES, namespace="kubedelta")
