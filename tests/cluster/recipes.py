"""What each server is built from. The recipe's own go.mod or pom.xml is the one place that names its version."""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

RECIPES = Path(__file__).parent / "recipes"


class Group(StrEnum):
    """Servers that need the same toolchain. Also the pytest marker of the tests that use them."""

    GO = "go"
    JAVA = "java"
    IMAGE = "image"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one folder of the cache comes to be."""

    name: str
    version: str
    group: Group
    sources: tuple[Path, ...]
    """The files that pin every version that is built."""
    command: tuple[str, ...]
    """Run in the folder of the sources. `{out}` stands for the folder to fill."""

    @property
    def folder_name(self) -> str:
        """`name-version-hash`. The hash is of what decides the build, so that a changed recipe is built anew."""
        decides = hashlib.sha256(repr((self.command, sys.platform, platform.machine())).encode())
        for source in self.sources:
            decides.update(source.read_bytes())
        return f"{self.name}-{self.version}-{decides.hexdigest()[:12]}"


def _go(name: str, module: str, *packages: str, output: str = "", tags: str = "") -> Recipe:
    sources = (RECIPES / name / "go.mod", RECIPES / name / "go.sum", *(RECIPES / name).glob("*.go"))
    version = _version(sources[0], rf"^(?:require)?\s*{re.escape(module)} v(\S+)")
    chosen = ("-tags", tags) if tags else ()
    command = ("go", "build", "-trimpath", *chosen, "-ldflags", _ldflags(version), "-o", f"{{out}}/{output}", *packages)
    return Recipe(name, version, Group.GO, sources, command)


def _ldflags(version: str) -> str:
    """No debug symbols, and for Kubernetes its version: a server linked without calls itself v0.0.0-master."""
    major, minor, _ = version.split(".", 2)
    says = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in says.items())])


def _of_module(name: str, module: str, *files: str) -> Recipe:
    """Files of a Go module that are no programs."""
    sources = (RECIPES / name / "go.mod", RECIPES / name / "go.sum")
    copied = " ".join(f'"$folder"/{file}' for file in files)
    command = f'go mod download && folder=$(go list -m -f "{{{{{{{{.Dir}}}}}}}}" {module}) && cp {copied} {{out}}'
    return Recipe(
        name, _version(sources[0], rf"^require {re.escape(module)} v(\S+)"), Group.GO, sources, ("sh", "-c", command)
    )


def _maven(name: str, property_name: str) -> Recipe:
    pom = RECIPES / name / "pom.xml"
    command = ("mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory={out}")
    return Recipe(name, _version(pom, rf"<{re.escape(property_name)}>([^<]+)<"), Group.JAVA, (pom,), command)


def _version(file: Path, pattern: str) -> str:
    found = re.search(pattern, file.read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"{file} does not say the version: nothing matches {pattern}")
    return found[1]


ETCD = _go("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", output="etcd")
KAFKA = _maven("kafka", "kafka.version")
KUBERNETES = _go(
    "kubernetes",
    "k8s.io/kubernetes",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
)

PROMTOOL = _go(
    "promtool",
    "github.com/prometheus/prometheus",
    "github.com/prometheus/prometheus/cmd/promtool",
    tags="remove_all_sd",  # or the clients of a dozen clouds are built in
)
"""No server: Prometheus' own judge of metrics and rules."""

HELM = _go("helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm")
"""No server: what renders and lints the chart."""

PROMETHEUS_OPERATOR = _of_module(
    "prometheus-operator",
    "github.com/prometheus-operator/prometheus-operator",
    "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
)
"""The definitions of its custom resources."""

_BASE = RECIPES / "image-base/base.sh"
IMAGE_BASE = Recipe("image-base", _version(_BASE, r"^TAG=(\S+)"), Group.IMAGE, (_BASE,), ("sh", "base.sh", "{out}"))
"""The base of the image, since no image can be pulled. Its version is the tag that the Dockerfile names."""

ALL = (ETCD, KAFKA, KUBERNETES, PROMTOOL, HELM, PROMETHEUS_OPERATOR)
"""Without the image's base, which few machines can make."""
