"""helm with the chart: what it renders, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from config.load import load
from config.schema import Settings
from sinks import registry
from tests.kit.deadlines import BUSY

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/chart"
NAMESPACE = "kubedelta"
TYPES = {name: kind.options for name, kind in registry.types().items()}
KUBERNETES = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
"""Versions whose schemas accept every object."""

Manifest = dict[str, Any]
Values = Mapping[str, Any]

CONFIG: Values = {
    "cluster": {"name": "prod"},
    "resources": ["pods", {"resource": "secrets", "namespaces": ["shop"]}],
    "sinks": {
        "deltas": {
            "type": "kafka",
            "bootstrap_servers": "kafka:9092",
            "topic": "deltas",
            "max_backlog": {"records": 10_000_000},
        }
    },
    "latency": 0.025,
    "shutdown_grace_seconds": "1m",
}
"""Of an operator: the chart adds what a pod needs."""

EVERYTHING: Values = {
    "config": CONFIG,
    "image": {
        "repository": "registry.test/kubedelta",
        "digest": f"sha256:{'0' * 64}",
        "pullSecrets": [{"name": "pull"}],
    },
    "restartOnConfigChange": False,
    "commonLabels": {"team": "platform"},
    "podLabels": {"mesh": "off"},
    "podAnnotations": {"seen": "yes"},
    "serviceAccount": {"annotations": {"role": "reader"}},
    "persistence": {"storageClass": "fast", "size": "20Gi", "annotations": {"backup": "no"}},
    "secrets": [{"name": "kafka.credentials", "mountPath": "/etc/kubedelta-secrets/kafka"}],
    "encryption": {"existingSecret": "state.keys", "keys": ["2026-11.key"]},
    "env": [{"name": "KUBEDELTA__TELEMETRY__LOG_LEVEL", "value": "debug"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
    "service": {"annotations": {"seen": "yes"}},
    "networkPolicy": {"egress": [{"ports": [{"protocol": "TCP", "port": 443}]}]},
    "podDisruptionBudget": {"enabled": True},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "runbookUrl": "https://docs.test/alerts", "disabled": ["KubedeltaAbsent"]},
    "dashboard": {"enabled": True},
    "nodeSelector": {"disk": "ssd"},
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
    "priorityClassName": "high",
}
"""Every part is there, and each value differs from its default."""


REPLICAS: Values = {
    **EVERYTHING,
    "config": {**CONFIG, "election": {"enabled": True}},
    "replicas": 2,
    "redaction": {"existingSecret": "kubedelta-redaction"},
    "topologySpreadConstraints": [],
}
"""The same with a follower."""

PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Service": "/api/v1/namespaces/{}/services",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "ServiceMonitor": "/apis/monitoring.coreos.com/v1/namespaces/{}/servicemonitors",
    "PrometheusRule": "/apis/monitoring.coreos.com/v1/namespaces/{}/prometheusrules",
}
"""Kind → path of the collection; ``{}`` stands for the namespace."""

_HELM_LABELS = {
    "app.kubernetes.io/component",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
}


@dataclass(frozen=True, slots=True)
class Helm:
    binary: Path
    home: Path
    """For its caches, in place of the user's."""

    def rendered(self, values: Values | None = None) -> list[Manifest]:
        """The manifests of a release kubedelta in the namespace kubedelta, without those of `helm test`."""
        return [each for each in self._all(values) if "helm.sh/hook" not in each["metadata"].get("annotations", {})]

    def tests(self, values: Values | None = None) -> list[Manifest]:
        """Those of `helm test`."""
        return [each for each in self._all(values) if "helm.sh/hook" in each["metadata"].get("annotations", {})]

    def _all(self, values: Values | None) -> list[Manifest]:
        ran = _template(self, json.dumps(values or {}))
        assert ran.returncode == 0, ran.stderr
        return [each for each in yaml.load_all(ran.stdout, yaml.CSafeLoader) if each]

    def refusal(self, values: Values) -> str:
        """The error of values that must not be rendered."""
        ran = _template(self, json.dumps(values))
        assert ran.returncode != 0, ran.stdout
        return ran.stderr

    def lint(self, values: Values) -> subprocess.CompletedProcess[str]:
        return self.run("lint", "--strict", str(CHART), "-f", "-", values=json.dumps(values))

    def notes(self, values: Values) -> str:
        """The text behind an installation."""
        client = ("--dry-run=client", "--hide-secret")
        ran = self.run(
            "install", "kubedelta", str(CHART), "-n", NAMESPACE, *client, "-f", "-", values=json.dumps(values)
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.partition("NOTES:\n")[2]

    def on_cluster(self, kubeconfig: Path, namespace: str, *words: str, values: Values | None = None) -> None:
        """A command that changes the cluster; values are read from ``-f -``."""
        of_cluster = ("--kubeconfig", str(kubeconfig), "--namespace", namespace)
        ran = self.run(*words, *of_cluster, values=json.dumps(values or {}))
        assert ran.returncode == 0, ran.stderr

    def run(self, *words: str, values: str) -> subprocess.CompletedProcess[str]:
        folders = {f"HELM_{name}_HOME": str(self.home / name) for name in ("CACHE", "CONFIG", "DATA")}
        folders["GOGC"] = "off"  # It lives for a moment: collecting garbage would be half of what it costs.
        return subprocess.run(
            [self.binary, *words],
            input=values,
            env=os.environ | folders,
            capture_output=True,
            text=True,
            timeout=120 * BUSY,
            check=False,
        )


def one(manifests: list[Manifest], kind: str, name: str = "") -> Manifest:
    """The only manifest of this kind, or the one of this name."""
    [found] = [each for each in all_of(manifests, kind) if name in ("", each["metadata"]["name"])]
    return found


def pod_of(manifests: list[Manifest]) -> Manifest:
    """The spec of the pod."""
    spec: Manifest = one(manifests, "Deployment")["spec"]["template"]["spec"]
    return spec


def configuration_of(manifests: list[Manifest], folder: Path, of: str = "") -> Settings:
    """Of the ConfigMap, as the first pod of a workload reads it: of the one called ``of``, or of the only one."""
    [text] = [each["data"]["kubedelta.yaml"] for each in manifests if "kubedelta.yaml" in each.get("data", {})]
    path = folder / "kubedelta.yaml"
    path.write_text(text)
    workloads = [each for each in manifests if each["kind"] in ("Deployment", "StatefulSet")]
    [workload] = [each for each in workloads if of in ("", each["metadata"]["name"])]
    return load(path, environ_of(workload), TYPES)


def labels_of(workload: Manifest) -> dict[str, str]:
    """Of its pods."""
    labels: dict[str, str] = workload["spec"]["template"]["metadata"]["labels"]
    return labels


def environ_of(workload: Manifest) -> dict[str, str]:
    """The environment of its first pod, as the kubelet makes it."""
    [container] = workload["spec"]["template"]["spec"]["containers"]
    return environ_in(container, f"{workload['metadata']['name']}-0")


def environ_in(container: Manifest, pod: str) -> dict[str, str]:
    """The environment of a container in the pod of this name, as the kubelet makes it."""
    found = {"POD_NAME": pod}
    for each in container.get("env", ()):
        if "valueFrom" in each:
            assert each["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
            assert each["name"] in found
        else:
            found[each["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], each["value"])
    return found


@cache
def _template(helm: Helm, values: str) -> subprocess.CompletedProcess[str]:
    """Once: many tests look at the same values."""
    return helm.run("template", "kubedelta", str(CHART), "--namespace", NAMESPACE, "-f", "-", values=values)


def all_of(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in manifests if each["kind"] == kind]


def without_helm(part: Any) -> Any:
    """The manifest without namespaces, labels and annotations that only helm writes."""
    if isinstance(part, list):
        return [without_helm(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {name: without_helm(value) for name, value in part.items() if name not in _HELM_LABELS}
    metadata = kept.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("namespace", None)
        for written in ("checksum/config", "helm.sh/resource-policy"):
            metadata.get("annotations", {}).pop(written, None)
        # kustomization.yaml puts the name's label on every object
        kept["metadata"] = {name: value for name, value in metadata.items() if value and name != "labels"}
    return kept
