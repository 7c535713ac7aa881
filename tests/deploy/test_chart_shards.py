"""What the chart renders for shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.checks.rights import election_rights
from bridge.model.primitives.shard import ShardBy
from bridge.plan.plan_from_settings import plan_of
from config.schema import ShardSettings
from tests.deploy.helm import (
    CONFIG,
    EVERYTHING,
    NAMESPACE,
    REPLICAS,
    Helm,
    Manifest,
    Values,
    all_of,
    configuration_of,
    environ_of,
    labels_of,
    one,
)

ELECTION: Values = {"config": {**CONFIG, "election": {"enabled": True}}, "redaction": REPLICAS["redaction"]}


@pytest.fixture(scope="module")
def sharded(helm: Helm) -> list[Manifest]:
    return helm.rendered({**EVERYTHING, "shards": 4})


@pytest.fixture(scope="module")
def both(helm: Helm) -> list[Manifest]:
    return helm.rendered({**REPLICAS, "shards": 2})


def _shard(manifests: list[Manifest], folder: Path, name: str) -> ShardSettings | None:
    """Of the first pod of this workload."""
    return configuration_of(manifests, folder, of=name).shard


def test_a_shard_is_a_group_of_its_own(sharded: list[Manifest], full: list[Manifest], tmp_path: Path) -> None:
    found = all_of(sharded, "StatefulSet")

    assert [each["metadata"]["name"] for each in found] == [f"kubedelta-{index}-of-4" for index in range(4)]
    for index, name in enumerate(each["metadata"]["name"] for each in found):
        assert _shard(sharded, tmp_path, name) == ShardSettings(of=4, index=index)
    for each in found:
        spec = each["spec"]
        [claim] = spec["volumeClaimTemplates"]
        assert (spec["replicas"], spec["podManagementPolicy"]) == (1, "Parallel")
        assert claim["spec"] == one(full, "PersistentVolumeClaim")["spec"]
        assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert {"Deployment", "PersistentVolumeClaim"}.isdisjoint(each["kind"] for each in sharded)


@pytest.mark.parametrize(
    "values",
    [{**EVERYTHING, "shards": 4}, {**REPLICAS, "shards": 2}],
    ids=["one", "replicas"],
)
def test_a_pod_belongs_to_one_shard(values: Values, helm: Helm) -> None:
    manifests = helm.rendered(values)
    pods = [labels_of(each).items() for each in all_of(manifests, "StatefulSet")]
    for kind in ("StatefulSet", "PodDisruptionBudget"):
        for each in all_of(manifests, kind):
            assert sum(each["spec"]["selector"]["matchLabels"].items() <= pod for pod in pods) == 1
    for selector in (
        *(each["spec"]["selector"] for each in all_of(manifests, "Service")),
        one(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ):
        assert all(selector.items() <= pod for pod in pods)


def test_the_replicas_of_a_shard_elect_among_themselves(both: list[Manifest]) -> None:
    assert [(each["metadata"]["name"], each["spec"]["replicas"]) for each in all_of(both, "StatefulSet")] == [
        ("kubedelta-0-of-2", 2),
        ("kubedelta-1-of-2", 2),
    ]
    for each in all_of(both, "StatefulSet"):
        for spread in each["spec"]["template"]["spec"]["topologySpreadConstraints"]:
            assert spread["labelSelector"]["matchLabels"] == each["spec"]["selector"]["matchLabels"]
    [role] = [each for each in all_of(both, "Role") if each["metadata"]["namespace"] == "kubedelta"]
    names = [name for rule in role["rules"] for name in rule.get("resourceNames", ())]
    assert names == ["kubedelta-0-of-2", "kubedelta-1-of-2"]


def test_without_retain_the_volumes_go(helm: Helm) -> None:
    for values in ({"shards": 2}, REPLICAS):
        manifests = helm.rendered({**values, "persistence": {"retain": False}})
        for each in all_of(manifests, "StatefulSet"):
            assert each["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete"


def test_shards_without_persistence_or_replicas(helm: Helm, tmp_path: Path) -> None:
    manifests = helm.rendered({"shards": 2, "replicas": 0, "persistence": {"enabled": False}})
    for each in all_of(manifests, "StatefulSet"):
        assert each["spec"]["replicas"] == 0
        assert {"name": "state", "emptyDir": {}} in each["spec"]["template"]["spec"]["volumes"]
        assert "volumeClaimTemplates" not in each["spec"]
    assert _shard(manifests, tmp_path, "kubedelta-1-of-2") == ShardSettings(of=2, index=1)


def test_the_division_by_namespace_stays(helm: Helm, tmp_path: Path) -> None:
    config = {**CONFIG, "shard": {"of": 4, "by": "namespace"}}
    manifests = helm.rendered({"shards": 4, "config": config})
    assert _shard(manifests, tmp_path, "kubedelta-3-of-4") == ShardSettings(of=4, index=3, by=ShardBy.NAMESPACE)


def test_the_notes_name_the_pods_of_shards(helm: Helm) -> None:
    notes = helm.notes({"shards": 4})

    assert "pod/kubedelta-0-of-4-0" in notes
    assert "deploy/" not in notes


def test_each_pod_has_its_rights_on_its_lease(helm: Helm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = helm.rendered({**REPLICAS, "shards": 4})
    [role] = [each for each in all_of(manifests, "Role") if each["metadata"]["namespace"] == NAMESPACE]
    granted = {(rule.get("resourceNames", [""])[0], *rule["verbs"]) for rule in role["rules"]}
    needed: dict[str, set[str]] = {}
    for stateful in all_of(manifests, "StatefulSet"):
        monkeypatch.setenv("POD_NAME", environ_of(stateful)["POD_NAME"])
        settings = configuration_of(manifests, tmp_path, of=stateful["metadata"]["name"])
        for right in election_rights(plan_of(settings, tmp_path / "kubedelta.yaml").election, NAMESPACE):
            needed.setdefault(right.name, set()).update(right.verbs)
    assert {name: set(verbs) for name, *verbs in granted} == needed
    assert len(needed) == 4 + 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"shards": 4, "fullnameOverride": "a" * 47}, f"fullnameOverride: {'a' * 47}-0-of-4: the API server takes"),
        ({"shards": 3}, "/shards"),
        ({"shards": 0}, "/shards"),
        ({"shards": 4, "config": {**CONFIG, "shard": {"of": 2}}}, "config.shard.of: found 2; shards is 4"),
        ({"config": {**CONFIG, "shard": {"of": 2}}}, "config.shard.of: found 2; shards is 1"),
        ({"shards": 4, "config": {**CONFIG, "shard": {"of": 4, "index": 1}}}, "config.shard.index: leave it out"),
        ({"shards": 4, "persistence": {"existingClaim": "mine"}}, "persistence.existingClaim"),
    ],
)
def test_values_that_shards_cannot_have_are_refused(helm: Helm, values: Values, words: str) -> None:
    assert words in helm.refusal(values)
