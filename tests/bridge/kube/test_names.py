from __future__ import annotations

import json

import pytest

from bridge.kube import Catalogue, Served, UnknownResource, resolve_name, store_of
from bridge.kube.catalogue import Document, GroupVersion
from bridge.kube.discovery_documents import read_aggregated
from bridge.model.resource import Resource
from tests.bridge.kube.discovery_documents import SMALL, Described, World, aggregated


def catalogue_of(world: World) -> Catalogue:
    documents = [(path, json.dumps(aggregated(world, path)).encode()) for path in ("/api", "/apis")]
    return Catalogue(tuple(Document(path, None, read_aggregated(body, path).versions) for path, body in documents))


CATALOGUE = catalogue_of(SMALL)


def meant(name: str, catalogue: Catalogue = CATALOGUE) -> list[str]:
    return [f"{each.name}@{each.version}" for each in resolve_name(name, catalogue)]


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("pods", "pods@v1"),
        ("pod", "pods@v1"),
        ("po", "pods@v1"),
        ("Pod", "pods@v1"),
        ("PODS", "pods@v1"),
        (" pods ", "pods@v1"),
        ("deployments", "deployments.apps@v1"),
        ("deploy", "deployments.apps@v1"),
        ("deployments.apps", "deployments.apps@v1"),
        ("deploy.apps", "deployments.apps@v1"),
        ("Deployment.apps", "deployments.apps@v1"),
        ("deployments.v1.apps", "deployments.apps@v1"),
        ("deployments.extensions", "deployments.extensions@v1beta1"),
        ("deployments.v1beta1.extensions", "deployments.extensions@v1beta1"),
        ("certificates.cert-manager.io", "certificates.cert-manager.io@v1"),
        ("certificates.v1.cert-manager.io", "certificates.cert-manager.io@v1"),
        ("cert.v1.cert-manager.io", "certificates.cert-manager.io@v1"),
        ("events", "events@v1"),
        ("events.events.k8s.io", "events.events.k8s.io@v1"),
        ("leases.coordination.k8s.io", "leases.coordination.k8s.io@v1"),
        ("endpoints", "endpoints@v1"),
        ("pods.cert-manager.io", "pods.cert-manager.io@v1"),
        ("pods.v1.", "pods@v1"),
    ],
)
def test_a_resource_goes_by_all_the_names_that_kubectl_knows(name: str, resource: str) -> None:
    assert meant(name) == [resource]


def test_the_preferred_version_is_meant_unless_another_is_named() -> None:
    assert meant("hpa") == meant("horizontalpodautoscalers.autoscaling") == ["horizontalpodautoscalers.autoscaling@v2"]
    assert meant("hpa.v1.autoscaling") == ["horizontalpodautoscalers.autoscaling@v1"]
    # Not every version of a group serves all of it.
    assert meant("oldscalers.autoscaling") == ["oldscalers.autoscaling@v1"]


def test_a_plural_comes_before_the_short_name_of_another() -> None:
    world = SMALL | {("example.com", "v1"): [Described("things", "Thing", ("wi",)), Described("wi", "Widget")]}
    assert meant("wi", catalogue_of(world)) == ["wi.example.com@v1"]


@pytest.mark.parametrize("name", ["pods", "pod", "Pod", "po", "secrets", "Secret", "nodes", "no", "ev", "ep"])
@pytest.mark.parametrize("claimed_as", ["plural", "singular and kind", "short name"])
def test_core_names_keep_their_meaning_whoever_claims_them(name: str, claimed_as: str) -> None:
    lower = name.lower()
    claim = {
        "plural": Described(lower, "Thing"),
        "singular and kind": Described("things", name.capitalize()),
        "short name": Described("things", "Thing", (lower,)),
    }[claimed_as]
    # Also where its priority is above the built-in groups', or its group is called like one of them.
    for group in ("evil.example.com", "metrics.k8s.io"):
        world = {("", "v1"): SMALL["", "v1"], (group, "v1"): [claim]} | SMALL
        assert meant(name, catalogue_of(world)) == meant(name)


@pytest.mark.parametrize("name", ["deployments", "deploy", "Deployment", "hpa", "deployments.apps", "deploy.apps"])
def test_names_of_other_built_in_groups_cannot_be_claimed(name: str) -> None:
    word, _, group = name.lower().partition(".")
    claims = [Described(word, "Thing"), Described("things", word.capitalize()), Described("others", "O", (word,))]
    world = {("", "v1"): SMALL["", "v1"], (f"{group or 'evil'}.example.com", "v1"): claims} | SMALL
    assert meant(name, catalogue_of(world)) == meant(name)


