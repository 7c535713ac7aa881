"""Declares arguments of commands, parses their values, finds the configuration of a command line that names none, and
words the error of a wrong command line."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from config.values import Duration, Size

Command = Callable[[], int]

SLOWEST, FASTEST = 0.01, 10_000.0
_LARGEST = 2**63 - 1
_DNS_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
# ASCII: otherwise \d matches the digits of every alphabet.
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class UsageError(Exception):
    """The command line is wrong. The message has the usage and the mistake."""


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.format_usage()}{self.prog}: {message}")


class IntermixedParser(Parser):
    """Accepts options between positional arguments, unless it has actions: ``drop hook -c FILE 7``. What it does not
    know, it refuses itself, where argparse would leave it to the parser of the whole command line, and to its usage."""

    _inside = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._inside:
            return super().parse_known_args(args, namespace)
        self._inside = True  # argparse calls this method again, for options and for positional arguments.
        try:
            intermixed = self._subparsers is None
            parse = self.parse_known_intermixed_args if intermixed else super().parse_known_args
            values, unknown = parse(args, namespace)
        finally:
            self._inside = False
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return values, unknown


class Completes(StrEnum):
    """The words that a shell offers for a value."""

    NOTHING = ""
    FILES = "files"
    SINKS = "sinks"
    """Names of sinks in the configuration."""
    RESOURCES = "resources"
    """Names of resources in the configuration."""
    SINKS_OR_FILES = "sinks_or_files"


class Argument:
    """An argument of ``ArgumentParser.add_argument``. Its ``dest`` is a parameter of the command's function."""

    def __init__(self, *names: str, completes: Completes = Completes.NOTHING, **options: Any) -> None:
        self._names = names
        self._completes = completes
        self._options = options

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        action = parser.add_argument(*self._names, **self._options)
        action.completes = self._completes  # type: ignore[attr-defined]


class CommandSpec:
    """A command, or an action of a command."""

    def __init__(
        self,
        name: str,
        help: str,
        function: str = "",
        *arguments: Argument,
        actions: Sequence[CommandSpec] = (),
        implied: CommandSpec | None = None,
        adjust: Callable[[argparse.ArgumentParser, dict[str, Any]], None] | None = None,
    ) -> None:
        """``function``: ``module:function``; empty for a command that needs an action. ``implied``: the action of a
        command line that names none. ``adjust``: checks the parsed values together, and changes them to parameters of
        the function. Raises UsageError."""
        self.name = name
        self.help = help
        self.function = function
        self.arguments = arguments
        self.actions = actions
        self.implied = implied
        self.adjust = adjust


# ── The configuration file ───────────────────────────────────────────────────

VARIABLE = "KUBEDELTA_CONFIG"
PLACES = ("kubedelta.yaml", "/etc/kubedelta/kubedelta.yaml")
"""In the working directory of an operator; where the image and the chart have it."""

NO_FILE = f"there is no configuration: {VARIABLE} is not set, and there is no {' and no '.join(PLACES)}"
HISTORY_VARIABLE = "KUBEDELTA_HISTORY"
HISTORY_PLACE = "k8s.db"


@dataclass(frozen=True, slots=True)
class DefaultFile:
    path: Path
    origin: str
    """Why it is this file, in words."""

    def __str__(self) -> str:
        return f"{self.path} ({self.origin})"


def default_file() -> DefaultFile | None:
    """By precedence: the file that ``KUBEDELTA_CONFIG`` names, even if it is missing; else the first of the places that
    has a file. None without one."""
    if named := os.environ.get(VARIABLE):
        return DefaultFile(Path(named), f"from {VARIABLE}")
    found = next((path for path in map(Path, PLACES) if path.is_file()), None)
    return None if found is None else DefaultFile(found, "the default")


def history_file(named: Path | None) -> Path:
    """The named file, else the one that ``KUBEDELTA_HISTORY`` names, else that of the working directory."""
    return named or Path(os.environ.get(HISTORY_VARIABLE) or HISTORY_PLACE)


def file_argument(*names: str, metavar: str = "FILE", **options: Any) -> Argument:
    """A path."""
    return Argument(*names, metavar=metavar, type=Path, completes=Completes.FILES, **options)


