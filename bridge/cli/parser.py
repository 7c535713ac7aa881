"""The words of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version

from bridge.cli.admin import parsers as admin_parser
from bridge.cli.arguments import Command, Parser, config_argument, duration, rate
from bridge.cli.verify.parsers import add_verify


def parse(arguments: Sequence[str]) -> Command:
    """What to do, ready to be called. Raises UsageError; `--help` and `--version` print and raise SystemExit(0)."""
    parser = Parser(
        prog="kubedelta", description="Ordered, deduplicated Kubernetes deltas to Kafka, NATS, webhooks, files."
    )
    parser.add_argument("--version", action="version", version=f"kubedelta {version('kubedelta')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    _add_run(commands.add_parser("run", help="watch what the file names and deliver it, until SIGTERM"))
    _add_check(commands.add_parser("check", help="try the file, the permissions and every sink; deliver nothing"))
    _add_demo(commands.add_parser("demo", help="a small cluster that lives, on the terminal; no cluster needed"))
    _add_schema(commands.add_parser("schema", help="print the JSON Schema of the configuration file"))
    _add_sinks(commands.add_parser("sinks", help="list the types of sinks there are; retry, pause or resume a sink"))
    add_verify(commands.add_parser("verify", help="compare what a sink holds with the cluster"))
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
        help="print to standard error where the CPU goes: at the end, and whenever SIGUSR1 comes, since the last time",
    )
    parser.set_defaults(command=command)


def _add_check(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.commands import check

        return partial(check, chosen.config, offline=chosen.offline)

    config_argument(parser)
    parser.add_argument("--offline", action="store_true", help="the file alone: ask neither the cluster nor the sinks")
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
        help="changes per second, about, or as many as this machine makes (default: 5)",
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
