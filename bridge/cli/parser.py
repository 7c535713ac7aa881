"""The command line: commands and their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version

from bridge.cli.admin import parsers as admin_parser
from bridge.cli.arguments import Command, Parser, config_argument, duration, rate
from bridge.cli.verify.parsers import add_verify


def parse(arguments: Sequence[str]) -> Command:
    """Returns the command as a function without arguments. Raises UsageError; `--help` and `--version` print and raise
    SystemExit(0)."""
    parser = Parser(
        prog="kubedelta", description="Ordered, deduplicated Kubernetes deltas to Kafka, NATS, webhooks, files."
    )
    parser.add_argument("--version", action="version", version=f"kubedelta {version('kubedelta')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    _add_run(commands.add_parser("run", help="watch the configured resources and deliver their deltas, until SIGTERM"))
    _add_check(
        commands.add_parser("check", help="check the file, the permissions and every sink, without delivering records")
    )
    _add_demo(commands.add_parser("demo", help="show the deltas of a simulated cluster on the terminal"))
    _add_schema(commands.add_parser("schema", help="print the JSON Schema of the configuration file"))
    _add_sinks(commands.add_parser("sinks", help="list the types of sinks; retry, pause or resume a sink"))
    add_verify(commands.add_parser("verify", help="compare the records at a sink's destination with the cluster"))
    admin_parser.add_to(commands)
    chosen = parser.parse_args(arguments)
    return chosen.command(chosen)  # type: ignore[no-any-return]


def _add_run(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.running import run

        return partial(run, chosen.config, profile_stages=chosen.profile_stages)

    config_argument(parser)
    parser.add_argument(
        "--profile-stages",
        action="store_true",
        help="print CPU time by stage to standard error: at the end, and at each SIGUSR1 since the last table",
    )
    parser.set_defaults(command=command)


def _add_check(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.commands import check

        return partial(check, chosen.config, offline=chosen.offline)

    config_argument(parser)
    parser.add_argument("--offline", action="store_true", help="check only the file")
    parser.set_defaults(command=command)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.demo.command import demo

        return partial(demo, seconds=chosen.seconds, rate=chosen.rate)

    parser.add_argument("--for", dest="seconds", metavar="TIME", type=duration, help="end after, e.g. 5s or 2m")
    parser.add_argument(
        "--rate",
        type=rate,
        default=5.0,
        metavar="N",
        help="changes per second, as far as this machine can (default: 5)",
    )
    parser.set_defaults(command=command)


def _add_schema(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.commands import schema

        return partial(schema, reference=chosen.reference)

    parser.add_argument("--reference", action="store_true", help="print every option as a commented file instead")
    parser.set_defaults(command=command)


def _add_sinks(parser: argparse.ArgumentParser) -> None:
    def command(_: argparse.Namespace) -> Command:
        from bridge.cli.commands import sinks

        return sinks

    parser.set_defaults(command=command)
    admin_parser.add_sink_actions(parser)
