"""Arguments of the commands replay, dead-letters, cursors, state, and of the actions of sinks."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, TypeAlias

from bridge.cli.arguments import Command, IntermixedParser, config_argument, number, start

Subparsers: TypeAlias = "argparse._SubParsersAction[Any]"


def add_to(commands: Subparsers) -> None:
    _add_replay(commands.add_parser("replay", help="deliver settled records to a sink again"))
    _add_dead_letters(commands.add_parser("dead-letters", help="rejected and parked records: list, show, retry, drop"))
    _add_cursors(commands.add_parser("cursors", help="each sink's cursor and backlog"))
    _add_state(commands.add_parser("state", help="the state directory: check"))


def _add_replay(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.admin.commands import replay
        from bridge.model.admin import ReplayRequest

        request = ReplayRequest(chosen.sink, chosen.start, chosen.resource, chosen.namespace)
        return partial(replay, chosen.config, request, as_json=chosen.as_json)

    parser.add_argument("sink", metavar="SINK")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="START",
        type=start,
        required=True,
        help="a sequence number, a time such as 2026-11-21T08:30:00Z, or beginning",
    )
    parser.add_argument("--resource", metavar="R", help="only this resource (kubectl's name)")
    parser.add_argument("--namespace", metavar="N", help="only objects in this namespace")
    _common_arguments(parser)
    parser.set_defaults(command=command)


def _add_cursors(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.admin.commands import cursors

        return partial(cursors, chosen.config, as_json=chosen.as_json)

    _common_arguments(parser)
    parser.set_defaults(command=command)


def add_sink_actions(parser: argparse.ArgumentParser) -> None:
    """Adds the actions of ``kubedelta sinks``, which without an action lists the types of sinks."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", parser_class=IntermixedParser)
    _add_sink_action(actions.add_parser("retry", help="end a sink's wait for its next attempt"))
    _add_sink_action(
        actions.add_parser("pause", help="stop deliveries to a sink until it is resumed, also across restarts")
    )
    _add_sink_action(actions.add_parser("resume", help="resume deliveries to a paused sink"))


def _add_sink_action(parser: argparse.ArgumentParser) -> None:
    action = parser.prog.rpartition(" ")[2]

    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.admin import commands

        steer = {
            "retry": commands.retry_sink,
            "pause": commands.pause_sink,
            "resume": commands.resume_sink,
        }[action]
        return partial(steer, chosen.config, chosen.sink, as_json=chosen.as_json)

    parser.add_argument("sink", metavar="SINK")
    _common_arguments(parser)
    parser.set_defaults(command=command)


def _add_state(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_state_check(
        actions.add_parser("check", help="check integrity, print counts and sizes; exits 1 if the state has problems")
    )


def _add_state_check(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.admin.commands import state_check

        return partial(state_check, chosen.config, as_json=chosen.as_json)

    _common_arguments(parser)
    parser.set_defaults(command=command)


def _add_dead_letters(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=IntermixedParser)
    _add_list(actions.add_parser("list", help="a line for each dead letter, oldest first"))
    _add_show(actions.add_parser("show", help="a dead letter with its object"))
    _add_retry(actions.add_parser("retry", help="deliver dead letters again, with the records parked behind them"))
    _add_drop(actions.add_parser("drop", help="drop dead letters; records parked behind them are delivered"))


def _add_list(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.admin.commands import list_dead_letters

        return partial(list_dead_letters, chosen.config, chosen.sink, as_json=chosen.as_json)

    parser.add_argument("sink", metavar="SINK", nargs="?", help="only this sink")
    _common_arguments(parser, json_help="print a JSON object for each line instead")
    parser.set_defaults(command=command)


def _add_show(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.admin.commands import show_dead_letter

        return partial(show_dead_letter, chosen.config, chosen.number, as_json=chosen.as_json)

    parser.add_argument("number", metavar="NUMBER", type=number)
    _common_arguments(parser)
    parser.set_defaults(command=command)


def _add_retry(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.admin.commands import retry

        return partial(retry, chosen.config, chosen.sink, _numbers(parser, chosen), as_json=chosen.as_json)

    _which_arguments(parser)
    _common_arguments(parser)
    parser.set_defaults(command=command)


def _add_drop(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.admin.commands import drop

        return partial(drop, chosen.config, chosen.sink, _numbers(parser, chosen), as_json=chosen.as_json)

    _which_arguments(parser)
    _common_arguments(parser)
    parser.set_defaults(command=command)


def _common_arguments(parser: argparse.ArgumentParser, *, json_help: str = "print a JSON document instead") -> None:
    config_argument(parser)
    parser.add_argument("--json", dest="as_json", action="store_true", help=json_help)


def _which_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sink", metavar="SINK")
    parser.add_argument("numbers", metavar="NUMBER", type=number, nargs="*", help="numbers from the list")
    parser.add_argument("--all", dest="every", action="store_true", help="all dead letters of the sink")


def _numbers(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> list[int] | None:
    """The chosen numbers; None for all. Raises UsageError unless either numbers or --all were given."""
    if bool(chosen.numbers) == chosen.every:
        parser.error("either the numbers of dead letters or --all is required")
    return chosen.numbers or None
