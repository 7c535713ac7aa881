"""Loads the configuration of a command."""

from __future__ import annotations

import os
from pathlib import Path

from config.load import load
from config.schema import Settings, SinkOptionTypes
from sinks import registry


def load_settings(path: Path) -> Settings:
    """The file, with the environment's variables over it. Raises ConfigError with every mistake."""
    return load(path, os.environ, sink_options())


def sink_options() -> SinkOptionTypes:
    """Options of each installed type of sink."""
    return {name: kind.options for name, kind in registry.types().items()}
