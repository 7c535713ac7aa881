"""Rights of the chart are those that `kubedelta rbac` prints for the same configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.checks.rights import IDENTITY, Right, Subject, election_rights, in_namespaces, rights_of
from bridge.checks.rights import manifests as manifests_of
from bridge.kube import Catalogue, ClusterAccess, connect
from bridge.plan.plan_from_settings import plan_of
from config.load import load
from tests.deploy.helm import CONFIG, NAMESPACE, TYPES, Helm, Manifest
from tests.kit.playground import Playground

WHOLE: list[Any] = ["po", "Services", "deploy", "statefulset", "Job.batch", "ingresses.v1.networking.k8s.io", "events"]
CASES: dict[str, list[Any]] = {
    "names": WHOLE,
    "custom resources": ["certificates.cert-manager.io", "widgets.v1beta1.acme.io", "things.v1acme.io"],
    "groups": ["*.acme.io", "*.v1.later.io", "pods"],
    "all": ["*"],
    "in namespaces": [
        {"resource": "pods", "namespaces": ["shop", "till"]},
        {"resource": "deployments", "namespaces": ["till"], "label_selector": "app=web"},
        {"resource": "widgets.acme.io", "namespaces": ["shop"]},
        "nodes",
    ],
    "without namespaces of their own": [{"resource": "nodes", "namespaces": ["shop", "till"]}],
    "a single object": [
        {"resource": "configmaps", "namespaces": ["shop"], "field_selector": "metadata.name=settings"},
        {"resource": "configmaps", "namespaces": ["till"], "field_selector": "type!=x, metadata.name == other"},
        {"resource": "secrets", "field_selector": "metadata.name!=secret"},
    ],
    "two objects": [
        {"resource": "configmaps", "field_selector": "metadata.name=one"},
        {"resource": "configmaps", "field_selector": "metadata.name=two"},
    ],
}
"""Lists of resources."""
NAMESPACED: list[Any] = [
    {"resource": "po", "namespaces": ["shop", "till"]},
    {"resource": "deploy", "namespaces": ["shop"]},
]


@pytest.fixture
async def catalogue() -> AsyncIterator[Catalogue]:
    async with Playground() as cluster, connect(ClusterAccess(server=cluster.url)) as client:
        yield await client.discover()


def _printed(
    resources: list[Any], catalogue: Catalogue, folder: Path, *, namespaced: bool = False, **config: Any
) -> list[Manifest]:
    path = folder / "kubedelta.yaml"
    path.write_text(yaml.safe_dump({**CONFIG, **config, "resources": resources}))
    rights: list[Right] = []
    plan = plan_of(load(path, {}, TYPES), path)
    for wanted in plan.wanted:
        of_entry = rights_of(wanted, catalogue)
        rights += in_namespaces(wanted.name, of_entry) if namespaced else of_entry
    identity = in_namespaces("", [IDENTITY]) if namespaced else [IDENTITY]
    subject = Subject("kubedelta", "kubedelta")
    rights += [*identity, *election_rights(plan.election, NAMESPACE)]
    return list(yaml.safe_load_all(manifests_of(rights, name="kubedelta", subject=subject)))


def _rendered(helm: Helm, resources: list[Any], *, namespaced: bool = False, **config: Any) -> list[Manifest]:
    values = {
        "config": {**CONFIG, **config, "resources": resources},
        "rbac": {"namespaced": namespaced},
        "redaction": {"existingSecret": "key"},
    }
    found = [each for each in helm.rendered(values) if each["apiVersion"].startswith("rbac.")]
    for each in found:
        del each["metadata"]["labels"]
    return found


def _by_place(manifests: list[Manifest]) -> dict[tuple[str, str | None], Manifest]:
    """helm sorts by kind."""
    found = {(each["kind"], each["metadata"].get("namespace")): each for each in manifests}
    assert len(found) == len(manifests)
    return found


@pytest.mark.parametrize("resources", CASES.values(), ids=CASES)
def test_the_chart_grants_what_rbac_prints(
    helm: Helm, catalogue: Catalogue, tmp_path: Path, resources: list[Any]
) -> None:
    assert _by_place(_rendered(helm, resources)) == _by_place(_printed(resources, catalogue, tmp_path))


def test_roles_alone_are_those_of_rbac_namespaced(helm: Helm, catalogue: Catalogue, tmp_path: Path) -> None:
    rendered = _rendered(helm, NAMESPACED, namespaced=True)
    assert _by_place(rendered) == _by_place(_printed(NAMESPACED, catalogue, tmp_path, namespaced=True))
    assert {each["kind"] for each in rendered} == {"Role", "RoleBinding"}


@pytest.mark.parametrize("namespaced", [False, True])
@pytest.mark.parametrize("where", [{}, {"namespace": "shop"}, {"namespace": NAMESPACE, "lease": "prod.deltas"}])
def test_an_election_has_the_rights_on_its_lease(
    helm: Helm, catalogue: Catalogue, tmp_path: Path, where: dict[str, str], namespaced: bool
) -> None:
    election = {"enabled": True, **where}
    rendered = _rendered(helm, NAMESPACED, namespaced=namespaced, election=election)
    printed = _printed(NAMESPACED, catalogue, tmp_path, namespaced=namespaced, election=election)
    assert _by_place(rendered) == _by_place(printed)
    groups = [rule["apiGroups"] for each in rendered for rule in each.get("rules", ())]
    assert groups.count(["coordination.k8s.io"]) == 2


def test_every_name_of_a_built_in_resource_is_understood(helm: Helm, catalogue: Catalogue, tmp_path: Path) -> None:
    served = {each.resource.name: each for each in catalogue.served}
    names = [each.resource.kind for each in served.values() if each.resource.group != "events.k8s.io"]
    assert _by_place(_rendered(helm, names)) == _by_place(_printed(names, catalogue, tmp_path))


@pytest.mark.parametrize(
    ("resources", "error"),
    [
        (["pdos"], "config.resources: pdos: Kubernetes has no resource of this name"),
        (
            [{"resource": "*.acme.io", "namespaces": ["shop"]}],
            "kubedelta rbac -c FILE --service-account kubedelta/",
        ),
    ],
)
def test_rights_that_only_a_cluster_knows_are_refused(helm: Helm, resources: list[Any], error: str) -> None:
    assert error in helm.refusal({"config": {**CONFIG, "resources": resources}})


def test_a_role_for_the_whole_cluster_is_refused_by_name(helm: Helm) -> None:
    said = helm.refusal({"config": CONFIG, "rbac": {"namespaced": True}})
    assert "config.resources: pods: a Role cannot grant it in the whole cluster" in said


def test_rights_can_come_from_elsewhere(helm: Helm) -> None:
    values = {"config": {**CONFIG, "resources": ["pdos"]}, "rbac": {"create": False}}
    assert not [each for each in helm.rendered(values) if each["apiVersion"].startswith("rbac.")]
