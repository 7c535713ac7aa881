"""values.schema.json: the options of the configuration under ``config``, beside the other values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from config.reference import json_schema
from deploy.generator.values import Values
from sinks import registry

_REFUSING = re.compile(r"\^\(\?:\(\?!(?P<refused>[^()]*|.*\$)\)(?P<taken>.*)\)\$", re.DOTALL)


def values_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) for the values, in the regular expressions of Go."""
    options = json_schema({name: kind.options for name, kind in registry.types().items()})
    values = Values.model_json_schema()
    head = {name: options.pop(name) for name in ("$schema", "title")}
    definitions = {**options.pop("$defs"), **values.pop("$defs")}
    # A mapping of defaults would merge with the operator's own, so the chart's own configuration stands in a file.
    config = {
        "description": "The contents of kubedelta.yaml. Empty for files/kubedelta.yaml.",
        "type": "object",
        "default": {},
        "if": {"minProperties": 1},
        "then": {"$ref": "#/$defs/Settings"},
    }
    # Helm hands the values of a parent chart down as `global`.
    properties = {"config": config, "global": {"type": "object"}, **values.pop("properties")}
    schema = {**head, **values, "description": "The values of kubedelta's chart.", "properties": properties}
    definitions["Settings"] = options
    in_go: dict[str, Any] = _in_go({**schema, "$defs": definitions})
    return in_go


def _in_go(schema: Any) -> Any:
    """The same schema without titles, and without lookahead, which Go's regular expressions lack. A choice by ``type``
    becomes one condition for each type, so that an error is about the type that was written."""
    if isinstance(schema, list):
        return [_in_go(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {name: _in_go(value) for name, value in schema.items() if name != "title" or not isinstance(value, str)}
    if isinstance(made.get("pattern"), str) and (found := _REFUSING.fullmatch(made["pattern"])):
        made["pattern"] = f"^(?:{found['taken']})$"
        made["not"] = {"pattern": f"^{found['refused']}"}
    if types := made.pop("discriminator", {}).get("mapping"):
        del made["oneOf"]
        made |= {"required": ["type"], "properties": {"type": {"enum": sorted(types)}}}
        made["allOf"] = [
            {"if": {"properties": {"type": {"const": name}}, "required": ["type"]}, "then": {"$ref": target}}
            for name, target in sorted(types.items())
        ]
    return made
