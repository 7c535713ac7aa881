from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.helm import Helm


@pytest.fixture(scope="session")
def helm(helm_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(helm_build / "helm", tmp_path_factory.mktemp("helm"))
