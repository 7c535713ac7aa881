"""Collects named JSON Schemas that others refer to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

import msgspec

from bridge.model.formats.content import Include

JsonSchema: TypeAlias = dict[str, Any]

_STATE: JsonSchema = {
    "title": "An object of the Kubernetes API",
    "description": "As the API server sent it, stripped and redacted. Its kind has a schema of its own.",
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "namespace": {"type": "string"},
                "uid": {"type": "string"},
                "resourceVersion": {"type": "string"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
    },
    "additionalProperties": True,
}
_DIFFERENCES: dict[Include, JsonSchema] = {
    Include.PATCH: {
        "type": ["object", "null"],
        "description": "The merge patch (RFC 7396) from before to after; null also where none leads there.",
    },
    Include.JSON_PATCH: {
        "type": ["array", "null"],
        "description": "The JSON patch (RFC 6902) from before to after, if known.",
        "items": {
            "type": "object",
            "properties": {"op": {"enum": ["add", "remove", "replace"]}, "path": {"type": "string"}},
            "required": ["op", "path"],
        },
    },
    Include.CHANGED: {
        "type": ["array", "null"],
        "description": "The paths at which before and after differ, if known, without counters of the API server.",
        "items": {"type": "string"},
    },
    Include.MANAGERS: {
        "type": ["array", "null"],
        "description": "The field managers that changed something in this step, if known; of a new object all.",
        "items": {
            "type": "object",
            "properties": {
                "manager": {"type": "string", "description": "The program, by its own name, such as kubectl-edit."},
                "operation": {"type": "string", "description": "Apply, or Update for every other way to write."},
                "subresource": {"type": "string", "description": "Such as status; empty for the object itself."},
                "time": {"type": "string", "description": "RFC 3339, in whole seconds."},
            },
            "required": ["manager", "operation", "subresource", "time"],
        },
    },
}
_TEXT: JsonSchema = {"type": ["string", "null"], "contentMediaType": "application/json"}


class Definitions:
    """Collects definitions. Consumers must accept members that a schema does not name: later versions may add some."""

    def __init__(self, reference: str) -> None:
        """``reference``: a template of references, such as ``#/$defs/{name}``."""
        self._reference = reference
        self.found: dict[str, JsonSchema] = {}

    def add(self, name: str, schema: JsonSchema) -> JsonSchema:
        """Returns a reference to the schema."""
        self.found[name] = schema
        return {"$ref": self._reference.format(name=name)}

    def state(self) -> JsonSchema:
        """The state of an object."""
        return self.add("Object", _STATE)

    def state_or_null(self, description: str) -> JsonSchema:
        return {"anyOf": [self.state(), {"type": "null"}], "description": description}

    def differences(self, include: Collection[Include], *, as_text: bool = False) -> dict[str, Any]:
        """The schemas of the further members that are made; None for those that are not included. ``as_text``: they are
        texts with JSON in them."""
        return {
            str(each): None
            if each not in include
            else _TEXT | {"description": schema["description"]}
            if as_text
            else schema
            for each, schema in _DIFFERENCES.items()
        }

    def struct(self, struct: type, *, name: str = "", **members: JsonSchema | None) -> JsonSchema:
        """The schema of an encoded struct under its own name, or ``name``. ``members``: schemas in place of those that
        the struct's types give; None for a member that is left out."""
        _, components = msgspec.json.schema_components([struct], ref_template=self._reference)
        schema = dict(components.pop(struct.__name__))
        own = schema["properties"]
        schema["properties"] = {
            member: _described(own[member], members.get(member, own[member]))
            for member in own
            if members.get(member, own[member]) is not None
        }
        schema["required"] = [member for member in schema["required"] if member in schema["properties"]]
        schema["title"] = name or struct.__name__
        self.found |= components
        return self.add(name or struct.__name__, schema)


def _described(own: JsonSchema, schema: JsonSchema | None) -> JsonSchema:
    """The schema with the description of the struct's member."""
    described = {key: own[key] for key in ("description",) if key in own}
    return described | (schema or {})
