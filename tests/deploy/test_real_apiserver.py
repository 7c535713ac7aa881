"""The manifests before a real kube-apiserver: it takes them, and gives the account these rights and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import yaml

from tests.cluster.kube_client import KubeClient, Manifest
from tests.cluster.roles import roles_of
from tests.deploy.component import REPLICAS, plain
from tests.deploy.helm import PATHS

RBAC = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
ACCOUNT = "system:serviceaccount:kubedelta:kubedelta"
LEASES = "coordination.k8s.io"
LEASE = yaml.safe_load((REPLICAS / "kubedelta.yaml").read_text())["election"]["lease"]


@asynccontextmanager
async def deployed(kube: KubeClient, manifests: list[Manifest]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        namespace, *others = manifests
        await kube.create("/api/v1/namespaces", namespace, fieldValidation="Strict")
        stack.push_async_callback(kube.delete_namespace, namespace["metadata"]["name"])
        roles = await stack.enter_async_context(roles_of(kube, ACCOUNT))
        for manifest in others:
            if (kind := manifest["kind"]) in RBAC:
                await roles.apply(manifest)
            else:
                await kube.create(PATHS[kind].format("kubedelta"), manifest, fieldValidation="Strict")
        yield


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


async def test_the_account_has_exactly_the_rights_it_needs(kube: KubeClient) -> None:
    async with deployed(kube, plain()):
        for group, resource in (("", "pods"), ("", "services"), ("apps", "deployments"), ("batch", "jobs")):
            for verb in ("list", "watch", "get", "update", "delete"):
                allowed = verb in ("list", "watch")
                assert await _may(kube, verb, resource, group=group) is allowed, (verb, resource)
        assert await _may(kube, "get", "namespaces", name="kube-system")
        assert not await _may(kube, "get", "namespaces", name="default")
        assert not await _may(kube, "list", "namespaces")
        assert not await _may(kube, "list", "secrets")
        assert not await _may(kube, "create", "leases", group=LEASES)


async def test_replicas_may_write_their_lease_and_no_other(kube: KubeClient, plain_of_two: list[Manifest]) -> None:
    async with deployed(kube, plain_of_two):
        for verb, allowed in (("get", True), ("update", True), ("watch", True), ("delete", False), ("patch", False)):
            for name, namespace in ((LEASE, "kubedelta"), ("other", "kubedelta"), (LEASE, "default")):
                may = await _may(kube, verb, "leases", group=LEASES, name=name, namespace=namespace)
                assert may is (allowed and (name, namespace) == (LEASE, "kubedelta")), (verb, name, namespace)
        assert await _may(kube, "create", "leases", group=LEASES, namespace="kubedelta")
        assert not await _may(kube, "list", "leases", group=LEASES, namespace="kubedelta")
