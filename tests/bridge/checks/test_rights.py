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
from bridge.kube.catalogue import Document, GroupVersion, Served
from bridge.model.policies import LeaseTiming
from bridge.model.resource import SHORT_NAMES, Resource, Scope
from bridge.plan.plan import ElectionPlan, Wanted
from tests.kit.records import DEPLOYMENTS, PODS

EVERYTHING = Scope()
ISSUERS = Resource("acme.io", "v1", "clusterissuers", "ClusterIssuer", False)
WIDGETS = Resource("acme.io", "v1", "widgets", "Widget", True)
VERSIONS = tuple(
    GroupVersion(each.group, each.version, (Served(each, each.kind.lower(), SHORT_NAMES.get(each.name, ())),))
    for each in (PODS, DEPLOYMENTS, ISSUERS, WIDGETS)
)
CATALOGUE = Catalogue((Document("", None, VERSIONS),))
ACCOUNT = Subject("kubedelta", "monitoring")


def needed(name: str, *scopes: Scope) -> list[Right]:
    return list(rights_of(Wanted(name, scopes), CATALOGUE))


def documents(*rights: Right) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(manifests(rights, name="bridge", subject=ACCOUNT)))


# ── Rights of an entry ───────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "scopes", "rights"),
    [
        ("deploy", [EVERYTHING], [Right("apps", "deployments")]),
        ("Deployment.apps", [EVERYTHING], [Right("apps", "deployments")]),
        (
            "pods",
            [Scope("shop"), Scope("payments", "app=till"), Scope("shop", "app=cart")],
            [Right("", "pods", "shop"), Right("", "pods", "payments")],
        ),
        # Namespaces do not narrow a resource without any.
        ("clusterissuers.acme.io", [Scope("shop"), Scope("payments")], [Right("acme.io", "clusterissuers")]),
        ("pods", [Scope("shop", field_selector="metadata.name=till")], [Right("", "pods", "shop", "till")]),
        # A wildcard needs its group, since resources come later.
        ("*.acme.io", [EVERYTHING], [Right("acme.io", "*")]),
        ("*.v1.acme.io", [EVERYTHING], [Right("acme.io", "*")]),
        ("*.later.io", [EVERYTHING], [Right("later.io", "*")]),
        ("*", [EVERYTHING], [Right("*", "*")]),
        # In namespaces, it needs more for the resources that have none.
        ("*.acme.io", [Scope("shop")], [Right("acme.io", "*", "shop"), Right("acme.io", "clusterissuers")]),
        # A resource that is not served yet needs its plural and group.
        ("gadgets.acme.io", [EVERYTHING], [Right("acme.io", "gadgets")]),
    ],
)
def test_an_entry_needs_exactly_its_resources_namespaces_and_names(
    name: str, scopes: list[Scope], rights: list[Right]
) -> None:
    assert needed(name, *scopes) == rights


def test_a_name_that_means_nothing_has_no_rights() -> None:
    with pytest.raises(UnknownResource, match="pdos: this cluster serves no resource of that name; did you mean pods"):
        needed("pdos", EVERYTHING)


# ── Roles of namespaces only ─────────────────────────────────────────────────


def test_roles_alone_can_grant_rights_in_namespaces() -> None:
    rights = [*needed("pods", Scope("shop")), IDENTITY]
    assert list(in_namespaces("pods", rights)) == [
        Right("", "pods", "shop"),
        Right("", "namespaces", "kube-system", "kube-system", ("get",)),
    ]


def test_an_entry_of_the_whole_cluster_is_refused_by_name() -> None:
    with pytest.raises(ClusterWide, match="resources: po: a Role cannot grant list, watch pods in the whole cluster"):
        list(in_namespaces("po", needed("po", EVERYTHING)))


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
