"""Loads the configuration of a command, and words errors in it."""

from __future__ import annotations

import os
from pathlib import Path

from bridge.kube import CredentialsError
from config.load import load
from config.schema import Settings, SinkOptionTypes
from sinks import registry


def load_settings(path: Path) -> Settings:
    """The file, with the environment's variables over it. Raises ConfigError with every mistake."""
    return load(path, os.environ, sink_options())


def sink_options() -> SinkOptionTypes:
    """Options of each installed type of sink."""
    return {name: kind.options for name, kind in registry.types().items()}


def of_cluster(error: CredentialsError) -> str:
    """The error behind its option; behind ``cluster`` if no option is to blame."""
    return str(error) if str(error).startswith("cluster.") else f"cluster: {error}"
