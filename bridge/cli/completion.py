"""``kubedelta completion``: prints the completion script of a shell, or the names of sinks and resources that a script
asks for.

shtab makes the scripts of the parser, so they have every command and option with its help, and a key press starts no
process: argcomplete answers as well, but by a run of the program, a quarter of a second for each TAB. Only names of
sinks and resources take that time, because they come from the configuration file. That may be wrong or half written
while somebody types: without a readable file there are none, and a name that a shell would expand is left out.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shtab

from bridge.cli.arguments import Completes, default_file
from bridge.cli.command_line import build_parser
from bridge.cli.exits import Exit
from bridge.cli.terminal import say
from config.document import plain
from config.errors import ConfigError

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
        parser = build_parser()
        _mark(parser)
        say(shtab.complete(parser, shell, preamble=_FUNCTIONS[shell]))
    return Exit.OK


# ── Names in a configuration ─────────────────────────────────────────────────


def names_in(file: str | None, kind: Completes) -> list[str]:
    """Of ``file``, else of the file that a command would take. Empty without a file that can be read."""
    if not file:
        default = default_file()
        if default is None:
            return []
        file = str(default.path)
    try:
        path = Path(file).expanduser()
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


# ── Scripts ──────────────────────────────────────────────────────────────────


def _mark(parser: argparse.ArgumentParser) -> None:
    """Gives each argument the functions that complete its value, where shtab looks for them."""
    for action in parser._actions:  # argparse has no public way to ask.
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _mark(below)
        elif functions := _COMPLETERS.get(getattr(action, "completes", Completes.NOTHING)):
            action.complete = functions  # type: ignore[attr-defined]


_COMPLETERS: dict[Completes, shtab.CompleteType] = {
    Completes.FILES: shtab.FILE,
    Completes.SINKS: {
        "bash": "_kubedelta_sinks",
        "zsh": "{_kubedelta_names sinks}",
        "fish": "(__kubedelta_names sinks)",
    },
    Completes.RESOURCES: {
        "bash": "_kubedelta_resources",
        "zsh": "{_kubedelta_names resources}",
        "fish": "(__kubedelta_names resources)",
    },
    # shtab lets bash treat the words as paths where the function's name says so.
    Completes.SINKS_OR_FILES: {
        "bash": "_kubedelta_sinks_or_files",
        "zsh": "{_kubedelta_names sinks; _files}",
        "fish": "(__kubedelta_names sinks) (__fish_complete_path (commandline -ct))",
    },
}
_FUNCTIONS = {
    "bash": r"""
# Names in the configuration that the command line names.
_kubedelta_names() {
    local i file=""
    for ((i = 1; i < ${#COMP_WORDS[@]} - 1; i++)); do
        case ${COMP_WORDS[i]} in -c | --config) file=${COMP_WORDS[i + 1]} ;; esac
    done
    compgen -W "$("${COMP_WORDS[0]}" completion bash --names "$1" ${file:+--config "$file"} 2>/dev/null </dev/null)" \
        -- "$2"
}
_kubedelta_sinks() { _kubedelta_names sinks "$1"; }
_kubedelta_resources() { _kubedelta_names resources "$1"; }
_kubedelta_sinks_or_files() { _kubedelta_names sinks "$1"; compgen -f -- "$1"; }
""",
    "zsh": r"""
# Names in the configuration that the command line names.
_kubedelta_names() {
    local i
    local -a file
    for ((i = 2; i < ${#words}; i++)); do
        case ${words[i]} in (-c | --config) file=(--config ${(Q)words[i + 1]}) ;; esac
    done
    compadd -- ${(f)"$(kubedelta completion zsh --names "$1" "${file[@]}" 2>/dev/null </dev/null)"}
}
""",
    "fish": r"""
# Names in the configuration that the command line names.
function __kubedelta_names
    set -l words (commandline -op)
    set -l file
    for i in (seq (count $words))
        if contains -- $words[$i] -c --config; and set -q words[(math $i + 1)]
            set file --config $words[(math $i + 1)]
        end
    end
    $words[1] completion fish --names $argv[1] $file 2>/dev/null </dev/null
end
""",
}
