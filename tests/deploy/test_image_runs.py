"""The image is built from the Dockerfile and run as the chart's pod before a real API server."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.kube_client import KubeClient
from tests.cluster.recipes import IMAGE_BASE
from tests.cluster.roles import bound_to, roles_of
from tests.deploy.component import plain
from tests.deploy.container import Container, service_account
from tests.deploy.helm import ROOT, Manifest, pod_of
from tests.deploy.image import Buildah, Pod

USER = 65532
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def root(buildah: Buildah, image: dict[str, Any]) -> Iterator[Path]:
    with buildah.mounted() as folder:
        yield folder


@pytest.fixture
def manifests() -> list[Manifest]:
    """The plain ones, which a test compares with the chart's."""
    return plain()


@pytest.fixture
async def rights(kube: KubeClient, manifests: list[Manifest]) -> AsyncIterator[str]:
    """A user that has the rights of the manifests and no others."""
    async with roles_of(kube) as roles:
        await roles.apply(*bound_to(manifests, "restricted"))
        yield "restricted"


@pytest.fixture
def container(
    tmp_path: Path, root: Path, image: dict[str, Any], manifests: list[Manifest], kube: KubeClient, rights: str
) -> Iterator[Container]:
    config, state = tmp_path / "config", tmp_path / "volume"
    for folder in (config, state):
        folder.mkdir()
    (config / "kubedelta.yaml").write_text((ROOT / "deploy/kubedelta.yaml").read_text())
    os.chown(state, 0, USER)  # as the kubelet does for an fsGroup: the group may write, and root owns it
    state.chmod(0o2775)
    account, environ = service_account(tmp_path / "account", kube.server, rights)
    pod = Pod(
        spec=pod_of(manifests),
        image=image,
        root=root,
        folders={"config": config, "state": state},
        service_account=account,
        environ=environ,
    )
    running = Container(tmp_path / "container", pod, config / "kubedelta.yaml")
    yield running
    running.kill9()
    running.delete()


def test_the_base_is_the_one_that_the_dockerfile_names(image_base_build: Path) -> None:
    assert f"ARG BASE=python:{IMAGE_BASE.version}\n" in (ROOT / "Dockerfile").read_text()
    assert (image_base_build / "base.tar").stat().st_size > 2**20


def test_the_image_says_its_version(image: dict[str, Any]) -> None:
    assert image["Labels"]["org.opencontainers.image.version"] == PROJECT["version"]


def test_the_image_has_no_pip_and_nothing_that_is_set_uid(root: Path) -> None:
    site = list(root.glob("opt/kubedelta/lib/python3.*/site-packages"))
    assert [each.name for each in site[0].glob("bridge")] == ["bridge"]
    assert not [*root.glob("opt/kubedelta/bin/pip*"), *root.glob("usr/local/bin/pip*"), *site[0].glob("pip")]
    writable = [
        path for path in (root / "opt/kubedelta").rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022
    ]
    assert writable == []


async def test_the_pod_watches_a_cluster_and_ends_on_sigterm(
    container: Container, kube: KubeClient, namespace: str
) -> None:
    spec = {"containers": [{"name": "web", "image": "web:1"}]}
    async with container.started():
        await container.until_live("pods")
        await kube.create(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "seen"}, "spec": spec})
        await container.until("the pod is exported", lambda now: namespace in container.log.read_text())

        status = container.state_of_process()
        assert status["Uid"].split() == [str(USER)] * 4
        assert status["Gid"].split() == [str(USER)] * 4
        assert int(status["CapBnd"], 16) == int(status["CapEff"], 16) == 0
        assert status["NoNewPrivs"] == "1"
        assert status["NSpid"].split()[-1] == "1"  # the bridge itself, so that SIGTERM reaches it

        for path, error in (
            ("/x", "Read-only"),
            ("/opt/kubedelta/x", "Read-only"),
            ("/tmp/x", ""),
            ("/etc/passwd", ""),
        ):
            mode = "r" if path == "/etc/passwd" else "w"
            tried = container.execute("python", "-c", f"open({path!r}, {mode!r})")
            assert (error in tried.stderr) if error else (tried.returncode == 0), tried.stderr
        cursors = container.execute("kubedelta", "cursors", "-c", "/etc/kubedelta/kubedelta.yaml")
        assert (cursors.returncode, "screen" in cursors.stdout) == (0, True), cursors.stderr

    lines = [json.loads(line) for line in container.log.read_text().splitlines() if line.startswith("{")]
    deltas = [line for line in lines if line.get("type") == "kubedelta.object.added.v1"]
    assert [each["subject"] for each in deltas if namespace in each["subject"]] == [
        f"/api/v1/namespaces/{namespace}/pods/seen"
    ]
    assert [(each["event"], each["exit_code"]) for each in lines if each.get("event") == "ended"] == [("ended", 0)]


async def test_a_new_pod_continues_with_the_volume_of_the_old_one(
    container: Container, kube: KubeClient, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    services = f"/api/v1/namespaces/{namespace}/services"
    spec = {"ports": [{"port": 80}], "clusterIP": "None"}
    await kube.create(services, {"metadata": {"name": "old"}, "spec": spec})
    await kube.create(path, {"metadata": {"name": "not-watched"}})
    async with container.started():
        await container.until("the service is exported", lambda now: "services/old" in container.log.read_text())
    container.log.write_text("")
    await kube.create(services, {"metadata": {"name": "new"}, "spec": spec})
    async with container.started():
        await container.until("the service is exported", lambda now: "services/new" in container.log.read_text())
        await container.until_delivered()
    text = container.log.read_text()
    assert "services/old" not in text
    assert "not-watched" not in text


async def test_the_image_has_what_every_extra_needs(container: Container, kube: KubeClient, namespace: str) -> None:
    """Expressions, encryption of the state, and traces to a collector that is away."""
    config, key = yaml.safe_load(container.config.read_text()), container.config.with_name("state.key")
    key.write_text("0" * 64)
    where = f"object.metadata.namespace == '{namespace}' && object.metadata.name.startsWith('chosen')"
    config["sinks"]["screen"]["select"] = [{"resource": "services", "where": where}]
    config["state"]["encryption"] = {"key_files": [f"/etc/kubedelta/{key.name}"]}
    config["tracing"] = {"endpoint": "http://127.0.0.1:9/v1/traces", "sample": 1}
    container.configure(config)
    spec = {"ports": [{"port": 80}], "clusterIP": "None"}
    async with container.started():
        for name in ("other", "chosen"):
            await kube.create(f"/api/v1/namespaces/{namespace}/services", {"metadata": {"name": name}, "spec": spec})
        await container.until("the service is exported", lambda now: "services/chosen" in container.log.read_text())
        await container.until("spans are made", lambda now: now.value("trace_spans_total") > 0)
        checked = container.execute("kubedelta", "state", "check", "-c", "/etc/kubedelta/kubedelta.yaml")
    assert checked.returncode == 0, checked.stderr
    assert re.search(r"^key [0-9a-f]{8} +[1-9].* of content$", checked.stdout, re.MULTILINE), checked.stdout
    assert re.search(r"^no key +0 B$", checked.stdout, re.MULTILINE), checked.stdout
    assert "services/other" not in container.log.read_text()
