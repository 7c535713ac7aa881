"""Loads the configuration of a command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bridge.cli.terminal import complain
from config.errors import ConfigError, Problem
from config.load import load, state_directory
from config.schema import Settings, SinkOptionTypes
from sinks import registry

_INSTEAD = "names the state directory of a running bridge, in place of a file that cannot be used"


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """The configuration as far as a command on a running bridge needs it: the state directory is enough, so a file that
    became invalid takes no command away."""

    path: Path
    directory: Path
    settings: Settings | ConfigError
    """ConfigError: every mistake in the file."""

    @property
    def file(self) -> str:
        """The file as a running bridge names it (``About.file``)."""
        return str(self.path.parent.resolve() / self.path.name)

    def required(self) -> Settings:
        """Raises ConfigError."""
        if isinstance(self.settings, ConfigError):
            raise self.settings
        return self.settings

    def warn(self) -> None:
        """Tells on standard error that the file is invalid, if it is."""
        if isinstance(self.settings, ConfigError):
            complain(f"{self.settings}\nwarning: {self.path} is invalid; going on with the bridge on {self.directory}")


def load_settings(path: Path) -> Settings:
    """The file, with the environment's variables over it. Raises ConfigError with every mistake."""
    return load(path, os.environ, sink_options())


def operator_settings(path: Path) -> OperatorSettings:
    """Raises ConfigError only if the state directory is not known."""
    try:
        settings = load_settings(path)
    except ConfigError as error:
        directory = state_directory(path, os.environ)
        if directory is None:
            raise ConfigError([*error.problems, Problem("KUBEDELTA__STATE__DIRECTORY", (), _INSTEAD)]) from error
        return OperatorSettings(path, directory, error)
    return OperatorSettings(path, settings.state.directory, settings)


def sink_options() -> SinkOptionTypes:
    """Options of each installed type of sink."""
    return {name: kind.options for name, kind in registry.types().items()}
