"""Names of sinks and resources in a configuration, for shells. Reads a file that may be wrong or half written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bridge.cli.command_line.arguments import Completes
from config.document import plain
from config.errors import ConfigError

_PLACES = ("kubedelta.yaml", "/etc/kubedelta/kubedelta.yaml")
"""Files that are looked for where the command line names none."""
_LARGEST = 1 << 20
"""Bytes."""
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*", re.ASCII)
"""Shells expand other characters."""


def names_in(file: str | None, kind: Completes) -> list[str]:
    """Empty without a file that can be read."""
    places = [file] if file else _PLACES
    for place in places:
        try:
            path = Path(place).expanduser()
            if path.is_file() and path.stat().st_size <= _LARGEST:
                found = sorted(set(_names(plain(path.read_text(), place), kind)))
                return [name for name in found if _HARMLESS.fullmatch(name)]
        except (OSError, ValueError, RuntimeError, ConfigError):
            continue
    return []


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
