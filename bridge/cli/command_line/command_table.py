"""The table of commands: name, help, arguments and function of each."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from bridge.cli.command_line.arguments import (
    AS_JSON,
    CONFIG,
    OWN_CONFIG,
    Argument,
    CommandSpec,
    Completes,
    account,
    count,
    duration,
    moment,
    rate,
)
from bridge.cli.command_line.state_commands import (
    CURSORS,
    DEAD_LETTERS,
    RELOAD,
    REPLAY,
    SINKS,
    SNAPSHOT,
    STATE,
    STATUS,
    TOP,
)

_NOISE_TIME = 10.0
"""Seconds."""
_SCHEMA = "bridge.cli.schema.commands"


def _without_reference(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    if values.pop("reference"):
        parser.error("--reference is for the configuration file alone")


def _of_a_cluster(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    if values["offline"] and values["noise"]:
        parser.error("--noise needs the cluster, and --offline asks none")
    # Behind a pipe nobody reads the hint, and a pipeline would be longer.
    if values["noise"] is None and not values["offline"] and sys.stdout.isatty():
        values["noise"] = _NOISE_TIME
    values["noise"] = values["noise"] or None


def _one_beginning(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    if values["from_start"]:
        values.update(lines=None, since=None)
    elif values["since"] is None and values["lines"] is None:
        values["lines"] = 10
    elif values["since"] is not None and values["lines"] is not None:
        parser.error("either --lines or --since")
    del values["from_start"]


RUN = CommandSpec(
    name="run",
    help="watch the configured resources and deliver their deltas, until SIGTERM",
    function="bridge.cli.running:run",
    arguments=(
        CONFIG,
        Argument(
            "--profile-stages",
            action="store_true",
            help="print CPU time by stage and wake-ups by thread to standard error: at the end, and at each SIGUSR1 "
            "since the last table",
        ),
    ),
)
CHECK = CommandSpec(
    name="check",
    help="check the file, the permissions and every sink, without delivering records",
    function="bridge.cli.commands:check",
    arguments=(
        CONFIG,
        Argument("--offline", action="store_true", help="check only the file"),
        Argument(
            "--noise",
            metavar="TIME",
            type=duration,
            nargs="?",
            const=_NOISE_TIME,
            help="watch updates for a time, e.g. 30s, and print the paths that change most often (on a terminal: 10s)",
        ),
        Argument("--no-noise", dest="noise", action="store_const", const=0.0, help="do not watch updates"),
    ),
    adjust=_of_a_cluster,
)
RBAC = CommandSpec(
    name="rbac",
    help="print the roles and bindings that the file needs, as YAML",
    function="bridge.cli.commands:rbac",
    arguments=(
        CONFIG,
        Argument(
            "--namespaced", action="store_true", help="only Roles in namespaces; an error if a resource needs more"
        ),
        Argument(
            "--service-account",
            metavar="NAMESPACE/NAME",
            type=account,
            default=account("kubedelta/kubedelta"),
            help="who gets the rights (default: kubedelta/kubedelta)",
        ),
        Argument("--name", default="kubedelta", help="of roles and bindings (default: kubedelta)"),
    ),
)
DEMO = CommandSpec(
    name="demo",
    help="show the deltas of a simulated cluster on the terminal",
    function="bridge.cli.demo.command:demo",
    arguments=(
        Argument("--for", dest="seconds", metavar="TIME", type=duration, help="end after, e.g. 5s or 2m"),
        Argument(
            "--rate",
            type=rate,
            default=5.0,
            metavar="N",
            help="changes per second, as far as this machine can (default: 5)",
        ),
    ),
)
SCHEMA = CommandSpec(
    name="schema",
    help="print the JSON Schema of the configuration file; of events; an AsyncAPI document",
    function=f"{_SCHEMA}:schema",
    arguments=(Argument("--reference", action="store_true", help="print every option as a commented file instead"),),
    actions=(
        CommandSpec(
            name="events",
            help="print the JSON Schema of the records that a sink sends",
            function=f"{_SCHEMA}:events",
            arguments=(CONFIG, Argument("--sink", metavar="NAME", completes=Completes.SINKS, help="only this sink")),
            adjust=_without_reference,
        ),
        CommandSpec(
            name="asyncapi",
            help="print an AsyncAPI 3 document of all sinks",
            function=f"{_SCHEMA}:asyncapi",
            arguments=(CONFIG,),
            adjust=_without_reference,
        ),
    ),
)
VERIFY = CommandSpec(
    name="verify",
    help="compare the records at a sink's destination with the cluster",
    function="bridge.cli.verify:verify",
    arguments=(
        Argument(
            "sink", metavar="SINK", completes=Completes.SINKS, help="a file, Kafka or NATS sink of the configuration"
        ),
        CONFIG,
        Argument(
            "--settle",
            metavar="TIME",
            type=duration,
            default=10.0,
            help="how long to wait for records on their way, e.g. 30s (default: 10s)",
        ),
        Argument("--limit", metavar="N", type=count, default=100, help="differences to print (default: 100)"),
        AS_JSON,
    ),
)
TAIL = CommandSpec(
    name="tail",
    help="print the records of a file or a sink as they come",
    function="bridge.cli.tail.command:tail",
    arguments=(
        Argument(
            "target",
            metavar="SINK|FILE",
            nargs="?",
            completes=Completes.SINKS_OR_FILES,
            help="a file of deltas, through its rotations; or a sink of the configuration: its file, topics, stream or "
            "subjects, or what the running bridge commits for it; without a name, for all",
        ),
        OWN_CONFIG,
        Argument("--resource", metavar="R", completes=Completes.RESOURCES, help="only this resource (kubectl's name)"),
        Argument("--namespace", metavar="N", help="only objects in this namespace"),
        Argument("--where", metavar="CEL", help="only records for which this holds: object.spec.replicas > 1"),
        Argument("--lines", metavar="N", type=count, help="begin with the last N records (default: 10)"),
        Argument("--since", metavar="TIME", type=moment, help="begin at a time: 10m ago, or 2026-11-21T08:30:00Z"),
        Argument(
            "--from-beginning", "--from-start", dest="from_start", action="store_true", help="begin with the oldest"
        ),
        Argument(
            "--follow",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="wait for further records (default), or end",
        ),
        Argument("--json", dest="as_json", action="store_true", help="print the records as JSON, a line each"),
    ),
    adjust=_one_beginning,
)

COMPLETION = CommandSpec(
    name="completion",
    help="print the completion script for a shell",
    function="bridge.cli.completion.command:completion",
    arguments=(
        Argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish"),
        Argument("--names", choices=("sinks", "resources"), help=argparse.SUPPRESS),
        Argument("--config", dest="file", help=argparse.SUPPRESS),
    ),
)

COMMANDS = (
    RUN,
    CHECK,
    RELOAD,
    RBAC,
    DEMO,
    TAIL,
    STATUS,
    TOP,
    SCHEMA,
    SINKS,
    VERIFY,
    REPLAY,
    SNAPSHOT,
    DEAD_LETTERS,
    CURSORS,
    STATE,
    COMPLETION,
)