def history_argument(name: str, help: str) -> Argument:
    return file_argument(name, dest="file", help=f"{help} (default: ${HISTORY_VARIABLE}, {HISTORY_PLACE})")


def _config(help: str) -> Argument:
    return file_argument("-c", "--config", dest="path", help=help)


CONFIG = _config(f"the configuration (YAML; default: ${VARIABLE}, {', '.join(PLACES)})")
"""Behind the parser, ``path`` is the named file, or the default."""
OWN_CONFIG = _config("the configuration (YAML), also in place of the default")
"""For a command that may do without: ``path`` is None where none is named."""
HISTORY = history_argument("--db", "the file of kubedelta history build")
NAMESPACE = Argument("-n", "--namespace", metavar="N", help="only objects in this namespace")
EVERY_NAMESPACE = Argument(
    "-A", "--all-namespaces", dest="namespace", action="store_const", const=None, help="of all namespaces (default)"
)
AS_JSON = Argument("--json", dest="as_json", action="store_true", help="print a JSON document instead")
SINK = Argument("sink", metavar="SINK", completes=Completes.SINKS)


# ── Values ───────────────────────────────────────────────────────────────────


def duration(text: str) -> float:
    """Seconds above 0, in the configuration's notation of durations."""
    try:
        seconds = Duration.read(text)
    except ValueError:
        seconds = Duration(0)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; allowed: 500ms, 5s, 2m, 1h, 1d")
    return seconds


def byte_count(text: str) -> int:
    """Bytes above 0, in the configuration's notation of sizes."""
    try:
        found = Size.read(text)
    except ValueError:
        found = Size(0)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; allowed: 500MiB, 5GiB")
    return found


def address(text: str) -> tuple[str, int]:
    """Host and port to listen on; the host is empty for every interface."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no address; allowed: 127.0.0.1:9443, [::1]:9443, :9443")
    return host.strip("[]"), int(port)


def rate(text: str) -> float:
    """Changes per second."""
    if (asked := _pace(text)) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a rate; allowed: {SLOWEST:g} to {FASTEST:g} changes per second"
        )
    return asked


def speed(text: str) -> float:
    """How much faster time passes."""
    if (asked := _pace(text.removesuffix("x"))) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a speed; allowed: 0.5x, 2x, 60x, up to {FASTEST:g}x")
    return asked


def _pace(text: str) -> float | None:
    try:
        asked = float(text)
    except ValueError:
        return None
    return asked if SLOWEST <= asked <= FASTEST else None


def number(text: str) -> int:
    """A sequence number, or the number of a dead letter."""
    if not re.fullmatch(r"[0-9]{1,19}", text) or not 1 <= int(text) <= _LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of a record; allowed: 1 and above")
    return int(text)


def start(text: str) -> int | str:
    """The start of a replay: a sequence number, ``beginning``, a time, or a duration before now. Times are converted to
    the form of records."""
    if text == "beginning":
        return text
    if re.fullmatch(r"[0-9.]+", text):
        return number(text)
    try:
        return _past(text).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no start of a replay; allowed: a sequence number such as 1200, a duration before now such as "
            "10m, a time with its offset such as 2026-11-21T08:30:00Z or 2026-11-21T09:30:00+01:00, or beginning"
        ) from None


def moment(text: str) -> datetime:
    """A time in the past: RFC 3339, or a duration before now."""
    try:
        return _past(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; allowed: a duration before now such as 10m, or a time with its offset such as "
            "2026-11-21T08:30:00Z"
        ) from None


def _past(text: str) -> datetime:
    """Raises ValueError and OverflowError."""
    if _RFC3339.fullmatch(text):
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    return datetime.now(UTC) - timedelta(seconds=Duration.read(text))


def count(text: str) -> int:
    """A number of differences or of objects; 0 for none."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; allowed: 0 and above")
    return int(text)


def json_form(text: str) -> bool:
    """kubectl's ``-o json``."""
    if text != "json":
        raise argparse.ArgumentTypeError(f"{text!r} is no form of output; allowed: json")
    return True


def account(text: str) -> tuple[str, str]:
    """Namespace and name of a service account."""
    namespace, slash, name = text.partition("/")
    if not (slash and _DNS_NAME.fullmatch(namespace) and _DNS_NAME.fullmatch(name)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a service account; allowed: NAMESPACE/NAME")
    return namespace, name
