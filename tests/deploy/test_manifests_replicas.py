"""The plain manifests of two replicas."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.load import load
from tests.deploy.component import DEPLOY, REPLICAS
from tests.deploy.helm import TYPES, Helm, Manifest, one, without_helm


@pytest.fixture
def config() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((REPLICAS / "kubedelta.yaml").read_text())
    return found


def test_they_are_what_the_chart_renders(helm: Helm, config: dict[str, Any], plain_of_two: list[Manifest]) -> None:
    values = {"replicas": 2, "config": config, "redaction": {"existingSecret": "kubedelta-redaction"}}
    text = (REPLICAS / "kubedelta.yaml").read_text()
    del config["redaction"]
    rendered = {(each["kind"], each["metadata"]["name"]): without_helm(each) for each in helm.rendered(values)}
    assert yaml.safe_load(rendered.pop(("ConfigMap", "kubedelta"))["data"]["kubedelta.yaml"]) == yaml.safe_load(text)

    manifests = deepcopy(plain_of_two)
    manifests.remove(config_map := one(manifests, "ConfigMap"))
    manifests.remove(one(manifests, "Namespace"))
    assert config_map["data"] == {"kubedelta.yaml": text}
    pod = one(manifests, "StatefulSet")["spec"]["template"]["spec"]
    [volume] = [each["configMap"] for each in pod["volumes"] if each["name"] == "config"]
    assert volume == {"name": config_map["metadata"]["name"]}
    volume["name"] = "kubedelta"  # Its name has no hash in the chart.
    pod["containers"][0]["imagePullPolicy"] = "IfNotPresent"  # The API server's default for a tag.
    assert {(each["kind"], each["metadata"]["name"]): without_helm(each) for each in manifests} == rendered


def test_the_configuration_is_that_of_one_and_an_election(config: dict[str, Any]) -> None:
    settings = load(REPLICAS / "kubedelta.yaml", {}, TYPES)
    assert settings.election.enabled
    added = {name: config.pop(name) for name in ("election", "redaction")}
    assert config == yaml.safe_load((DEPLOY / "kubedelta.yaml").read_text())
    assert added["election"] == {"enabled": True, "lease": "kubedelta-leader"}


def test_the_key_is_where_the_secret_is_mounted(config: dict[str, Any], plain_of_two: list[Manifest]) -> None:
    pod = one(plain_of_two, "StatefulSet")["spec"]["template"]["spec"]
    [mount] = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "redaction"]
    [volume] = [each for each in pod["volumes"] if each["name"] == "redaction"]
    key = Path(config["redaction"]["key_file"])
    assert key.parent == Path(mount["mountPath"])
    assert f"create secret generic {volume['secret']['secretName']} --from-file {key.name}" in (
        (REPLICAS / "kustomization.yaml").read_text()
    )
