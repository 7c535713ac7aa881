"""Parses the command line: from the table of commands to the chosen function with its arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any, TypeAlias

from bridge.cli.arguments import CONFIG, Command, CommandSpec, IntermixedParser, Parser
from bridge.cli.command_table import COMMANDS, RUN
from bridge.cli.default_file import NO_FILE, DefaultFile, default_file
from bridge.cli.terminal import complain

Subparsers: TypeAlias = "argparse._SubParsersAction[Any]"


def parse(arguments: Sequence[str]) -> Command:
    """Returns the chosen command as a function without parameters, which returns the exit code. Raises UsageError;
    `--help` and `--version` print and raise SystemExit(0)."""
    values = vars(build_parser().parse_args(arguments))
    spec, chosen = values.pop("spec"), values.pop("parser")
    if spec.adjust is not None:
        spec.adjust(chosen, values)
    default = None
    if CONFIG in spec.arguments and values["path"] is None:
        default = default_file() or chosen.error(f"{NO_FILE}: name one with -c")
        values["path"] = default.path
    _import_lean()
    module, _, function = spec.function.partition(":")
    command = partial(getattr(import_module(module), function), **values)
    return command if default is None or spec is RUN else partial(_naming, default, command)


def _naming(default: DefaultFile, command: Command) -> int:
    """A command that fails names the file that nobody named. ``run`` logs it in any case."""
    if code := command():
        complain(f"the configuration is {default}; -c names another")
    return code


def build_parser() -> Parser:
    """The parser of the whole table."""
    parser = Parser(
        prog="kubedelta", description="Ordered, deduplicated Kubernetes deltas to Kafka, NATS, webhooks, files."
    )
    parser.add_argument("--version", action="version", version=f"kubedelta {version('kubedelta')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for spec in COMMANDS:
        _add(commands, spec)
    return parser


def _add(parsers: Subparsers, spec: CommandSpec) -> None:
    parser = parsers.add_parser(spec.name, help=spec.help)
    for argument in spec.arguments:
        argument.add_to(parser)
    # An action's defaults replace its command's, since argparse parses the action last.
    parser.set_defaults(spec=spec, parser=parser)
    if spec.actions:
        actions = parser.add_subparsers(
            title="actions", metavar="ACTION", required=not spec.function, parser_class=IntermixedParser
        )
        for action in spec.actions:
            _add(actions, action)


def _import_lean() -> None:
    """Imports structlog and httpx first, each without an optional library: structlog renders tracebacks with rich, of
    which logs have none, and httpx has a command line of click and rich. Together a twelfth of a start."""
    for library, optional in (("structlog", "rich"), ("httpx", "click")):
        with _absent(optional):
            import_module(library)


@contextmanager
def _absent(library: str) -> Iterator[None]:
    """Within the block, an import of ``library`` raises ImportError, unless an earlier import succeeded."""
    missing: dict[str, None] = {} if library in sys.modules else {library: None}
    sys.modules.update(missing)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]
