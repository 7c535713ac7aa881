"""Compares every record at a destination with the schemas that ``kubedelta schema events`` prints for its sink."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs

from bridge.cli.schema import REFERENCE, payload_schema
from bridge.model.formats.definitions import Definitions
from sinks.base import SinkOptions, SinkType


class RecordSchemas:
    """The schemas of all options that a destination's sinks had. A record must be valid by those of one of them."""

    def __init__(self, kind: SinkType, cluster: str, default: Callable[[], SinkOptions]) -> None:
        """``default``: the options of a sink in another process."""
        self._default = default
        self._kind = kind
        self._cluster = cluster
        self._validators: dict[str, tuple[Any, Any]] = {}

    def learn(self, options: SinkOptions) -> None:
        definitions = Definitions(REFERENCE)
        assert self._kind.channels is not None
        schema = payload_schema("mine", self._kind.channels(options, self._cluster, definitions), definitions)
        text = json.dumps(schema)
        if text not in self._validators:
            headers = {"$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": "#/$defs/Headers"}
            payloads = jsonschema_rs.validator_for(schema)
            has_headers = "Headers" in schema["$defs"]
            self._validators[text] = payloads, jsonschema_rs.validator_for(headers) if has_headers else None

    def check(self, payload: bytes | None, headers: Mapping[str, str] | None = None) -> None:
        """``headers``: of a record in the binary form; None for a record without headers of its event."""
        if not self._validators:
            self.learn(self._default())
        is_text = (headers or {}).get("content-type", "").startswith("text/")
        value = None if payload is None else payload.decode() if is_text else json.loads(payload)
        errors = [
            error
            for payloads, of_headers in self._validators.values()
            for error in [_error(payloads, value) or (_error(of_headers, headers) if headers is not None else None)]
        ]
        assert None in errors, f"no schema of {self._kind.name} has this record: {errors}"


def _error(validator: Any, value: Any) -> str | None:
    if validator is None:
        return "the schema has no headers"
    return next((f"{error.instance_path}: {error.message[:200]}" for error in validator.iter_errors(value)), None)
