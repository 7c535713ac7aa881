"""The table of commands: name, help, arguments and function of each."""

from __future__ import annotations

import argparse
from typing import Any

from bridge.cli.arguments import (
    AS_JSON,
    CONFIG,
    SINK,
    Argument,
    CommandSpec,
    account,
    count,
    duration,
    number,
    rate,
    start,
)

_ADMIN = "bridge.cli.admin.commands"
_SCHEMA = "bridge.cli.schema.commands"
_NUMBERS = Argument("numbers", metavar="NUMBER", type=number, nargs="*", help="numbers from the list")
_ALL = Argument("--all", dest="every", action="store_true", help="all dead letters of the sink")


def _numbers_or_all(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    # argparse has no exclusive group of positional arguments and options.
    if bool(values["numbers"]) == values.pop("every"):
        parser.error("either the numbers of dead letters or --all is required")
    values["numbers"] = values["numbers"] or None


def _without_reference(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    if values.pop("reference"):
        parser.error("--reference is for the configuration file alone")


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
    arguments=(CONFIG, Argument("--offline", action="store_true", help="check only the file")),
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
            arguments=(CONFIG, Argument("--sink", metavar="NAME", help="only this sink")),
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
SINKS = CommandSpec(
    name="sinks",
    help="list the types of sinks; retry, pause or resume a sink",
    function="bridge.cli.commands:sinks",
    actions=(
        CommandSpec(
            name="retry",
            help="end a sink's wait for its next attempt",
            function=f"{_ADMIN}:retry_sink",
            arguments=(SINK, CONFIG, AS_JSON),
        ),
        CommandSpec(
            name="pause",
            help="stop deliveries to a sink until it is resumed, also across restarts",
            function=f"{_ADMIN}:pause_sink",
            arguments=(SINK, CONFIG, AS_JSON),
        ),
        CommandSpec(
            name="resume",
            help="resume deliveries to a paused sink",
            function=f"{_ADMIN}:resume_sink",
            arguments=(SINK, CONFIG, AS_JSON),
        ),
    ),
)
VERIFY = CommandSpec(
    name="verify",
    help="compare the records at a sink's destination with the cluster",
    function="bridge.cli.verify:verify",
    arguments=(
        Argument("sink", metavar="SINK", help="a file, Kafka or NATS sink of the configuration"),
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
REPLAY = CommandSpec(
    name="replay",
    help="deliver settled records to a sink again",
    function=f"{_ADMIN}:replay",
    arguments=(
        SINK,
        Argument(
            "--from",
            dest="start",
            metavar="START",
            type=start,
            required=True,
            help="a sequence number, a time such as 2026-11-21T08:30:00Z, or beginning",
        ),
        Argument("--resource", metavar="R", help="only this resource (kubectl's name)"),
        Argument("--namespace", metavar="N", help="only objects in this namespace"),
        CONFIG,
        AS_JSON,
    ),
)
DEAD_LETTERS = CommandSpec(
    name="dead-letters",
    help="rejected and parked records: list, show, retry, drop",
    actions=(
        CommandSpec(
            name="list",
            help="a line for each dead letter, oldest first",
            function=f"{_ADMIN}:list_dead_letters",
            arguments=(
                Argument("sink", metavar="SINK", nargs="?", help="only this sink"),
                CONFIG,
                Argument(
                    "--json",
                    dest="as_json",
                    action="store_true",
                    help="print a JSON object per dead letter instead, a line each",
                ),
            ),
        ),
        CommandSpec(
            name="show",
            help="a dead letter with its object",
            function=f"{_ADMIN}:show_dead_letter",
            arguments=(Argument("number", metavar="NUMBER", type=number), CONFIG, AS_JSON),
        ),
        CommandSpec(
            name="retry",
            help="deliver dead letters again, with the records parked behind them",
            function=f"{_ADMIN}:retry",
            arguments=(SINK, _NUMBERS, _ALL, CONFIG, AS_JSON),
            adjust=_numbers_or_all,
        ),
        CommandSpec(
            name="drop",
            help="drop dead letters; records parked behind them are delivered",
            function=f"{_ADMIN}:drop",
            arguments=(SINK, _NUMBERS, _ALL, CONFIG, AS_JSON),
            adjust=_numbers_or_all,
        ),
    ),
)
CURSORS = CommandSpec(
    name="cursors",
    help="each sink's cursor and backlog",
    function=f"{_ADMIN}:cursors",
    arguments=(CONFIG, AS_JSON),
)
STATE = CommandSpec(
    name="state",
    help="the state directory: check",
    actions=(
        CommandSpec(
            name="check",
            help="check integrity, print counts and sizes; exits 1 if the state has problems",
            function=f"{_ADMIN}:state_check",
            arguments=(CONFIG, AS_JSON),
        ),
    ),
)

COMMANDS = (RUN, CHECK, RBAC, DEMO, SCHEMA, SINKS, VERIFY, REPLAY, DEAD_LETTERS, CURSORS, STATE)
