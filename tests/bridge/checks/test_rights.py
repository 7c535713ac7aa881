"""The rights of configured entries, and their manifests."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from bridge.checks.rights import (
    IDENTITY,
    ClusterWide,
    Right,
    Subject,
    election_rights,
    in_namespaces,
    manifests,
    rights_of,
)
from bridge.kube import Catalogue, UnknownResource
from bridge.kube.discovery.catalogue import Document, GroupVersion, Served
from bridge.model.policies import LeaseTiming
from bridge.model.resource import SHORT_NAMES, Resource, Scope
from bridge.plan.plan import ElectionPlan, Wanted

PODS = Resource("", "v1", "pods", "Pod", True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
ISSUERS = Resource("acme.io", "v1", "clusterissuers", "ClusterIssuer", False)
WIDGETS = Resource("acme.io", "v1", "widgets", "Widget", True)
VERSIONS = tuple(
    GroupVersion(each.group, each.version, (Served(each, each.kind.lower(), SHORT_NAMES.get(each.name, ())),))
    for each in (PODS, DEPLOYMENTS, ISSUERS, WIDGETS)
)
CATALOGUE = Catalogue((Document("", None, VERSIONS),))
ACCOUNT = Subject("kubedelta", "monitoring")


def needed(name: str, *scopes: Scope) -> list[Right]:
    return list(rights_of(Wanted(name, scopes or (Scope(),)), CATALOGUE))


def documents(*rights: Right) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(manifests(rights, name="bridge", subject=ACCOUNT)))


# ── Rights of an entry ───────────────────────────────────────────────────────


def test_an_entry_needs_to_list_and_watch_its_resource() -> None:
    assert needed("deploy") == needed("Deployment.apps") == [Right("apps", "deployments")]


def test_an_entry_with_namespaces_needs_rights_in_each() -> None:
    scopes = (Scope("shop"), Scope("payments", "app=till"), Scope("shop", "app=cart"))
    assert needed("pods", *scopes) == [Right("", "pods", "shop"), Right("", "pods", "payments")]


def test_namespaces_do_not_narrow_a_resource_without_any() -> None:
    assert needed("clusterissuers.acme.io", Scope("shop"), Scope("payments")) == [Right("acme.io", "clusterissuers")]


def test_a_fixed_name_needs_the_right_to_that_object_only() -> None:
    only = Scope("shop", field_selector="metadata.name=till")
    assert needed("pods", only) == [Right("", "pods", "shop", "till")]


def test_a_wildcard_needs_its_group_since_resources_come_later() -> None:
    assert needed("*.acme.io") == [Right("acme.io", "*")]
    assert needed("*.v1.acme.io") == [Right("acme.io", "*")]
    assert needed("*.later.io") == [Right("later.io", "*")]
    assert needed("*") == [Right("*", "*")]


def test_a_wildcard_in_namespaces_needs_more_for_the_rest() -> None:
    assert needed("*.acme.io", Scope("shop")) == [Right("acme.io", "*", "shop"), Right("acme.io", "clusterissuers")]


def test_a_resource_not_served_yet_needs_its_plural_and_group() -> None:
    assert needed("gadgets.acme.io") == [Right("acme.io", "gadgets")]
    with pytest.raises(UnknownResource, match="pdos: this cluster serves no resource of that name; did you mean pods"):
        needed("pdos")


# ── Roles of namespaces only ─────────────────────────────────────────────────


def test_roles_alone_can_grant_rights_in_namespaces() -> None:
    rights = [*needed("pods", Scope("shop")), IDENTITY]
    assert list(in_namespaces("pods", rights)) == [
        Right("", "pods", "shop"),
        Right("", "namespaces", "kube-system", "kube-system", ("get",)),
    ]


def test_an_entry_of_the_whole_cluster_is_refused_by_name() -> None:
    with pytest.raises(ClusterWide, match="resources: po: a Role cannot grant list, watch pods in the whole cluster"):
        list(in_namespaces("po", needed("po")))


# ── Manifests ────────────────────────────────────────────────────────────────


def test_an_election_needs_its_lease_alone() -> None:
    """But RBAC cannot restrict a create to a name."""
    assert election_rights(None) == ()
    election = ElectionPlan(namespace="", lease="kubedelta", name="a", timing=LeaseTiming())
    role, _ = documents(*election_rights(election, "monitoring"))
    assert role["metadata"]["namespace"] == "monitoring"
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    assert role["rules"] == [
        {**lease, "resourceNames": ["kubedelta"], "verbs": ["get", "update", "watch"]},
        {**lease, "verbs": ["create"]},
    ]


def test_rights_of_a_group_share_a_rule() -> None:
    role, binding = documents(Right("", "pods"), Right("apps", "deployments"), Right("", "services"), IDENTITY)
    assert (role["kind"], role["metadata"]) == ("ClusterRole", {"name": "bridge"})
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]},
    ]
    assert binding["kind"] == "ClusterRoleBinding"
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bridge"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "kubedelta", "namespace": "monitoring"}]


def test_each_namespace_has_its_role() -> None:
    found = documents(Right("", "pods", "shop"), Right("", "pods"), Right("", "pods", "till"), Right("", "pods"))
    assert [(each["kind"], each["metadata"].get("namespace")) for each in found] == [
        ("Role", "shop"),
        ("RoleBinding", "shop"),
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "till"),
        ("RoleBinding", "till"),
    ]


@pytest.mark.parametrize(
    ("user", "subject"),
    [
        ("system:serviceaccount:shop:till", {"kind": "ServiceAccount", "name": "till", "namespace": "shop"}),
        ("jane", {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}),
        ("oidc:a:b:c", {"kind": "User", "name": "oidc:a:b:c", "apiGroup": "rbac.authorization.k8s.io"}),
    ],
)
def test_rights_are_bound_to_the_account_that_asks(user: str, subject: dict[str, str]) -> None:
    assert Subject.of_user(user).manifest() == subject
