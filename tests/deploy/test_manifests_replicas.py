"""The plain manifests of two replicas."""

from __future__ import annotations

import shutil
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.load import load
from tests.deploy.component import DEPLOY, REPLICAS, plain_replicas
from tests.deploy.helm import TYPES, Helm, Manifest, one, without_helm
from tests.kit.deadlines import BUSY


@pytest.fixture
def config() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((REPLICAS / "kubedelta.yaml").read_text())
    return found


@pytest.fixture
def manifests() -> list[Manifest]:
    return plain_replicas()


def test_they_are_what_the_chart_renders(helm: Helm, config: dict[str, Any], manifests: list[Manifest]) -> None:
    [image] = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["images"]
    [container] = one(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    container["image"] = f"{container['image']}:{image['newTag']}"
    container["imagePullPolicy"] = "IfNotPresent"
    values = {"replicas": 2, "config": config, "redaction": {"existingSecret": "kubedelta-redaction"}}
    written_config = deepcopy(config)
    del config["redaction"]

    rendered = {(each["kind"], each["metadata"]["name"]): without_helm(each) for each in helm.rendered(values)}
    assert yaml.safe_load(rendered.pop(("ConfigMap", "kubedelta"))["data"]["kubedelta.yaml"]) == written_config
    written = {(each["kind"], each["metadata"]["name"]): without_helm(each) for each in manifests}
    del written["Namespace", "kubedelta"]

    assert rendered == written


def test_the_configuration_is_that_of_one_and_an_election(config: dict[str, Any]) -> None:
    settings = load(REPLICAS / "kubedelta.yaml", {}, TYPES)
    assert settings.election.enabled
    added = {name: config.pop(name) for name in ("election", "redaction")}
    assert config == yaml.safe_load((DEPLOY / "kubedelta.yaml").read_text())
    assert added["election"] == {"enabled": True, "lease": "kubedelta"}


def test_the_key_is_where_the_secret_is_mounted(config: dict[str, Any], manifests: list[Manifest]) -> None:
    pod = one(manifests, "StatefulSet")["spec"]["template"]["spec"]
    [mount] = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "redaction"]
    [volume] = [each for each in pod["volumes"] if each["name"] == "redaction"]
    key = Path(config["redaction"]["key_file"])
    assert key.parent == Path(mount["mountPath"])
    assert f"create secret generic {volume['secret']['secretName']} --from-file {key.name}" in (
        (REPLICAS / "kustomization.yaml").read_text()
    )


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_makes_the_same_of_them(tmp_path: Path, manifests: list[Manifest]) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns("chart", "generator", "release"))
    with (tmp_path / "deploy/kustomization.yaml").open("a") as file:
        file.write("components: [replicas]\n")
    command = ["kubectl", "kustomize", str(tmp_path / "deploy")]
    built = subprocess.run(command, capture_output=True, timeout=60 * BUSY, check=True).stdout
    made = list(yaml.safe_load_all(built))

    config = one(made, "ConfigMap")
    assert config["data"] == {"kubedelta.yaml": (REPLICAS / "kubedelta.yaml").read_text()}
    assert {each["kind"] for each in made} == {each["kind"] for each in manifests} | {"ConfigMap"}
    spec, ours = one(made, "StatefulSet")["spec"], one(manifests, "StatefulSet")["spec"]
    pod, our_pod = spec["template"]["spec"], ours["template"]["spec"]
    [volume] = [each for each in pod["volumes"] if each["name"] == "config"]
    assert volume["configMap"] == {"name": config["metadata"]["name"]}
    volume["configMap"]["name"] = "kubedelta"
    pod["containers"][0]["image"] = our_pod["containers"][0]["image"]
    del spec["volumeClaimTemplates"][0]["metadata"]["labels"]
    assert spec == ours
    for each in ("Service", "NetworkPolicy"):
        assert [part["spec"] for part in made if part["kind"] == each] == [
            part["spec"] for part in manifests if part["kind"] == each
        ]
    assert one(made, "RoleBinding")["metadata"]["namespace"] == "kubedelta"
    assert one(made, "RoleBinding")["subjects"] == one(manifests, "RoleBinding")["subjects"]
