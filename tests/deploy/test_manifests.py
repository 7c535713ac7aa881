"""What the plain manifests give the bridge, and what they keep from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from config.load import load
from config.schema import Settings
from tests.deploy.component import DEPLOY, plain
from tests.deploy.helm import ROOT, TYPES, Manifest, one, pod_of


@pytest.fixture(scope="module")
def manifests() -> list[Manifest]:
    return plain()


@pytest.fixture(scope="module")
def settings() -> Settings:
    return load(DEPLOY / "kubedelta.yaml", {}, TYPES)


@pytest.fixture(scope="module")
def pod(manifests: list[Manifest]) -> Manifest:
    return pod_of(manifests)


@pytest.fixture(scope="module")
def container(pod: Manifest) -> Manifest:
    [container] = pod["containers"]
    return dict(container)


# ── Rights ───────────────────────────────────────────────────────────────────


def test_the_rights_are_list_and_watch_on_configured_resources(manifests: list[Manifest], settings: Settings) -> None:
    rules = [rule for rule in one(manifests, "ClusterRole")["rules"] if "resourceNames" not in rule]
    granted = [
        f"{resource}.{group}" if group else resource
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]
    assert sorted(granted) == sorted(wanted.resource for wanted in settings.resources)
    assert all(rule["verbs"] == ["list", "watch"] for rule in rules)
    assert not any("*" in name for name in granted)


# ── The pod ──────────────────────────────────────────────────────────────────


def test_the_pod_writes_to_its_volumes_alone_where_pods_are_restricted(
    manifests: list[Manifest], pod: Manifest, container: Manifest
) -> None:
    assert one(manifests, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert all({"configMap", "emptyDir", "persistentVolumeClaim"} & volume.keys() for volume in pod["volumes"])
    assert pod["serviceAccountName"] == one(manifests, "ServiceAccount")["metadata"]["name"]
    assert pod["automountServiceAccountToken"] is True


def test_the_pod_leaves_a_dead_node_after_half_a_minute(pod: Manifest) -> None:
    assert {(each["key"], each["effect"], each["tolerationSeconds"]) for each in pod["tolerations"]} == {
        ("node.kubernetes.io/not-ready", "NoExecute", 30),
        ("node.kubernetes.io/unreachable", "NoExecute", 30),
    }


def test_there_is_one_bridge_at_a_time(manifests: list[Manifest]) -> None:
    spec = one(manifests, "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_probes_ask_where_the_bridge_listens(container: Manifest, settings: Settings) -> None:
    assert settings.telemetry.listen.host in ("", "0.0.0.0", "::")
    [port] = container["ports"]
    assert port["containerPort"] == settings.telemetry.listen.port
    probes = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert {probe["port"] for probe in probes.values()} == {port["name"]}


def test_the_service_leads_to_metrics_while_not_ready_too(manifests: list[Manifest], container: Manifest) -> None:
    service = one(manifests, "Service")["spec"]
    [port] = service["ports"]
    assert port["targetPort"] == container["ports"][0]["name"]
    assert service["publishNotReadyAddresses"] is True


def test_only_prometheus_may_connect_and_only_to_one_port(manifests: list[Manifest], container: Manifest) -> None:
    policy = one(manifests, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"], "where sinks and API servers are, only the operator knows"
    [rule] = policy["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": container["ports"][0]["name"]}]
    [source] = rule["from"]
    assert source == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


def test_sinks_have_their_grace_before_the_kubelet_ends_the_pod(pod: Manifest, settings: Settings) -> None:
    assert pod["terminationGracePeriodSeconds"] >= settings.shutdown_grace_seconds + 5


def test_the_state_is_on_a_writable_volume_that_outlives_the_pod(
    manifests: list[Manifest], pod: Manifest, container: Manifest, settings: Settings
) -> None:
    claim = one(manifests, "PersistentVolumeClaim")
    [volume] = [volume for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == volume["name"]]
    assert volume["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
    assert Path(mount["mountPath"]) == settings.state.directory
    assert not mount.get("readOnly")
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]


def test_the_volume_has_room_for_every_backlog_and_as_much_again(manifests: list[Manifest], settings: Settings) -> None:
    size = one(manifests, "PersistentVolumeClaim")["spec"]["resources"]["requests"]["storage"]
    assert size.endswith("Gi")
    backlogs = sum(sink.max_backlog.bytes or 0 for sink in settings.sinks.values())
    assert int(size.removesuffix("Gi")) * 2**30 >= 2 * backlogs + settings.state.min_free_bytes


def test_the_pod_says_what_it_needs(container: Manifest) -> None:
    assert set(container["resources"]["requests"]) == {"cpu", "memory", "ephemeral-storage"}
    assert set(container["resources"]["limits"]) == {"memory"}  # a limit on CPU throttles a bridge that catches up


def test_the_configuration_is_mounted_where_the_bridge_looks(pod: Manifest, container: Manifest) -> None:
    command, option, file = container["args"]
    assert (command, option) == ("run", "--config")
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == "config"]
    assert Path(file) == Path(mount["mountPath"]) / "kubedelta.yaml"
    assert mount["readOnly"] is True
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == "config"]
    assert volume["configMap"]["name"] == "kubedelta"


def test_the_example_for_a_cluster_is_the_one_that_is_deployed() -> None:
    assert (DEPLOY / "kubedelta.yaml").read_text() == (ROOT / "config/examples/in-cluster.yaml").read_text()


def test_kustomize_is_given_every_manifest() -> None:
    kustomization = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
    others = {"kustomization.yaml", "kubedelta.yaml"}
    assert set(kustomization["resources"]) == {file.name for file in DEPLOY.glob("*.yaml")} - others
    [generated] = kustomization["configMapGenerator"]
    assert generated["files"] == ["kubedelta.yaml"]
