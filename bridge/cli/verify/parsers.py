"""Arguments of ``kubedelta verify``."""

from __future__ import annotations

import argparse
from functools import partial

from bridge.cli.arguments import Command, config_argument, duration

_SETTLE = 10.0
_LIMIT = 100


def add_verify(parser: argparse.ArgumentParser) -> None:
    def command(chosen: argparse.Namespace) -> Command:
        from bridge.cli.verify.command import verify

        return partial(
            verify, chosen.config, chosen.sink, settle=chosen.settle, limit=chosen.limit, as_json=chosen.as_json
        )

    parser.add_argument("sink", metavar="SINK", help="a file, Kafka or NATS sink of the configuration")
    config_argument(parser)
    parser.add_argument(
        "--settle",
        metavar="TIME",
        type=duration,
        default=_SETTLE,
        help=f"how long to wait for records on their way, e.g. 30s (default: {_SETTLE:g}s)",
    )
    parser.add_argument(
        "--limit", metavar="N", type=_count, default=_LIMIT, help=f"differences to print (default: {_LIMIT})"
    )
    parser.add_argument("--json", dest="as_json", action="store_true", help="print a JSON document instead")
    parser.set_defaults(command=command)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of differences; allowed: 0 and above")
    return int(text)
