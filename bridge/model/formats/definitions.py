"""Named JSON Schemas that others refer to."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

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
