from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kubernetes_validate import utils as schemas

from tests.cluster.build import cache_folder
from tests.cluster.kube_client import KubeClient
from tests.cluster.recipes import PLATFORM
from tests.deploy.component import plain_replicas
from tests.deploy.guide import Shell
from tests.deploy.helm import EVERYTHING, REPLICAS, Helm, Manifest
from tests.deploy.image import Buildah


@pytest.fixture(scope="session")
def helm(helm_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(helm_build / "helm", tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module")
def full(helm: Helm) -> list[Manifest]:
    """Every part of the chart."""
    return helm.rendered(EVERYTHING)


@pytest.fixture(scope="module")
def replicas(helm: Helm) -> list[Manifest]:
    """The same with a follower."""
    return helm.rendered(REPLICAS)


@pytest.fixture(scope="session")
def plain_of_two(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The plain manifests of two replicas."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    return plain_replicas(tmp_path_factory.mktemp("kustomize"))


@pytest.fixture(scope="session")
def buildah(image_base_build: Path) -> Buildah:
    return Buildah(cache_folder() / "images" / PLATFORM)


@pytest.fixture(scope="session")
def image(buildah: Buildah, image_base_build: Path) -> dict[str, Any]:
    return buildah.build(image_base_build)


@pytest.fixture(scope="session")
def image_environ(buildah: Buildah, image: dict[str, Any]) -> Mapping[str, str]:
    """Variables by which buildah finds the base, and the layers of the built image."""
    assert image
    return {**buildah.environ, "BUILDAH_LAYERS": "true"}


@pytest.fixture
def schemas_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """kubernetes_validate reads megabytes of definitions for each object."""
    monkeypatch.setattr(schemas, "schema_contents", cache(schemas.schema_contents))


@pytest.fixture
def kubeconfig(kube: KubeClient, tmp_path: Path) -> Path:
    return kube.server.kubeconfig(tmp_path / "kubeconfig")


@pytest.fixture
def shell(namespace: str, kubeconfig: Path, tmp_path: Path) -> Shell:
    """In the test's namespace."""
    return Shell(namespace, kubeconfig, tmp_path)
