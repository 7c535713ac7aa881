"""Which objects are meant."""

from __future__ import annotations

import pytest

from bridge.model.resource import Resource, Scope

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
CERTIFICATES = Resource("cert-manager.io", "v1", "certificates", "Certificate", namespaced=True)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)


@pytest.mark.parametrize(
    ("resource", "name", "api_version"),
    [
        (PODS, "pods", "v1"),
        (CERTIFICATES, "certificates.cert-manager.io", "cert-manager.io/v1"),
    ],
)
def test_a_resource_is_named_as_kubectl_names_it(resource: Resource, name: str, api_version: str) -> None:
    assert (resource.name, str(resource), resource.api_version) == (name, name, api_version)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("shop"), "/api/v1/namespaces/shop/pods"),
        (PODS.path("shop", "web-1"), "/api/v1/namespaces/shop/pods/web-1"),
        (CERTIFICATES.path("shop", "tls"), "/apis/cert-manager.io/v1/namespaces/shop/certificates/tls"),
        (CLUSTER_ROLES.path(), "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        (CLUSTER_ROLES.path(None, "admin"), "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin"),
    ],
)
def test_the_path_is_that_of_the_api(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        (Scope(), "all"),
        (Scope("shop"), "namespace shop"),
        (Scope("shop", "tier=web"), "namespace shop, tier=web"),
        (Scope(None, "tier=web", "metadata.name=web"), "tier=web, metadata.name=web"),
    ],
)
def test_a_scope_says_in_words_what_it_covers(scope: Scope, text: str) -> None:
    assert str(scope) == text


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (Scope(), Scope("shop"), True),
        (Scope("shop"), Scope("shop", "tier=web"), True),
        (Scope(None, "tier=web"), Scope(None, "tier=db"), True),
        (Scope("shop"), Scope("payments"), False),
        (Scope(None, "", "metadata.name=a"), Scope(), True),
        (Scope(None, "", "metadata.name=a"), Scope(None, "", "status.phase=Running, metadata.name==a"), True),
        (Scope(None, "", "metadata.name=a"), Scope(None, "", "metadata.name=b"), False),
    ],
)
def test_only_other_namespaces_or_fixed_names_keep_scopes_apart(one: Scope, other: Scope, meet: bool) -> None:
    assert one.meets(other) is other.meets(one) is meet
