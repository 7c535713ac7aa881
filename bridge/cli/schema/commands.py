"""The command schema and its actions. Each returns its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from bridge.cli.exits import Exit
from bridge.cli.schema.asyncapi import asyncapi_document
from bridge.cli.schema.events import NoSchema, events_schema, schema_of
from bridge.cli.settings import load_settings, sink_options
from bridge.cli.terminal.output import complain, say
from config.errors import ConfigError
from config.reference import json_schema
from config.reference import reference as reference_file
from config.schema import Settings


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
    try:
        say(json.dumps(document(load_settings(path)), indent=2))
    except (ConfigError, NoSchema) as error:
        complain(error)
        return Exit.CONFIG
    return Exit.OK
