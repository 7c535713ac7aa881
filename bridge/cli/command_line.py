"""The whole command line: the table of commands with name, help, arguments and function of each, and the parser that is
made of it. The completion scripts are made of that parser.

A command names its function as ``module:function``, so only the chosen command's modules are imported. What argparse
cannot express, such as options that exclude one another, is an ``adjust`` function next to its command.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any, TypeAlias

from bridge.cli.arguments import (
    AS_JSON,
    CONFIG,
    EVERY_NAMESPACE,
    HISTORY,
    NAMESPACE,
    NO_FILE,
    OWN_CONFIG,
    SINK,
    Argument,
    Command,
    CommandSpec,
    Completes,
    DefaultFile,
    IntermixedParser,
    Parser,
    UsageError,
    account,
    address,
    byte_count,
    count,
    default_file,
    duration,
    file_argument,
    history_argument,
    json_form,
    moment,
    number,
    rate,
    speed,
    start,
)
from bridge.cli.exits import end_of
from bridge.cli.terminal import complain

Subparsers: TypeAlias = "argparse._SubParsersAction[Any]"
_ADMIN = "bridge.cli.admin"
_RESOURCE = Argument(
    "--resource", metavar="R", completes=Completes.RESOURCES, help="only this resource (kubectl's name)"
)

RUN = CommandSpec(
    "run",
    "watch the configured resources and deliver their deltas, until SIGTERM",
    "bridge.cli.run:run",
    CONFIG,
    Argument(
        "--profile-stages",
        action="store_true",
        help="print CPU time by stage and wake-ups by thread to standard error: at the end, and at each SIGUSR1 since "
        "the last table",
    ),
)

# ── Before a run ─────────────────────────────────────────────────────────────

_NOISE_TIME = 10.0
"""Seconds."""


def _choose_noise(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    if values["offline"] and values["noise"]:
        parser.error("--noise needs the cluster, and --offline asks none")
    # Behind a pipe nobody reads the hint, and a pipeline would be longer.
    if values["noise"] is None and not values["offline"] and sys.stdout.isatty():
        values["noise"] = _NOISE_TIME
    values["noise"] = values["noise"] or None


CHECK = CommandSpec(
    "check",
    "check the file, the permissions and every sink, without delivering records",
    "bridge.cli.check:check",
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
    adjust=_choose_noise,
)
RBAC = CommandSpec(
    "rbac",
    "print the roles and bindings that the file needs, as YAML",
    "bridge.cli.check:rbac",
    CONFIG,
    Argument("--namespaced", action="store_true", help="only Roles in namespaces; an error if a resource needs more"),
    Argument(
        "--service-account",
        metavar="NAMESPACE/NAME",
        type=account,
        default=account("kubedelta/kubedelta"),
        help="who gets the rights (default: kubedelta/kubedelta)",
    ),
    Argument("--name", default="kubedelta", help="of roles and bindings (default: kubedelta)"),
)
DEMO = CommandSpec(
    "demo",
    "show the deltas of a simulated cluster on the terminal",
    "bridge.cli.demo:demo",
    Argument("--for", dest="seconds", metavar="TIME", type=duration, help="end after, e.g. 5s or 2m"),
    Argument(
        "--rate",
        type=rate,
        default=5.0,
        metavar="N",
        help="changes per second, as far as this machine can (default: 5)",
    ),
)


def _without_reference(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    if values.pop("reference"):
        parser.error("--reference is for the configuration file alone")


SCHEMA = CommandSpec(
    "schema",
    "print the JSON Schema of the configuration file; of events; an AsyncAPI document",
    "bridge.cli.schema:schema",
    Argument("--reference", action="store_true", help="print every option as a commented file instead"),
    actions=(
        CommandSpec(
            "events",
            "print the JSON Schema of the records that a sink sends",
            "bridge.cli.schema:events",
            CONFIG,
            Argument("--sink", metavar="NAME", completes=Completes.SINKS, help="only this sink"),
            adjust=_without_reference,
        ),
        CommandSpec(
            "asyncapi",
            "print an AsyncAPI 3 document of all sinks",
            "bridge.cli.schema:asyncapi",
            CONFIG,
            adjust=_without_reference,
        ),
    ),
)
COMPLETION = CommandSpec(
    "completion",
    "print the completion script for a shell",
    "bridge.cli.completion:completion",
    Argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish"),
    Argument("--names", choices=("sinks", "resources"), help=argparse.SUPPRESS),
    Argument("--config", dest="file", help=argparse.SUPPRESS),
)


# ── The running bridge, and its destinations ─────────────────────────────────

STATUS = CommandSpec(
    "status",
    "what is wrong, and the next command to type; exits 0 if all is well",
    "bridge.cli.status:status",
    CONFIG,
    AS_JSON,
    Argument("-o", dest="as_json", metavar="json", type=json_form, help="the same as --json, as kubectl has it"),
)
TOP = CommandSpec(
    "top",
    "show resources and sinks of the running bridge: rates, lag, backlog, errors",
    "bridge.cli.top:top",
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
        help="the order of rows, or the largest first; lag: by the queue of a resource, and the backlog of a sink "
        "(default: name)",
    ),
)
RELOAD = CommandSpec(
    "reload",
    "let the running bridge read its configuration again, and print what changed",
    f"{_ADMIN}:reload",
    CONFIG,
    Argument(
        "--allow-deletes",
        metavar="N",
        type=count,
        default=0,
        help="accept a change that exports up to N objects as deleted (default: 1000)",
    ),
    AS_JSON,
)


def _one_beginning(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    if values["from_start"]:
        values.update(lines=None, since=None)
    elif values["since"] is None and values["lines"] is None:
        values["lines"] = 10
    elif values["since"] is not None and values["lines"] is not None:
        parser.error("either --lines or --since")
    del values["from_start"]


TAIL = CommandSpec(
    "tail",
    "print the records of a file or a sink as they come",
    "bridge.cli.tail:tail",
    Argument(
        "target",
        metavar="SINK|FILE",
        nargs="?",
        completes=Completes.SINKS_OR_FILES,
        help="a file of deltas, through its rotations; or a sink of the configuration: its file, topics, stream or "
        "subjects, or what the running bridge commits for it; without a name, for all",
    ),
    OWN_CONFIG,
    _RESOURCE,
    NAMESPACE,
    Argument("--where", metavar="CEL", help="only records for which this holds: object.spec.replicas > 1"),
    Argument("--lines", metavar="N", type=count, help="begin with the last N records (default: 10)"),
    Argument("--since", metavar="TIME", type=moment, help="begin at a time: 10m ago, or 2026-11-21T08:30:00Z"),
    Argument("--from-beginning", "--from-start", dest="from_start", action="store_true", help="begin with the oldest"),
    Argument(
        "--follow",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="wait for further records (default), or end",
    ),
    Argument("--json", dest="as_json", action="store_true", help="print the records as JSON, a line each"),
    adjust=_one_beginning,
)


def _sink_or_seals(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    if (values["sink"] is None) == (values["seals"] is None):
        parser.error("name a sink, or a folder with --seals")
    if values["key"] is not None and values["seals"] is None:
        parser.error("--key has no effect without --seals")
    if values["seals"] is not None:
        values["path"] = values["seals"]  # Else a default configuration would be sought, which seals do not need.


VERIFY = CommandSpec(
    "verify",
    "compare the records at a sink's destination with the cluster; check the seals of a file sink",
    "bridge.cli.verify:verify",
    Argument(
        "sink",
        metavar="SINK",
        nargs="?",
        completes=Completes.SINKS,
        help="a file, Kafka or NATS sink of the configuration",
    ),
    CONFIG,
    file_argument(
        "--seals",
        metavar="DIR",
        help="check that the sealed parts of file sinks in this folder are as they were, without a cluster",
    ),
    file_argument(
        "--key", help="with --seals: the public keys (whpk_), one a line, by one of which each seal must be signed"
    ),
    Argument(
        "--settle",
        metavar="TIME",
        type=duration,
        default=10.0,
        help="how long to wait for records on their way, e.g. 30s (default: 10s)",
    ),
    Argument("--limit", metavar="N", type=count, default=100, help="differences to print (default: 100)"),
    AS_JSON,
    adjust=_sink_or_seals,
)


# ── History ──────────────────────────────────────────────────────────────────

BUILD = CommandSpec(
    "build",
    "read a stream, and keep its steps in a file; goes on where it was",
    "bridge.cli.history_build:build",
    Argument(
        "--from",
        dest="source",
        metavar="SINK|FILE",
        required=True,
        completes=Completes.SINKS_OR_FILES,
        help="a sink of the configuration, the file of a file sink with its closed parts, or a state directory",
    ),
    history_argument("--to", "the history"),
    OWN_CONFIG,
    Argument("--follow", action="store_true", help="wait for further records"),
    Argument(
        "--keep",
        metavar="TIME",
        type=duration,
        default=30 * 86_400.0,
        help="keep the steps of this time before the newest record (default: 30d)",
    ),
    Argument(
        "--max-bytes",
        metavar="SIZE",
        type=byte_count,
        default=5 << 30,
        help="trim the oldest steps beyond this size (default: 5GiB)",
    ),
)
_OBJECTS = Argument(
    "words", metavar="TYPE/NAME", nargs="+", help="objects as for kubectl: deploy/web svc/web, or deploy web"
)
SHOW = CommandSpec(
    "show",
    "print every step of an object: kubedelta history TYPE/NAME; the word show may be left out",
    "bridge.cli.history:show",
    _OBJECTS,
    NAMESPACE,
    EVERY_NAMESPACE,
    Argument("-o", "--output", dest="form", choices=("diff", "yaml", "json"), help="diff, yaml or json (a line each)"),
    file_argument("--actors", help="the file of kubedelta actors: tell who made each step"),
    HISTORY,
)
HISTORY_COMMAND = CommandSpec(
    "history",
    "keep every step of a stream in one file, and print those of an object",
    actions=(BUILD, SHOW),
    implied=SHOW,
)
DIFF = CommandSpec(
    "diff",
    "print what changed between two points of a history; exits 1 if anything did",
    "bridge.cli.history:diff",
    Argument("before", metavar="POINT", help="2026-11-24T10:00Z, 2h (ago), now, or pods=184467 (a resourceVersion)"),
    Argument("after", metavar="POINT"),
    Argument(
        "words",
        metavar="TYPE[/NAME]",
        nargs="*",
        default=(),
        help="only these resources or objects: pods,deploy, deploy/web",
    ),
    NAMESPACE,
    EVERY_NAMESPACE,
    Argument("-o", "--output", dest="form", choices=("diff", "json"), help="diff, or json (a line each)"),
    HISTORY,
)


def _log_or_posts(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    certificate = values.pop("cert"), values.pop("cert_key")
    values["certificate"] = None if None in certificate else certificate
    if [values["audit_log"], values["topic"], values["listen"]].count(None) != 2:
        parser.error("name the audit log, or a topic with --topic, or an address with --listen")
    if (values["topic"] is None) != (values["kafka"] is None):
        parser.error("--topic needs --kafka, the file with the brokers, and --kafka has no effect without it")
    if values["listen"] is not None and values["certificate"] is None:
        parser.error("--listen needs --cert and --cert-key: API servers post to https alone")
    if values["listen"] is not None and values["token"] is None and values["client_ca"] is None:
        parser.error("--listen needs --token-file or --client-ca, so that only API servers post")
    if values["user"] == "digest" and values["key"] is None:
        parser.error("--user digest needs --key")


ACTORS = CommandSpec(
    "actors",
    "write who made the changes, from the API server's audit log, to a file",
    "bridge.cli.actors:actors",
    file_argument(
        "audit_log",
        metavar="AUDIT_LOG",
        nargs="?",
        help="the file of --audit-log-path, through its rotations; a position is kept beside the output",
    ),
    file_argument("--to", required=True, help="the file of actors, appended"),
    Argument("--cluster", metavar="NAME", default="default", help="as cluster.name of the bridge (default: default)"),
    Argument(
        "--user",
        choices=("plain", "digest", "none"),
        default="plain",
        help="names of users and groups, and addresses: as they are (default), as digests with --key, or left out",
    ),
    file_argument("--key", help="the redaction key, for digests"),
    Argument(
        "--follow", action=argparse.BooleanOptionalAction, default=True, help="wait for further lines (default), or end"
    ),
    Argument(
        "--largest", metavar="SIZE", type=byte_count, default=100 << 20, help="when it is renamed (default: 100MiB)"
    ),
    Argument("--keep", metavar="N", type=count, default=10, help="renamed files that stay (default: 10)"),
    Argument("--topic", metavar="NAME", help="a topic with an audit event in each record instead"),
    file_argument(
        "--kafka",
        help="with --topic: librdkafka's properties, name=value in each line: bootstrap.servers and what it takes",
    ),
    Argument("--listen", metavar="HOST:PORT", type=address, help="take posts of --audit-webhook-config-file instead"),
    file_argument("--cert", help="with --listen: a certificate (PEM)"),
    file_argument("--cert-key", help="with --listen: its key (PEM)"),
    file_argument("--token-file", dest="token", help="with --listen: the bearer token of API servers"),
    file_argument("--client-ca", help="with --listen: the authority (PEM) of API servers' certificates"),
    adjust=_log_or_posts,
)


def _point_and_target(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    """``at 10m get pods web``, ``at 10m --serve``; ``--version pods=7`` stands in place of the point."""
    words, version = values.pop("words"), values.pop("version")
    if (words[:1] not in ([], ["get"])) == (version is not None):
        parser.error("name one point: 2026-11-24T10:00Z, 10m (ago), now, or --version pods=184467")
    values["point"] = version or words.pop(0)
    serves = values.pop("serve")
    if serves and (words or values["form"] or values["labels"] or values["fields"]):
        parser.error("--serve has no get, no -o and no selectors")
    if values["play"] and not serves:
        parser.error("--play is for --serve")
    if not serves and (words[:1] != ["get"] or len(words) < 2):
        parser.error("behind the point: get TYPE [NAME…] or get TYPE/NAME…, such as get pods, or --serve")
    values["words"] = None if serves else words[1:]


AT = CommandSpec(
    "at",
    "print the objects of another time, or serve them to kubectl",
    "bridge.cli.at:at",
    Argument("words", metavar="POINT", nargs="*", help="a point, and get TYPE [NAME…]: 10m (ago) get pods"),
    Argument("--version", metavar="TYPE=VERSION", help="in place of the point, a resourceVersion: pods=184467"),
    NAMESPACE,
    EVERY_NAMESPACE,
    Argument("-o", "--output", dest="form", choices=("wide", "name", "yaml", "json"), help="wide, name, yaml or json"),
    Argument(
        "-l", "--selector", dest="labels", metavar="LABELS", default="", help="only these labels: app=web,tier!=x"
    ),
    Argument(
        "--field-selector",
        dest="fields",
        metavar="FIELDS",
        default="",
        help="only these fields, as kubectl has them: status.phase=Running",
    ),
    Argument("--serve", action="store_true", help="serve them on the loopback to kubectl and other clients"),
    Argument("--play", metavar="SPEED", type=speed, help="with --serve: let what happened next happen, e.g. 1x, 60x"),
    HISTORY,
    adjust=_point_and_target,
)
RESTORE = CommandSpec(
    "restore",
    "print a manifest of an object as it was; exits 1 if it cannot be restored, 2 if states may be missing",
    "bridge.cli.at:restore",
    _OBJECTS,
    NAMESPACE,
    Argument("--at", dest="point", metavar="POINT", required=True, help="1h (ago), a time, now, or pods=184467"),
    Argument(
        "--with-placeholders",
        action="store_true",
        help="print it although values were redacted, with a comment in place of each",
    ),
    HISTORY,
)


# ── The state ────────────────────────────────────────────────────────────────


def _of_sink(name: str, help: str) -> CommandSpec:
    return CommandSpec(name, help, f"{_ADMIN}:{name}_sink", SINK, CONFIG, AS_JSON)


SINKS = CommandSpec(
    "sinks",
    "list the types of sinks; retry, pause or resume a sink",
    f"{_ADMIN}:sinks",
    actions=(
        _of_sink("retry", "end a sink's wait for its next attempt"),
        _of_sink("pause", "stop deliveries to a sink until it is resumed, also across restarts"),
        _of_sink("resume", "resume deliveries to a paused sink"),
    ),
)
REPLAY = CommandSpec(
    "replay",
    "deliver settled records to a sink again",
    f"{_ADMIN}:replay",
    SINK,
    Argument(
        "--from",
        dest="start",
        metavar="START",
        type=start,
        required=True,
        help="a sequence number, a time such as 2026-11-21T08:30:00Z, a time ago such as 10m, or beginning",
    ),
    _RESOURCE,
    NAMESPACE,
    Argument("--wait", action="store_true", help="wait until a running bridge has delivered them"),
    CONFIG,
    AS_JSON,
)


def _one_purpose(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    asks = values["status"] or values["cancel"]
    if values["status"] and values["cancel"]:
        parser.error("either --status or --cancel")
    if asks and (values["wait"] or any(values[each] is not None for each in ("resource", "namespace", "where"))):
        parser.error("--resource, --namespace, --where and --wait are for a new snapshot")
    if values["sink"] is None and not values["status"]:
        parser.error("the name of a sink is required")


SNAPSHOT = CommandSpec(
    "snapshot",
    "deliver the known objects to a sink once more; its progress, and its end before its time",
    f"{_ADMIN}:snapshot",
    Argument(
        "sink", metavar="SINK", nargs="?", completes=Completes.SINKS, help="the sink; with --status, all without it"
    ),
    _RESOURCE,
    NAMESPACE,
    Argument("--where", metavar="CEL", help="only objects for which this holds: object.spec.replicas > 1"),
    Argument("--wait", action="store_true", help="wait until a running bridge has delivered it"),
    Argument("--status", action="store_true", help="print the newest snapshot, and how far it is delivered"),
    Argument("--cancel", action="store_true", help="end the snapshot behind the objects that the sink has taken"),
    CONFIG,
    AS_JSON,
    adjust=_one_purpose,
)
_NUMBERS = Argument("numbers", metavar="NUMBER", type=number, nargs="*", help="numbers from the list")
_ALL = Argument("--all", dest="every", action="store_true", help="all dead letters of the sink")


def _numbers_or_all(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    # argparse has no exclusive group of positional arguments and options.
    if bool(values["numbers"]) == values.pop("every"):
        parser.error("either the numbers of dead letters or --all is required")
    values["numbers"] = values["numbers"] or None


def _of_dead_letters(name: str, help: str) -> CommandSpec:
    return CommandSpec(name, help, f"{_ADMIN}:{name}", SINK, _NUMBERS, _ALL, CONFIG, AS_JSON, adjust=_numbers_or_all)


DEAD_LETTERS = CommandSpec(
    "dead-letters",
    "rejected and parked records: list, show, retry, drop",
    actions=(
        CommandSpec(
            "list",
            "a line for each dead letter, oldest first",
            f"{_ADMIN}:list_dead_letters",
            Argument("sink", metavar="SINK", nargs="?", completes=Completes.SINKS, help="only this sink"),
            CONFIG,
            Argument(
                "--json",
                dest="as_json",
                action="store_true",
                help="print a JSON object per dead letter instead, a line each",
            ),
        ),
        CommandSpec(
            "show",
            "a dead letter with its object",
            f"{_ADMIN}:show_dead_letter",
            Argument("number", metavar="NUMBER", type=number),
            CONFIG,
            AS_JSON,
        ),
        _of_dead_letters("retry", "deliver dead letters again, with the records parked behind them"),
        _of_dead_letters("drop", "drop dead letters; records parked behind them are delivered"),
    ),
)
CURSORS = CommandSpec("cursors", "each sink's cursor and backlog", f"{_ADMIN}:cursors", CONFIG, AS_JSON)
_STATE_CHECK = CommandSpec(
    "check",
    "check integrity, print counts and sizes; exits 1 if the state has problems",
    f"{_ADMIN}:state_check",
    CONFIG,
    AS_JSON,
)
STATE = CommandSpec("state", "the state directory: check", actions=(_STATE_CHECK,))

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
    HISTORY_COMMAND,
    DIFF,
    AT,
    RESTORE,
    ACTORS,
    REPLAY,
    SNAPSHOT,
    DEAD_LETTERS,
    CURSORS,
    STATE,
    COMPLETION,
)
"""In the order of the help."""


# ── The parser ───────────────────────────────────────────────────────────────

_BEFORE_COMMANDS = ("-h", "--help", "--version")


def parse(arguments: Sequence[str]) -> Command:
    """Returns the chosen command as a function without parameters, which returns the exit code. Raises UsageError;
    `--help` and `--version` print and raise SystemExit(0)."""
    parser = build_parser()
    if not arguments:
        parser.error("name a command; kubedelta --help lists them")
    if (first := arguments[0]).startswith("-") and not any(each.startswith(first) for each in _BEFORE_COMMANDS):
        parser.error(f"{first} stands behind a command: kubedelta COMMAND {first}; kubedelta --help lists the commands")
    values = vars(parser.parse_args(_with_implied(arguments)))
    spec, chosen = values.pop("spec"), values.pop("parser")
    if spec.adjust is not None:
        spec.adjust(chosen, values)
    default = None
    if CONFIG in spec.arguments and values["path"] is None:
        default = default_file() or chosen.error(f"{NO_FILE}: name one with -c")
        values["path"] = default.path
    command = partial(_function(spec), **values)
    return partial(_ended, command, None if spec is RUN else default)


def _with_implied(arguments: Sequence[str]) -> Sequence[str]:
    """``history deploy/web`` is ``history show deploy/web``."""
    spec = next((spec for spec in COMMANDS if [spec.name] == list(arguments[:1])), None)
    if spec is None or spec.implied is None or arguments[1:2] in ([], ["-h"], ["--help"]):
        return arguments
    if arguments[1] in [action.name for action in spec.actions]:
        return arguments
    return [spec.name, spec.implied.name, *arguments[1:]]


def _ended(command: Command, default: DefaultFile | None) -> int:
    """Words what went wrong. A command that fails names the file that nobody named; ``run`` logs it in any case."""
    try:
        code = command()
    except (UsageError, BrokenPipeError):
        raise
    except Exception as error:
        end = end_of(error)
        if end is None:
            raise
        complain(end)
        code = end.code
    if code and default is not None:
        complain(f"the configuration is {default}; -c names another")
    return code


def build_parser() -> Parser:
    """The parser of the whole table."""
    parser = Parser(
        prog="kubedelta", description="Ordered, deduplicated Kubernetes deltas to Kafka, NATS, webhooks, files."
    )
    parser.add_argument("--version", action="version", version=f"kubedelta {version('kubedelta')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=IntermixedParser)
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
            title="actions",
            metavar="|".join(action.name for action in spec.actions),
            required=not spec.function,
            parser_class=IntermixedParser,
        )
        for action in spec.actions:
            _add(actions, action)


def _function(spec: CommandSpec) -> Callable[..., int]:
    """Imports the command's module; structlog and httpx without an optional library: structlog renders tracebacks with
    rich, of which logs have none, and httpx has a command line of click. Together a twelfth of a start."""
    module, _, function = spec.function.partition(":")
    with _absent("rich"):
        import_module("structlog")
    with _absent("click"):
        found: Callable[..., int] = getattr(import_module(module), function)
    return found


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
