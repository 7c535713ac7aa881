"""The part of the table about the state, and the running bridge that has it."""

from __future__ import annotations

import argparse
from typing import Any

from bridge.cli.command_line.arguments import (
    AS_JSON,
    CONFIG,
    SINK,
    Argument,
    CommandSpec,
    Completes,
    count,
    duration,
    json_form,
    number,
    start,
)

_ADMIN = "bridge.cli.admin.commands"
_NUMBERS = Argument("numbers", metavar="NUMBER", type=number, nargs="*", help="numbers from the list")
_ALL = Argument("--all", dest="every", action="store_true", help="all dead letters of the sink")


def _numbers_or_all(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    # argparse has no exclusive group of positional arguments and options.
    if bool(values["numbers"]) == values.pop("every"):
        parser.error("either the numbers of dead letters or --all is required")
    values["numbers"] = values["numbers"] or None


def _one_purpose(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    asks = values["status"] or values["cancel"]
    if values["status"] and values["cancel"]:
        parser.error("either --status or --cancel")
    if asks and (values["wait"] or any(values[each] is not None for each in ("resource", "namespace", "where"))):
        parser.error("--resource, --namespace, --where and --wait are for a new snapshot")
    if values["sink"] is None and not values["status"]:
        parser.error("the name of a sink is required")


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
        Argument("--resource", metavar="R", completes=Completes.RESOURCES, help="only this resource (kubectl's name)"),
        Argument("--namespace", metavar="N", help="only objects in this namespace"),
        Argument("--wait", action="store_true", help="wait until a running bridge has delivered them"),
        CONFIG,
        AS_JSON,
    ),
)
SNAPSHOT = CommandSpec(
    name="snapshot",
    help="deliver the known objects to a sink once more; its progress, and its end before its time",
    function="bridge.cli.admin.snapshot:snapshot",
    arguments=(
        Argument(
            "sink", metavar="SINK", nargs="?", completes=Completes.SINKS, help="the sink; with --status, all without it"
        ),
        Argument("--resource", metavar="R", completes=Completes.RESOURCES, help="only this resource (kubectl's name)"),
        Argument("--namespace", metavar="N", help="only objects in this namespace"),
        Argument("--where", metavar="CEL", help="only objects for which this holds: object.spec.replicas > 1"),
        Argument("--wait", action="store_true", help="wait until a running bridge has delivered it"),
        Argument("--status", action="store_true", help="print the newest snapshot, and how far it is delivered"),
        Argument("--cancel", action="store_true", help="end the snapshot behind the objects that the sink has taken"),
        CONFIG,
        AS_JSON,
    ),
    adjust=_one_purpose,
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
                Argument("sink", metavar="SINK", nargs="?", completes=Completes.SINKS, help="only this sink"),
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
STATUS = CommandSpec(
    name="status",
    help="what is wrong, and the next command to type; exits 0 if all is well",
    function="bridge.cli.status:status",
    arguments=(
        CONFIG,
        AS_JSON,
        Argument("-o", dest="as_json", metavar="json", type=json_form, help="the same as --json, as kubectl has it"),
    ),
)
TOP = CommandSpec(
    name="top",
    help="show resources and sinks of the running bridge: rates, lag, backlog, errors",
    function="bridge.cli.top.command:top",
    arguments=(
        CONFIG,
        Argument("--once", action="store_true", help="print one table and end"),
        Argument(
            "--interval",
            dest="seconds",
            metavar="TIME",
            type=duration,
            default=2.0,
            help="between two looks; rates are of the last one (default: 2s)",
        ),
        Argument(
            "--sort",
            dest="order",
            choices=("name", "rate", "lag", "errors"),
            default="name",
            help="the order of rows, or the largest first (default: name)",
        ),
    ),
)
RELOAD = CommandSpec(
    name="reload",
    help="let the running bridge read its configuration again, and print what changed",
    function="bridge.cli.admin.reload:reload",
    arguments=(
        CONFIG,
        Argument(
            "--allow-deletes",
            metavar="N",
            type=count,
            default=0,
            help="accept a change that exports up to N objects as deleted (default: 1000)",
        ),
        AS_JSON,
    ),
)