def test_everything_in_a_group_is_meant_by_a_star_before_it() -> None:
    assert meant("*.apps") == meant("*.v1.apps") == ["deployments.apps@v1", "replicasets.apps@v1"]
    assert meant("*.autoscaling") == ["horizontalpodautoscalers.autoscaling@v2", "oldscalers.autoscaling@v1"]
    assert meant("*.v1.autoscaling") == ["horizontalpodautoscalers.autoscaling@v1", "oldscalers.autoscaling@v1"]
    assert meant("*.cert-manager.io") == [
        "certificates.cert-manager.io@v1",
        "issuers.cert-manager.io@v1",
        "pods.cert-manager.io@v1",
    ]


def test_groups_that_a_star_leaves_out_can_be_named() -> None:
    assert meant("*.events.k8s.io") == ["events.events.k8s.io@v1"]
    assert meant("*.coordination.k8s.io") == ["leases.coordination.k8s.io@v1"]
    assert meant("*.extensions") == ["deployments.extensions@v1beta1", "relics.extensions@v1beta1"]


def test_a_star_means_every_object_once_and_leaves_out_noise() -> None:
    assert meant("*") == [
        "events@v1",
        "nodes@v1",
        "pods@v1",
        "secrets@v1",
        "deployments.apps@v1",
        "replicasets.apps@v1",
        "horizontalpodautoscalers.autoscaling@v2",
        "oldscalers.autoscaling@v1",
        "relics.extensions@v1beta1",
        "certificates.cert-manager.io@v1",
        "issuers.cert-manager.io@v1",
        "pods.cert-manager.io@v1",
    ]


def test_a_twin_stands_in_where_the_other_is_not_served() -> None:
    world = {key: [each for each in found if key[0] or each.plural != "events"] for key, found in SMALL.items()}
    assert "events.events.k8s.io@v1" in meant("*", catalogue_of(world))


@pytest.mark.parametrize(
    ("name", "reason", "nearest"),
    [
        ("deploymnets", "this cluster serves no resource of that name", ("deployments.apps",)),
        ("deployments.app", "this cluster serves no resource of that name", ("deployments.apps",)),
        (
            "issuer.cert-manger.io",
            "this cluster serves no resource of that name",
            ("issuers.cert-manager.io",),
        ),
        ("deployments.v2.apps", "this cluster serves no resource of that name", ("deployments.apps",)),
        ("*.cert-manger.io", "this cluster serves no resources under it", ("*.cert-manager.io",)),
        ("zzzzzzzz", "this cluster serves no resource of that name", ()),
        ("pods/log", "a name has no slash, and subresources cannot be watched", ()),
        ("componentstatuses", "this cluster serves componentstatuses, but it cannot be listed and watched", ()),
        (
            "nodes.metrics.k8s.io",
            "this cluster serves nodes.metrics.k8s.io, but it cannot be listed and watched",
            (),
        ),
    ],
)
def test_an_unknown_name_gets_the_reason_and_the_nearest_known(
    name: str, reason: str, nearest: tuple[str, ...]
) -> None:
    with pytest.raises(UnknownResource) as raised:
        resolve_name(name, CATALOGUE)
    assert raised.value.name == name
    assert raised.value.reason.startswith(reason)
    assert raised.value.nearest[: len(nearest)] == nearest
    assert bool(raised.value.nearest) == bool(nearest)


def test_a_star_on_a_cluster_that_serves_nothing_is_unknown() -> None:
    with pytest.raises(UnknownResource):
        resolve_name("*", Catalogue())


# ── Whose history it is ──────────────────────────────────────────────────────


def served(name: str, *, custom: bool = False) -> Served:
    plural, _, group = name.partition(".")
    return Served(Resource(group, "v1", plural, "Kind", True), "kind", custom=custom)


@pytest.mark.parametrize(
    ("name", "store"),
    [
        ("pods", ""),
        ("deployments.apps", ""),
        ("roles.rbac.authorization.k8s.io", ""),
        ("certificates.cert-manager.io", ""),
        ("gateways.gateway.networking.k8s.io", ""),
        ("events", "events"),
        ("events.events.k8s.io", "events"),
        ("flunders.wardle.example.com", "wardle.example.com"),
        ("pods.metrics.k8s.io", "metrics.k8s.io"),
        ("widgets.gone.example.com", "gone.example.com"),
    ],
)
def test_each_aggregated_api_server_has_a_history_of_its_own(name: str, store: str) -> None:
    definitions = ("certificates.cert-manager.io", "gateways.gateway.networking.k8s.io")
    all_served = [
        *(served(each, custom=True) for each in definitions),
        *(served(each) for each in ("pods", "deployments.apps", "flunders.wardle.example.com", "pods.metrics.k8s.io")),
    ]
    catalogue = Catalogue((Document("/apis", None, (GroupVersion("any", "v1", tuple(all_served)),)),))

    assert store_of(served(name).resource, catalogue) == store
