from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from config.errors import ConfigError
from config.load import load
from config.reference import json_schema, reference
from config.schema import Settings, SinkOptionTypes
from sinks import registry
from tests.config.options import TYPES

INSTALLED: SinkOptionTypes = {name: kind.options for name, kind in registry.types().items()}
COMMITTED = Path(__file__).parents[2] / "config" / "reference.yaml"
OFF = re.compile(r"^( *)#([a-z0-9_]+):")


def _load(tmp_path: Path, text: str, types: SinkOptionTypes = INSTALLED) -> Settings:
    file = tmp_path / "k.yaml"
    file.write_text(text)
    return load(file, {}, types)


def test_the_committed_reference_is_the_one_that_is_generated() -> None:
    assert COMMITTED.read_text() == reference(INSTALLED), "run `make reference`"


def test_the_reference_loads_as_it_stands(tmp_path: Path) -> None:
    settings = _load(tmp_path, reference(INSTALLED))
    assert settings.sinks.keys() == INSTALLED.keys()
    assert settings.telemetry == Settings.model_fields["telemetry"].default


def _with(text: str, number: int) -> str:
    """``text`` with the option that is commented out in line ``number`` switched on, and the mapping under it. All
    other comments are left out, because a loader reads them for most of its time."""
    lines = text.splitlines()
    indent = len(lines[number]) - len(lines[number].lstrip())
    block = number
    while block == number or (block < len(lines) and lines[block].startswith(" " * indent + "#  ")):
        lines[block] = lines[block].replace("#", "", 1)
        block += 1
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


@pytest.mark.parametrize("types", [TYPES, INSTALLED], ids=["sample sinks", "installed sinks"])
def test_each_option_may_be_switched_on_where_it_stands(tmp_path: Path, types: SinkOptionTypes) -> None:
    """One by one. Some need another one beside them; then that is what the error says, and nothing else."""
    text = reference(types)
    _load(tmp_path, text, types)
    options = [number for number, line in enumerate(text.splitlines()) if OFF.match(line)]
    assert len(options) > 20
    for number in options:
        try:
            _load(tmp_path, _with(text, number), types)
        except ConfigError as error:
            [problem] = error.problems
            assert len(problem.path) in (1, 2), str(problem)  # a section or a sink as a whole, never a value
            assert re.search(r"without|together|one of|belong|needs|exclude", problem.message), str(problem)


def _paths(schema: dict[str, Any], root: dict[str, Any]) -> set[str]:
    """Names of all options in a JSON Schema, wherever they stand."""
    if "$ref" in schema:
        return _paths(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    names = set(schema.get("properties", {}))
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", []), *schema.get("oneOf", [])]
    inner += [each for key in ("items", "additionalProperties") if isinstance(each := schema.get(key), dict)]
    return names.union(*(_paths(each, root) for each in inner))


def test_each_option_of_the_schema_is_in_the_reference() -> None:
    schema = json_schema(INSTALLED)
    text = reference(INSTALLED)
    written = set(re.findall(r"^[ #-]*([a-z0-9_]+):(?: |$)", text, re.MULTILINE))
    assert _paths(schema, schema) <= written
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if OFF.match(line):
            assert lines[number - 1].lstrip().startswith("# "), line


def test_every_option_is_described_in_the_schema() -> None:
    schema = json_schema(INSTALLED)

    def is_described(option: dict[str, Any]) -> bool:
        inner = schema["$defs"].get(option.get("$ref", "").rpartition("/")[2], {})
        either = any(map(is_described, option.get("anyOf", [])))
        return bool(option.get("description") or inner.get("description") or either)

    sections = {"the file": schema, **schema["$defs"]}
    undescribed = [
        f"{name} in {where}"
        for where, section in sections.items()
        for name, option in section.get("properties", {}).items()
        if not is_described(option)
    ]
    assert undescribed == []


def test_the_schema_is_json_of_2020_12_without_unknown_options() -> None:
    schema = json.loads(json.dumps(json_schema(TYPES)))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == ["cluster", "resources", "sinks"]
    assert schema["additionalProperties"] is False
    assert all(each["additionalProperties"] is False for each in schema["$defs"].values() if "properties" in each)


def test_the_schema_distinguishes_sinks_by_their_type() -> None:
    sink = json_schema(TYPES)["properties"]["sinks"]["additionalProperties"]
    assert sink["discriminator"]["propertyName"] == "type"
    assert set(sink["discriminator"]["mapping"]) == set(TYPES)


def test_a_resource_is_a_name_or_a_mapping_in_the_schema() -> None:
    items = json_schema(TYPES)["properties"]["resources"]["items"]
    assert [each["type"] for each in items["anyOf"] if "$ref" not in each] == ["string"]
    assert any("$ref" in each for each in items["anyOf"])
