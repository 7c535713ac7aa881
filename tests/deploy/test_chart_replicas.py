"""What the chart renders for replicas that elect one among themselves."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from tests.deploy.helm import (
    CONFIG,
    EVERYTHING,
    REPLICAS,
    Helm,
    Manifest,
    Values,
    all_of,
    configuration_of,
    labels_of,
    one,
)

ELECTION: Values = {**CONFIG, "election": {"enabled": True}}
KEY: Values = {"existingSecret": "kubedelta-redaction"}


def test_a_replica_is_a_pod_with_a_volume(replicas: list[Manifest], full: list[Manifest]) -> None:
    spec = one(replicas, "StatefulSet")["spec"]
    pod = spec["template"]["spec"]
    [claim] = spec["volumeClaimTemplates"]

    assert spec["replicas"] == 2
    assert claim["spec"] == one(full, "PersistentVolumeClaim")["spec"]
    assert claim["metadata"] == {"name": "state", "annotations": {"backup": "no"}}
    assert "state" in [each["name"] for each in pod["containers"][0]["volumeMounts"]]
    assert "state" not in [each["name"] for each in pod["volumes"]]
    assert {"Deployment", "PersistentVolumeClaim"}.isdisjoint(each["kind"] for each in replicas)


def test_each_pod_has_a_name_by_a_headless_service(replicas: list[Manifest], full: list[Manifest]) -> None:
    stateful = one(replicas, "StatefulSet")
    headless = one(replicas, "Service", stateful["spec"]["serviceName"])["spec"]

    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"]
    assert headless["selector"].items() <= labels_of(stateful).items()
    assert "ports" not in headless, "or Prometheus would scrape each pod twice"
    assert one(full, "Service")["metadata"]["name"] == "kubedelta"
    assert "clusterIP" not in one(replicas, "Service", "kubedelta")["spec"]


def test_pods_start_at_once_and_are_replaced_one_by_one(replicas: list[Manifest]) -> None:
    spec = one(replicas, "StatefulSet")["spec"]
    assert (spec["podManagementPolicy"], spec["updateStrategy"]) == ("Parallel", {"type": "RollingUpdate"})
    assert "minReadySeconds" not in spec
    [container] = spec["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}, "ready is in sync"


def test_the_pod_is_the_deployments_otherwise(replicas: list[Manifest], full: list[Manifest]) -> None:
    template = deepcopy(one(replicas, "StatefulSet")["spec"]["template"])
    pod, [container] = template["spec"], template["spec"]["containers"]
    mount = {"name": "redaction", "mountPath": "/etc/kubedelta-secrets/redaction", "readOnly": True}
    container["volumeMounts"].remove(mount)
    assert container["env"].pop(0)["name"] == "POD_NAME"
    container["ports"].remove({"name": "replication", "containerPort": 8083})
    pod["volumes"].remove({"name": "redaction", "secret": {"secretName": "kubedelta-redaction", "defaultMode": 0o440}})
    state = {"name": "state", "persistentVolumeClaim": {"claimName": "kubedelta-state"}}
    pod["volumes"].insert(1, state)
    pod["topologySpreadConstraints"] = EVERYTHING["topologySpreadConstraints"]
    pod["terminationGracePeriodSeconds"] -= 10

    assert template["metadata"]["labels"].pop("app.kubernetes.io/component") == "bridge"

    assert template == one(full, "Deployment")["spec"]["template"]


@pytest.mark.parametrize(
    ("election", "seconds"), [({}, 40), ({"renew_deadline": "90s", "lease_duration": "3m"}, 120), (None, 30)]
)
def test_the_leader_has_time_to_release_the_lease(helm: Helm, election: Values | None, seconds: int) -> None:
    config = {**CONFIG, "shutdown_grace_seconds": 20}
    if election is not None:
        config["election"] = {"enabled": True, **election}
    [pod] = [
        each["spec"]["template"]["spec"]
        for each in helm.rendered({"config": config, "redaction": KEY})
        if each["kind"] in ("Deployment", "StatefulSet")
    ]
    assert pod["terminationGracePeriodSeconds"] == seconds


def test_replicas_have_one_configuration_and_names_of_their_own(replicas: list[Manifest], tmp_path: Path) -> None:
    settings = configuration_of(replicas, tmp_path)
    assert (settings.election.enabled, settings.election.lease, settings.election.identity) == (True, "kubedelta", None)
    assert settings.redaction.key_file == Path("/etc/kubedelta-secrets/redaction/redaction.key")
    [container] = one(replicas, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}} in container["env"]


def test_two_releases_do_not_share_a_lease(helm: Helm, tmp_path: Path) -> None:
    values = {"config": ELECTION, "redaction": KEY, "fullnameOverride": "second"}
    assert configuration_of(helm.rendered(values), tmp_path).election.lease == "second"
    values["config"] = {**CONFIG, "election": {"enabled": True, "lease": "mine"}}
    manifests = helm.rendered(values)
    assert configuration_of(manifests, tmp_path).election.lease == "mine"
    [role] = [each for each in all_of(manifests, "Role") if each["metadata"]["namespace"] == "kubedelta"]
    assert role["rules"][0]["resourceNames"] == ["mine"]


def test_replicas_follow_their_leader_and_nobody_else_gets_in(helm: Helm, full: list[Manifest]) -> None:
    """With the key of digests, and nothing else to set up."""
    for port, election in ((9000, {"port": 9000}), (8083, {})):
        config = {**CONFIG, "election": {"enabled": True, **election}}
        manifests = helm.rendered({"config": config, "replicas": 2, "redaction": KEY})
        [container] = one(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"]
        assert {"name": "replication", "containerPort": port} in container["ports"]
    [*_, rule] = one(manifests, "NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": "replication"}]
    [peer] = rule["from"]
    assert peer["podSelector"]["matchLabels"].items() <= labels_of(one(manifests, "StatefulSet")).items()
    assert "replication" not in str(one(full, "NetworkPolicy"))

    bounded = helm.rendered({**REPLICAS, "networkPolicy": {"egress": [{"ports": [{"protocol": "TCP", "port": 443}]}]}})
    [*_, out] = one(bounded, "NetworkPolicy")["spec"]["egress"]
    assert out["ports"] == [{"protocol": "TCP", "port": 8083}]
    assert out["to"] == [peer]


def test_replicas_run_on_nodes_of_their_own(replicas: list[Manifest], helm: Helm) -> None:
    [node, zone] = one(replicas, "StatefulSet")["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert (node["topologyKey"], node["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "DoNotSchedule")
    assert (zone["topologyKey"], zone["whenUnsatisfiable"]) == ("topology.kubernetes.io/zone", "ScheduleAnyway")
    for each in (node, zone):
        assert each["maxSkew"] == 1
        assert each["labelSelector"]["matchLabels"].items() <= labels_of(one(replicas, "StatefulSet")).items()

    own = EVERYTHING["topologySpreadConstraints"]
    changed = one(helm.rendered({**REPLICAS, "topologySpreadConstraints": own}), "StatefulSet")
    assert changed["spec"]["template"]["spec"]["topologySpreadConstraints"] == own


def test_a_drain_takes_one_at_a_time(helm: Helm) -> None:
    manifests = helm.rendered({"config": ELECTION, "replicas": 2, "redaction": KEY})
    budget = one(manifests, "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels_of(one(manifests, "StatefulSet")).items()


def test_another_number_of_replicas_restarts_no_pod(helm: Helm) -> None:
    def template(replicas: int) -> Manifest:
        spec = one(helm.rendered({**REPLICAS, "restartOnConfigChange": True, "replicas": replicas}), "StatefulSet")[
            "spec"
        ]
        assert spec.pop("replicas") == replicas
        return dict(spec)

    assert template(0) == template(1) == template(2) == template(3)


def test_notes_say_who_leads(helm: Helm) -> None:
    said = helm.notes({"config": ELECTION, "replicas": 2, "redaction": KEY})
    assert "get lease kubedelta\n" in said
    assert "logs pod/kubedelta-0" in said
    assert "nobody takes over" not in said
    assert "nobody takes over" in helm.notes({"config": ELECTION, "redaction": KEY})
    assert "when all pods of a group are gone" in helm.notes({**REPLICAS, "persistence": {"enabled": False}})
    assert "Lease" not in helm.notes(EVERYTHING)


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_a_volume_may_be_for_a_single_pod(helm: Helm, mode: str) -> None:
    values = {"persistence": {"accessMode": mode}}
    assert one(helm.rendered(values), "PersistentVolumeClaim")["spec"]["accessModes"] == [mode]
    [claim] = one(helm.rendered({**REPLICAS, **values}), "StatefulSet")["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == [mode]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"replicas": 2}, "replicas: 2: set config.election.enabled"),
        (
            {"replicas": 2, "config": {**CONFIG, "election": {"enabled": False}}, "redaction": KEY},
            "replicas: 2: set config.election.enabled",
        ),
        ({"config": ELECTION}, "redaction.existingSecret: name a Secret with the key of digests"),
        (
            {"config": ELECTION, "redaction": KEY, "persistence": {"existingClaim": "mine"}},
            "persistence.existingClaim: leave it out, since each replica has a claim of its own",
        ),
        (
            {"config": {**CONFIG, "election": {"enabled": True, "identity": "me"}}, "redaction": KEY},
            "config.election.identity: leave it out",
        ),
        (
            {"config": {**CONFIG, "election": {"enabled": True, "port": 0}}, "redaction": KEY},
            "config.election.port: a fixed port is needed",
        ),
        (
            {"config": {**CONFIG, "redaction": {"key_file": "/a.key"}}, "redaction": KEY},
            "config.redaction.key_file: the file of redaction.key would replace it",
        ),
        (
            {"config": ELECTION, "redaction": KEY, "fullnameOverride": "a" * 53},
            f"fullnameOverride: {'a' * 53}: the API server takes at most 52 characters",
        ),
    ],
)
def test_values_that_they_cannot_have_are_refused(helm: Helm, values: Values, words: str) -> None:
    assert words in helm.refusal(values)


def test_a_key_of_ones_own_mount_will_do(helm: Helm, tmp_path: Path) -> None:
    config = {**ELECTION, "redaction": {"key_file": "/vault/redaction.key"}}
    manifests = helm.rendered({"replicas": 2, "config": config})
    assert configuration_of(manifests, tmp_path).redaction.key_file == Path("/vault/redaction.key")
    volumes = one(manifests, "StatefulSet")["spec"]["template"]["spec"]["volumes"]
    assert "redaction" not in [each["name"] for each in volumes]
