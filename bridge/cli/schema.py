"""``kubedelta schema``: prints the JSON Schema of the configuration file, of the records that sinks send (``schema
events``), or an AsyncAPI 3 document of where each sink sends which messages (``schema asyncapi``).

The schemas of records are JSON Schema (2020-12): of a record's value, a message's payload, a body, or a line. Each type
of sink describes its own channels, from its options; no destination is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from bridge.cli.exits import CommandEnds, Exit
from bridge.cli.settings import load_settings, sink_options
from bridge.cli.terminal import say
from bridge.model.formats.definitions import Definitions, JsonSchema
from config.reference import json_schema
from config.reference import reference as reference_file
from config.schema import Settings
from sinks import registry
from sinks.base import Channel


def schema(*, reference: bool) -> int:
    """Prints the JSON Schema of the configuration, or the commented reference file."""
    types = sink_options()
    say(reference_file(types).rstrip("\n") if reference else json.dumps(json_schema(types), indent=2))
    return Exit.OK


def events(path: Path, *, sink: str | None) -> int:
    """Prints the JSON Schema of the records that ``sink`` sends, or of those of all sinks. Asks no destination."""
    return _print(path, lambda settings: events_schema(settings) if sink is None else schema_of(settings, sink))


def asyncapi(path: Path) -> int:
    """Prints the AsyncAPI document of all sinks. Asks no destination."""
    return _print(path, asyncapi_document)


def _print(path: Path, document: Callable[[Settings], object]) -> int:
    say(json.dumps(document(load_settings(path)), indent=2))
    return Exit.OK


# ── Schemas of records ───────────────────────────────────────────────────────

REFERENCE = "#/$defs/{name}"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def events_schema(settings: Settings) -> JsonSchema:
    """The schemas of all sinks, each with an id of its own. Raises CommandEnds."""
    schemas = {sink: schema_of(settings, sink) for sink in settings.sinks}
    return {
        "$schema": _DIALECT,
        "title": f"Records of the cluster {settings.cluster.name}",
        "anyOf": [{"$ref": schema["$id"]} for schema in schemas.values()],
        "$defs": schemas,
    }


def schema_of(settings: Settings, sink: str) -> JsonSchema:
    """The schema of a sink's payloads. ``$defs.Headers`` is the schema of the headers, if the sink sends any. Raises
    CommandEnds."""
    definitions = Definitions(REFERENCE)
    return payload_schema(sink, channels_of(settings, sink, definitions), definitions)


def channels_of(settings: Settings, sink: str, definitions: Definitions) -> Sequence[Channel]:
    """The channels of a sink; the definitions of their schemas are added. Raises CommandEnds."""
    if sink not in settings.sinks:
        raise CommandEnds(Exit.CONFIG, f"sinks: there is no sink {sink}; allowed: {', '.join(settings.sinks)}")
    chosen = settings.sinks[sink]
    kind = registry.types()[chosen.type]
    if kind.channels is None:
        raise CommandEnds(Exit.CONFIG, f"sinks.{sink}: the type {chosen.type} does not describe its records")
    return kind.channels(chosen.options, settings.cluster.name, definitions)


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


def _each_once(schemas: Sequence[JsonSchema]) -> list[JsonSchema]:
    found: list[JsonSchema] = []
    for schema in schemas:
        if schema not in found:
            found.append(schema)
    return found


# ── The AsyncAPI document ────────────────────────────────────────────────────

_BINDINGS = {"kafka": "kafka", "kafka-secure": "kafka"}


def asyncapi_document(settings: Settings) -> JsonSchema:
    """Servers, channels and operations of all sinks. A webhook's channel has no address, since a URL may be a
    credential. Raises CommandEnds."""
    servers: JsonSchema = {}
    channels: JsonSchema = {}
    operations: JsonSchema = {}
    messages: JsonSchema = {}
    schemas: JsonSchema = {}
    for sink in settings.sinks:
        definitions = Definitions(f"#/components/schemas/{sink}.{{name}}")
        for channel in channels_of(settings, sink, definitions):
            name = f"{sink}.{channel.name}"
            if channel.host:
                servers[sink] = {"host": channel.host, "protocol": channel.protocol}
            channels[name] = _channel(sink, channel)
            operations[name] = {"action": "send", "channel": {"$ref": f"#/channels/{name}"}}
            messages |= dict(_messages(name, channel))
        schemas |= {f"{sink}.{name}": schema for name, schema in definitions.found.items()}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": f"Changes of the cluster {settings.cluster.name}", "version": version("kubedelta")},
        "defaultContentType": "application/json",
        "servers": servers,
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages, "schemas": schemas},
    }


def _channel(sink: str, channel: Channel) -> JsonSchema:
    found: JsonSchema = {
        "address": channel.address,
        "messages": {
            message.name: {"$ref": f"#/components/messages/{sink}.{channel.name}.{message.name}"}
            for message in channel.messages
        },
    }
    if channel.host:
        found["servers"] = [{"$ref": f"#/servers/{sink}"}]
    if channel.parameters:
        found["parameters"] = {name: {"description": text} for name, text in channel.parameters.items()}
    return found


def _messages(name: str, channel: Channel) -> Iterator[tuple[str, JsonSchema]]:
    for message in channel.messages:
        found: JsonSchema = {"name": message.name, "contentType": message.content_type, "payload": message.payload}
        if message.headers is not None:
            found["headers"] = message.headers
        if channel.key is not None:
            found["bindings"] = {_BINDINGS[channel.protocol]: {"key": channel.key}}
        yield f"{name}.{message.name}", found
