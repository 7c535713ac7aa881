"""Generated files of the chart are those that `make chart` would write, and say what values.yaml says."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from deploy.generator.files import generated
from deploy.generator.schema import values_schema
from deploy.generator.values import Values
from tests.deploy.helm import CHART, EVERYTHING, ROOT

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return generated()


@pytest.fixture(scope="module")
def validator() -> Any:
    return Draft202012Validator(values_schema())


def test_generated_files_are_up_to_date(files: dict[str, str]) -> None:
    assert {name: (CHART / name).read_text() == text for name, text in files.items()} == dict.fromkeys(files, True), (
        "run `make chart`"
    )


def test_values_have_the_defaults_of_their_schema() -> None:
    assert {"config": {}, **Values().model_dump(by_alias=True)} == VALUES


QUANTITIES = {
    **dict.fromkeys(["1Gi", "1G", "500M", "0.5Gi", ".5Gi", "1e9", "10Ki", "1048576"], True),
    **dict.fromkeys(["1Gb", "1GB", "1GiB", "1 Gi", "1gi", "1ki", "one", "", "Gi", "-1Gi"], False),
}


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_quantity_is_in_the_notation_of_kubernetes(quantity: str, validator: Any) -> None:
    """Sizes of the configuration have their own, with a B; 1Gb is neither."""
    places: list[dict[str, Any]] = [
        {"persistence": {"size": quantity}},
        {"resources": {"limits": {"memory": quantity}}},
        {"resources": {"requests": {"ephemeral-storage": quantity}}},
    ]
    assert [validator.is_valid(values) for values in places] == [QUANTITIES[quantity]] * 3
    assert validator.is_valid({"resources": {"limits": {"cpu": 1}, "claims": [{"name": "x"}]}})


@pytest.mark.parametrize("size", ["1Gb", "1gb", "1 Gi b", "Gi"])
def test_a_size_of_the_configuration_is_refused_too(size: str, validator: Any) -> None:
    config = yaml.safe_load((CHART / "files" / "kubedelta.yaml").read_text())
    for state in ({"min_free_bytes": size}, {"retain": {"bytes": size}}):
        found = [list(error.absolute_path) for error in validator.iter_errors({"config": {**config, "state": state}})]
        assert found, state
    assert validator.is_valid({"config": {**config, "state": {"min_free_bytes": "1GB", "retain": {"bytes": "1GiB"}}}})


def test_every_value_is_tried_in_the_tests() -> None:
    untried = {
        "replicas",
        "shards",
        "redaction",
        "nameOverride",
        "fullnameOverride",
        "rbac",
        "resources",
        "podSecurityContext",
    }
    assert VALUES.keys() - EVERYTHING.keys() == untried | {"securityContext", "tolerations"}


def test_the_chart_has_the_projects_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]


@pytest.mark.parametrize("name", ["a", "a_b", "a__b", "__", "A", "a-", "-a", "a" * 64])
def test_go_expressions_accept_the_same_names_as_the_loader(name: str, validator: Any) -> None:
    config = {"cluster": {"name": "x"}, "resources": ["pods"], "sinks": {name: {"type": "file", "path": "-"}}}
    accepted = validator.is_valid({"config": config})
    assert accepted is (name in ("a", "a_b"))
