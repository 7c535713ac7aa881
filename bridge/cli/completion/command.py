"""Prints the completion script of a shell, or the names that a script asks for."""

from __future__ import annotations

from bridge.cli.command_line.arguments import Completes
from bridge.cli.command_line.parser import build_parser
from bridge.cli.completion import bash, fish, zsh
from bridge.cli.completion.names import names_in
from bridge.cli.completion.words import words_of
from bridge.cli.exits import Exit
from bridge.cli.terminal.output import say

_SCRIPTS = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}


def completion(shell: str, *, names: str | None, file: str | None) -> int:
    """``names``: prints these names of the configuration ``file`` in place of the script."""
    if names is not None:
        for name in names_in(file, Completes(names)):
            say(name)
    else:
        say(_SCRIPTS[shell](dict(words_of(build_parser()))))
    return Exit.OK
