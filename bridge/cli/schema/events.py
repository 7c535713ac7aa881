"""JSON Schema (2020-12) of the records that sinks send: of a record's value, a message's payload, a body, or a line."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.formats.definitions import Definitions, JsonSchema
from config.schema import Settings
from sinks import registry
from sinks.base import Channel

REFERENCE = "#/$defs/{name}"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class NoSchema(Exception):
    """There is no such sink, or its type does not describe its records. The message names the sink."""


def channels_of(settings: Settings, sink: str, definitions: Definitions) -> Sequence[Channel]:
    """The channels of a sink; the definitions of their schemas are added. Raises NoSchema."""
    if sink not in settings.sinks:
        raise NoSchema(f"sinks: there is no sink {sink}; allowed: {', '.join(settings.sinks)}")
    chosen = settings.sinks[sink]
    kind = registry.types()[chosen.type]
    if kind.channels is None:
        raise NoSchema(f"sinks.{sink}: the type {chosen.type} does not describe its records")
    return kind.channels(chosen.options, settings.cluster.name, definitions)


def schema_of(settings: Settings, sink: str) -> JsonSchema:
    """The schema of a sink's payloads. ``$defs.Headers`` is the schema of the headers, if the sink sends any. Raises
    NoSchema."""
    definitions = Definitions(REFERENCE)
    return payload_schema(sink, channels_of(settings, sink, definitions), definitions)


def payload_schema(sink: str, channels: Sequence[Channel], definitions: Definitions) -> JsonSchema:
    """``definitions``: of the schemas of these channels, with references of the form ``REFERENCE``."""
    messages = [message for channel in channels for message in channel.messages]
    if headers := [message.headers for message in messages if message.headers is not None]:
        definitions.add("Headers", {"anyOf": _each_once(headers)})
    return {
        "$schema": _DIALECT,
        "$id": f"urn:kubedelta:sinks:{sink}",
        "title": f"Records of the sink {sink}",
        "anyOf": _each_once([message.payload for message in messages]),
        "$defs": definitions.found,
    }


def events_schema(settings: Settings) -> JsonSchema:
    """The schemas of all sinks, each with an id of its own. Raises NoSchema."""
    schemas = {sink: schema_of(settings, sink) for sink in settings.sinks}
    return {
        "$schema": _DIALECT,
        "title": f"Records of the cluster {settings.cluster.name}",
        "anyOf": [{"$ref": schema["$id"]} for schema in schemas.values()],
        "$defs": schemas,
    }


def _each_once(schemas: Sequence[JsonSchema]) -> list[JsonSchema]:
    found: list[JsonSchema] = []
    for schema in schemas:
        if schema not in found:
            found.append(schema)
    return found
