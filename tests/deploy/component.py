"""The plain manifests, alone and with the component for replicas."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import yaml

from tests.deploy.helm import ROOT, Manifest
from tests.kit.deadlines import BUSY

DEPLOY = ROOT / "deploy"
REPLICAS = DEPLOY / "replicas"


def plain() -> list[Manifest]:
    """Those of one bridge, as they are written, in the order of their kustomization."""
    names = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    return [each for name in names for each in yaml.safe_load_all((DEPLOY / name).read_text())]


def plain_replicas(folder: Path) -> list[Manifest]:
    """Those of two replicas, as kustomize makes them in an empty folder."""
    shutil.copytree(DEPLOY, folder / "deploy", ignore=shutil.ignore_patterns("chart", "generator", "release"))
    with (folder / "deploy/kustomization.yaml").open("a") as file:
        file.write("components: [replicas]\n")
    command = ["kubectl", "kustomize", str(folder / "deploy")]
    return list(yaml.safe_load_all(subprocess.run(command, capture_output=True, timeout=60 * BUSY, check=True).stdout))
