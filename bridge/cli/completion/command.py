"""``kubedelta completion``: prints the completion script of a shell, or the names of sinks and resources that a script
asks for.

The names come from a configuration file that may be wrong or half written, while somebody types: without a readable
file there are none, and a name that a shell would expand is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bridge.cli.arguments import Completes
from bridge.cli.command_line import build_parser
from bridge.cli.completion import bash, fish, zsh
from bridge.cli.completion.words import words_of
from bridge.cli.default_file import DefaultFile, default_file
from bridge.cli.exits import Exit
from bridge.cli.terminal import say
from config.document import plain
from config.errors import ConfigError

_SCRIPTS = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}
_LARGEST = 1 << 20
"""Bytes."""
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*", re.ASCII)
"""Shells expand other characters."""


def completion(shell: str, *, names: str | None, file: str | None) -> int:
    """``names``: prints these names of the configuration ``file`` in place of the script."""
    if names is not None:
        for name in names_in(file, Completes(names)):
            say(name)
    else:
        say(_SCRIPTS[shell](dict(words_of(build_parser()))))
    return Exit.OK


def names_in(file: str | None, kind: Completes) -> list[str]:
    """Of ``file``, else of the file that a command would take. Empty without a file that can be read."""
    found = DefaultFile(Path(file), "named") if file else default_file()
    if found is None:
        return []
    try:
        path = found.path.expanduser()
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return []
        names = sorted(set(_names(plain(path.read_text(), str(path)), kind)))
    except (OSError, ValueError, RuntimeError, ConfigError):
        return []
    return [name for name in names if _HARMLESS.fullmatch(name)]


def _names(document: Any, kind: Completes) -> Iterator[str]:
    if not isinstance(document, dict):
        return
    if kind is not Completes.RESOURCES:
        sinks = document.get("sinks")
        yield from map(str, sinks if isinstance(sinks, dict) else ())
        return
    resources = document.get("resources")
    for each in resources if isinstance(resources, list) else ():
        name = each.get("name") if isinstance(each, dict) else each
        if isinstance(name, str):
            yield name
