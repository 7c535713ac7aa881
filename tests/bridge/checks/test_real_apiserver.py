"""Roles of ``kubedelta rbac`` and of ``kubedelta check`` on a real API server with RBAC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.checks.check import MISSING_RIGHTS
from bridge.cli import main
from bridge.cli.exits import Exit
from tests.cluster.fixtures import DefineCustomResource
from tests.cluster.kube_client import KubeClient
from tests.cluster.roles import Roles, bound_to, roles_of
from tests.kit.configurations import a_config


@pytest.fixture
async def roles(kube: KubeClient) -> AsyncIterator[Roles]:
    async with roles_of(kube) as roles:
        yield roles


@pytest.fixture
async def config(tmp_path: Path, kube: KubeClient, namespace: str, custom_resource: DefineCustomResource) -> Path:
    """Of the user ``restricted``: two resources of the cluster, one of a namespace, and a group."""
    widgets = await custom_resource()
    return a_config(
        tmp_path,
        cluster={"name": "test", "kubeconfig": str(kube.server.kubeconfig(tmp_path / "kubeconfig", "restricted"))},
        resources=[
            "nodes",
            "deployments.apps",
            {"resource": "secrets", "namespaces": [namespace]},
            f"*.{widgets.group}",
        ],
    )


@pytest.fixture
def run(config: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    async def run(command: str) -> tuple[int, str]:
        code = await asyncio.to_thread(main, [command, "-c", str(config)])
        return code, capsys.readouterr().out

    return run


async def test_printed_rights_suffice_and_each_rule_is_needed(run: Any, roles: Roles) -> None:
    code, printed = await run("rbac")
    assert code == Exit.OK
    # Nobody has tokens of the service account here.
    documents = bound_to(yaml.safe_load_all(printed), "restricted")
    await roles.apply(*documents)
    code, checked = await run("check")
    assert code == Exit.OK, checked

    for manifest in documents:
        for index, rule in enumerate(manifest.get("rules", ())):
            rest = [each for each in manifest["rules"] if each is not rule]
            await roles.apply(manifest | {"rules": rest})
            code, checked = await run("check")
            assert code == Exit.CONFIG, (index, rule)
            granted = "\n".join(line for line in checked.splitlines() if "RBAC must allow" in line)
            for resource in rule["resources"]:
                assert resource.replace("*", "widgets") in granted
            await roles.apply(manifest)


async def test_check_prints_manifests_that_grant_what_is_missing(run: Any, roles: Roles) -> None:
    code, checked = await run("check")
    assert code == Exit.CONFIG
    _, _, printed = checked.partition("these manifests grant the missing rights:\n")
    documents = list(yaml.safe_load_all(printed[: printed.index("\nok ")]))
    assert {each["metadata"]["name"] for each in documents} == {MISSING_RIGHTS}
    await roles.apply(*documents)
    code, checked = await run("check")
    assert code == Exit.OK, checked
