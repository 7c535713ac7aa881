"""The configuration file that a command was given."""

from __future__ import annotations

import os
from pathlib import Path

from config.load import load
from config.schema import Settings, SinkOptionTypes
from sinks import registry


def load_settings(path: Path) -> Settings:
    """The whole file, with the variables of the environment over it. Raises ConfigError with every mistake in it."""
    return load(path, os.environ, sink_options())


def sink_options() -> SinkOptionTypes:
    """What may be set for each type of sink that is installed."""
    return {name: kind.options for name, kind in registry.types().items()}
