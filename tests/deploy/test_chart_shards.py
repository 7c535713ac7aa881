"""What the chart renders for shards, and while their number changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from bridge.model.primitives.shard import ShardBy
from bridge.plan.plan_from_settings import plan_of
from bridge.rights import election_rights
from config.schema import ShardSettings
from tests.deploy.helm import (
    CONFIG,
    DIVIDED_ANEW,
    EVERYTHING,
    NAMESPACE,
    REPLICAS,
    ROOT,
    Helm,
    Manifest,
    Values,
    all_of,
    configuration_of,
    environ_of,
    one,
)

ELECTION: Values = {"config": {**CONFIG, "election": {"enabled": True}}, "redaction": REPLICAS["redaction"]}
RESTARTING: Values = {**REPLICAS, "restartOnConfigChange": True}
CHANGES = [(2, 4), (4, 2), (1, 4), (4, 1)]
"""A number of shards before, and one after."""


@pytest.fixture(scope="module")
def full(helm: Helm) -> list[Manifest]:
    return helm.rendered(EVERYTHING)


@pytest.fixture(scope="module")
def sharded(helm: Helm) -> list[Manifest]:
    return helm.rendered({**EVERYTHING, "shards": 4})


@pytest.fixture(scope="module")
def both(helm: Helm) -> list[Manifest]:
    return helm.rendered({**REPLICAS, "shards": 2})


def _labels(stateful: Manifest) -> dict[str, str]:
    labels: dict[str, str] = stateful["spec"]["template"]["metadata"]["labels"]
    return labels


def _shard(manifests: list[Manifest], folder: Path, name: str) -> ShardSettings | None:
    """Of the first pod of this workload."""
    return configuration_of(manifests, folder, of=name).shard


def _names(of: int) -> list[str]:
    return ["kubedelta"] if of == 1 else [f"kubedelta-{index}-of-{of}" for index in range(of)]


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
    [{**EVERYTHING, "shards": 4}, {**REPLICAS, "shards": 2}, DIVIDED_ANEW, {**DIVIDED_ANEW, "formerShards": 1}],
    ids=["one", "replicas", "two divisions", "and all objects"],
)
def test_a_pod_belongs_to_one_shard(values: Values, helm: Helm) -> None:
    manifests = helm.rendered(values)
    pods = [_labels(each).items() for each in all_of(manifests, "StatefulSet")]
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


# ── Another number ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_former_pods_go_on_beside_the_new_ones(helm: Helm, before: int, after: int) -> None:
    """Neither they nor their file change, so that nothing restarts them."""
    former = helm.rendered({**RESTARTING, "shards": before})
    changing = helm.rendered({**RESTARTING, "shards": after, "formerShards": before})

    for kind in ("StatefulSet", "PodDisruptionBudget"):
        found = {each["metadata"]["name"]: each for each in all_of(changing, kind)}
        assert found.keys() == {*_names(before), *_names(after)}
        for each in all_of(former, kind):
            assert found[each["metadata"]["name"]] == each
    for kind in ("ConfigMap", "Service", "NetworkPolicy"):
        assert all_of(changing, kind) == all_of(former, kind)


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_new_pods_know_the_number_before(helm: Helm, tmp_path: Path, before: int, after: int) -> None:
    changing = helm.rendered({**RESTARTING, "shards": after, "formerShards": before})
    done = helm.rendered({**RESTARTING, "shards": after})

    for index, name in enumerate(_names(after)):
        assert _shard(changing, tmp_path, name) == ShardSettings(of=after, index=index, former=before)
        assert _shard(done, tmp_path, name) == (ShardSettings(of=after, index=index) if after > 1 else None)
    assert [each["metadata"]["name"] for each in all_of(done, "StatefulSet")] == _names(after)


def test_a_division_by_namespace_changes_its_number(helm: Helm, tmp_path: Path) -> None:
    def values(of: int) -> Values:
        return {"config": {**ELECTION["config"], "shard": {"of": of, "by": "namespace"}}, "shards": of}

    manifests = helm.rendered({**ELECTION, **values(4), "formerShards": 2})
    assert _shard(manifests, tmp_path, "kubedelta-1-of-2") == ShardSettings(of=2, index=1, by=ShardBy.NAMESPACE)
    new = _shard(manifests, tmp_path, "kubedelta-3-of-4")
    assert new == ShardSettings(of=4, index=3, by=ShardBy.NAMESPACE, former=2)
    [before] = all_of(helm.rendered({**ELECTION, **values(2)}), "ConfigMap")
    assert one(manifests, "ConfigMap") == before
    alone = helm.rendered({**ELECTION, **values(4), "formerShards": 1})
    assert _shard(alone, tmp_path, "kubedelta") is None


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_each_pod_has_its_rights_on_leases(
    helm: Helm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    manifests = helm.rendered({**RESTARTING, "shards": after, "formerShards": before})
    [role] = [each for each in all_of(manifests, "Role") if each["metadata"]["namespace"] == NAMESPACE]
    granted = {(rule.get("resourceNames", [""])[0], *rule["verbs"]) for rule in role["rules"]}

    needed: dict[str, set[str]] = {}
    for stateful in all_of(manifests, "StatefulSet"):
        monkeypatch.setenv("POD_NAME", environ_of(stateful)["POD_NAME"])
        settings = configuration_of(manifests, tmp_path, of=stateful["metadata"]["name"])
        for right in election_rights(plan_of(settings, tmp_path / "kubedelta.yaml").election, NAMESPACE):
            needed.setdefault(right.name, set()).update(right.verbs)
    assert {name: set(verbs) for name, *verbs in granted} == needed
    assert len(needed) == before + after + 1


def test_notes_name_the_leases_of_a_change(helm: Helm) -> None:
    said = helm.notes(DIVIDED_ANEW)
    assert "The 2 former shards hand over to the 4 new ones" in said
    assert "get lease kubedelta-0-of-2 kubedelta-1-of-2 -o yaml" in said
    assert "get lease kubedelta-0-of-4 kubedelta-1-of-4 kubedelta-2-of-4 kubedelta-3-of-4\n" in said
    joined = helm.notes({**ELECTION, "formerShards": 2})
    assert "The 2 former shards hand over to one with all objects" in joined
    assert "formerShards" not in helm.notes({**ELECTION, "shards": 2})


def test_the_values_of_the_guide_divide_anew(helm: Helm) -> None:
    [example] = re.findall(r"\n   ```yaml\n(.*?)```", (ROOT / "docs/large-clusters.md").read_text(), re.DOTALL)
    values = yaml.safe_load(example)
    values["config"] |= CONFIG
    found = [each["metadata"]["name"] for each in all_of(helm.rendered(values), "StatefulSet")]
    assert sorted(found) == sorted([*_names(4), *_names(2)])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"shards": 4, "fullnameOverride": "a" * 47}, f"fullnameOverride: {'a' * 47}-0-of-4: the API server takes"),
        ({"shards": 3}, "/shards"),
        ({"shards": 0}, "/shards"),
        ({"formerShards": 3}, "/formerShards"),
        ({"shards": 4, "config": {**CONFIG, "shard": {"of": 2}}}, "config.shard.of: found 2; shards is 4"),
        ({"config": {**CONFIG, "shard": {"of": 2}}}, "config.shard.of: found 2; shards is 1"),
        ({"shards": 4, "config": {**CONFIG, "shard": {"of": 4, "index": 1}}}, "config.shard.index: leave it out"),
        ({"shards": 4, "config": {**CONFIG, "shard": {"of": 4, "former": 2}}}, "config.shard.former: leave it out"),
        ({"shards": 4, "persistence": {"existingClaim": "mine"}}, "persistence.existingClaim"),
        ({"shards": 4, "formerShards": 2}, "formerShards: set config.election.enabled"),
        ({**ELECTION, "shards": 4, "formerShards": 4}, "formerShards: found 4, which is shards"),
    ],
)
def test_values_that_shards_cannot_have_are_refused(helm: Helm, values: Values, words: str) -> None:
    assert words in helm.refusal(values)
