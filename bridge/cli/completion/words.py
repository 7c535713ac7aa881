"""Collects the words of the command line, as its parser has them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bridge.cli.arguments import Completes

_ANY = ("*", "+")


@dataclass(frozen=True, slots=True)
class ExpectedWord:
    """The value of an option or of a positional argument."""

    completes: Completes = Completes.NOTHING
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OptionWords:
    names: tuple[str, ...]
    """``-c`` and ``--config``."""
    help: str
    value: ExpectedWord | None
    """None for an option without a value."""


@dataclass(frozen=True, slots=True)
class CommandWords:
    """The words behind a command."""

    commands: Mapping[str, str]
    """Command or action → help."""
    options: Sequence[OptionWords]
    positionals: Sequence[ExpectedWord]
    repeats: bool
    """The last positional argument may come again."""


def words_of(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, CommandWords]]:
    """The words of the command at ``path`` (``dead-letters list``), and of those below it."""
    commands: dict[str, str] = {}
    below: dict[str, argparse.ArgumentParser] = {}
    options: list[OptionWords] = []
    positionals: list[ExpectedWord] = []
    repeats = False
    for action in parser._actions:  # argparse has no public way to ask.
        if isinstance(action, argparse._SubParsersAction):
            below = dict(action.choices)
            commands = {each.dest: each.help or "" for each in action._choices_actions}
        elif action.help == argparse.SUPPRESS:
            continue
        elif action.option_strings:
            options.append(OptionWords(tuple(action.option_strings), action.help or "", _value(action)))
        else:
            positionals.append(_expected(action))
            repeats = action.nargs in _ANY
    yield path, CommandWords(commands, options, positionals, repeats)
    for name, each in below.items():
        yield from words_of(each, f"{path} {name}".strip())


def _value(action: argparse.Action) -> ExpectedWord | None:
    return None if action.nargs == 0 else _expected(action)


def _expected(action: argparse.Action) -> ExpectedWord:
    choices = tuple(map(str, action.choices or ()))
    return ExpectedWord(getattr(action, "completes", Completes.NOTHING), choices)
