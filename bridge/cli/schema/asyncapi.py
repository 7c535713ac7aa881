"""An AsyncAPI 3 document: where each sink sends which messages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from bridge.cli.schema.events import channels_of
from bridge.model.formats.definitions import Definitions, JsonSchema
from config.schema import Settings
from sinks.base import Channel

_BINDINGS = {"kafka": "kafka", "kafka-secure": "kafka"}


def asyncapi_document(settings: Settings) -> JsonSchema:
    """Servers, channels and operations of all sinks. A webhook's channel has no address, since a URL may be a
    credential. Raises NoSchema."""
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
