"""The table of the operator's commands. ``AdminOperations`` declares each of them once: its promise, its parameters and
answer, its path on the socket, what the log says of it, and whether the page offers it.

The route of a command, the client's method and the page's action are made of its declaration. Its parameters are the
members of the request, or one parameter is the whole request: the body of a POST, in which no member may be missing, or
the query of a GET. A new command has a declaration here, its function in ``operations``, and its words in ``cli.admin``
and ``cli.command_line``.

A schema of the protocol (gRPC, OpenAPI) would generate the same from a further file; here the signature is the schema,
and mypy compares it with the function that carries the command out.
"""
# mypy: disable-error-code="empty-body"
# The decorator gives each command its body.

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, TypeAlias, TypeVar, cast, get_type_hints

import msgspec

from bridge.model.admin import (
    Cursors,
    DeadLetter,
    DeadLetterChain,
    Followed,
    Reloaded,
    ReloadRequest,
    Replayed,
    ReplayRequest,
    SnapshotRequest,
    StateReport,
)
from bridge.model.primitives.printable import counted
from bridge.model.status import BridgeStatus, SnapshotStatus

PREFIX = "/v1"
LARGEST_REQUEST = 1024 * 1024
"""Bytes of a body: the numbers of about 100,000 dead letters."""
LARGEST_LINE = 256 << 20
"""Bytes of a part of a stream: a few records, of which the largest may have 16 MiB, with their states before."""
LARGEST_PAGE = 1000
"""Dead letters in an answer."""
_SHOWN = 10

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
After: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE)]
Arguments: TypeAlias = Mapping[str, Any]
"""The parameters of a command by their names."""
Function = TypeVar("Function", bound=Callable[..., Awaitable[Any]])


class FollowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sink: str | None = None
    """None for the records as they are stored."""


class Refusal(msgspec.Struct, frozen=True):
    """The answer to a command that failed."""

    error: str


# ── A command ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminCommand:
    """A row of the table, and the coding of its request and its answer."""

    name: str
    """The method of ``AdminOperations``."""
    method: str
    path: str
    """Below ``PREFIX``."""
    request: type[msgspec.Struct] | None
    """None for a command without parameters."""
    is_whole: bool
    """The request is the only parameter; else its members are the parameters."""
    answer: Any
    """The type of the document. ``bytes`` for an answer that is JSON already."""
    member: str
    """The member of the document that is the answer; empty if the answer is the whole document."""
    said: Callable[..., str] | None
    """The command of these parameters in the operator's notation, for the log. None for a command that is asked too
    often to be logged."""
    result: Callable[[Any], str]
    """An answer in a few words, for the log."""
    on_page: bool
    seconds: float
    """Within which the client expects the answer."""

    @property
    def route(self) -> str:
        return f"{PREFIX}{self.path}"

    def encode_request(self, arguments: Arguments) -> tuple[str, dict[str, str | int], bytes | None]:
        """The path, the query and the body of a request with these parameters."""
        if self.request is None:
            return self.route, {}, None
        request = next(iter(arguments.values())) if self.is_whole else self.request(**arguments)
        if self.method == "POST":
            return self.route, {}, msgspec.json.encode(request)
        members = msgspec.to_builtins(request)
        query = {name: value for name, value in members.items() if f"{{{name}}}" not in self.path}
        return self.route.format_map(members), query, None

    def decode_request(self, query: Mapping[str, str], body: bytes) -> Arguments:
        """``query``: with the members in the path. Raises MsgspecError for a request of another form."""
        if self.request is None:
            return {}
        if self.method == "POST":
            request = msgspec.json.decode(body, type=self.request)
        else:
            request = msgspec.convert(dict(query), self.request, strict=False)
        return {"request": request} if self.is_whole else msgspec.structs.asdict(request)

    def encode_answer(self, answer: Any) -> bytes:
        if self.answer is bytes:
            return cast("bytes", answer)
        return msgspec.json.encode({self.member: answer} if self.member else answer)

    def decode_answer(self, body: bytes) -> Any:
        """Raises MsgspecError for an answer of another form."""
        if self.answer is bytes:
            return body
        document = msgspec.json.decode(body, type=self.answer)
        return getattr(document, self.member) if self.member else document


def _command(
    method: str,
    path: str,
    said: Callable[..., str] | None,
    result: Callable[[Any], str] = str,
    *,
    member: str = "",
    on_page: bool = False,
    seconds: float = 300.0,
) -> Callable[[Function], Function]:
    """Declares the decorated method as a command, whose body is ``ask``."""

    def declare(function: Function) -> Function:
        row = _row(
            function,
            method=method,
            path=path,
            member=member,
            said=said,
            result=result,
            on_page=on_page,
            seconds=seconds,
        )
        signature = inspect.signature(function)

        @wraps(function)
        async def ask(operations: AdminOperations, *values: Any, **named: Any) -> Any:
            bound = signature.bind(operations, *values, **named)
            bound.apply_defaults()
            _, *arguments = bound.arguments.items()
            return await operations.ask(row, dict(arguments))

        ask.command = row  # type: ignore[attr-defined]
        return cast("Function", ask)

    return declare


def _row(function: Callable[..., Any], *, method: str, member: str, **others: Any) -> AdminCommand:
    _, *parameters = inspect.signature(function).parameters.values()
    types = get_type_hints(function, include_extras=True)
    answer = types["return"]
    if is_whole := [each.name for each in parameters] == ["request"]:
        request = types["request"]
    elif parameters:
        # A member of a body has no default: whoever forgets the numbers does not mean all dead letters.
        fields: list[Any] = [
            (each.name, types[each.name])
            if method == "POST" or each.default is each.empty
            else (each.name, types[each.name], each.default)
            for each in parameters
        ]
        request = msgspec.defstruct(
            function.__name__, fields, frozen=True, omit_defaults=True, forbid_unknown_fields=True
        )
    else:
        request = None
    return AdminCommand(
        name=function.__name__,
        method=method,
        request=request,
        is_whole=is_whole,
        answer=msgspec.defstruct(member, [(member, answer)]) if member else answer,
        member=member,
        **others,
    )


# ── Texts of the log ─────────────────────────────────────────────────────────


def _options(**named: str | int | None) -> str:
    return "".join(f" --{name} {value}" for name, value in named.items() if value is not None)


def _list(sink: str | None, **_: int) -> str:
    return f"dead-letters list {sink or ''}".strip()


def _chosen(sink: str, numbers: Sequence[int] | None) -> str:
    if numbers is None:
        return f"{sink} --all"
    first = " ".join(map(str, numbers[:_SHOWN]))
    return f"{sink} {first}" + (f" and {more} more" if (more := len(numbers) - _SHOWN) > 0 else "")


def _steered(changed: bool) -> str:
    return "done" if changed else "unchanged"


def _letters(count: int) -> str:
    return counted(count, "dead letter")


# ── Every command ────────────────────────────────────────────────────────────


class AdminOperations:
    """The operator's commands. ``AdminClient`` sends them to a running bridge, ``OfflineOperations`` and
    ``LiveOperations`` carry them out. Every command raises UnknownTarget for a missing sink, dead letter or record."""

    async def ask(self, command: AdminCommand, arguments: Arguments) -> Any:
        """Answers the commands that a subclass does not override."""
        raise NotImplementedError(command.name)

    @_command("GET", "/cursors", lambda: "cursors", lambda found: counted(len(found.sinks), "sink"), on_page=True)
    async def cursors(self) -> Cursors: ...

    @_command(
        "POST",
        "/replay",
        lambda request: (
            f"replay {request.sink} --from {request.start}"
            + _options(resource=request.resource, namespace=request.namespace)
        ),
        lambda done: counted(done.records, "record"),
        on_page=True,
    )
    async def replay(self, request: ReplayRequest) -> Replayed:
        """Plans a backfill of settled records. The sink's backlog follows behind it. Durable on return."""

    @_command(
        "POST",
        "/snapshots",
        lambda request: (
            f"snapshot {request.sink}"
            + _options(resource=request.resource, namespace=request.namespace, where=request.where)
        ),
        lambda begun: counted(begun.objects, "object"),
        on_page=True,
    )
    async def snapshot(self, request: SnapshotRequest) -> SnapshotStatus:
        """Plans a snapshot in front of the sink's backlog. Raises UnknownTarget too while the sink gets another
        backfill, and for an expression that does not compile. Durable on return."""

    @_command("GET", "/snapshots", lambda: "snapshot --status", lambda found: counted(len(found), "snapshot"))
    async def snapshots(self) -> Sequence[SnapshotStatus]:
        """The newest snapshot on demand of each sink that had one."""

    @_command(
        "POST",
        "/snapshots/cancel",
        lambda sink: f"snapshot {sink} --cancel",
        lambda cancelled: cancelled.state,
        on_page=True,
    )
    async def cancel_snapshot(self, sink: str) -> SnapshotStatus:
        """Ends a snapshot on demand behind the records that the sink has taken. Durable on return."""

    @_command("GET", "/dead-letters", _list, lambda found: _letters(len(found)), on_page=True)
    async def dead_letters(
        self, sink: str | None = None, *, after: After = 0, limit: Limit = LARGEST_PAGE
    ) -> Sequence[DeadLetter]:
        """At most ``limit`` dead letters, by ascending number, behind number ``after``."""

    @_command(
        "GET",
        "/dead-letters/chains",
        _list,
        lambda found: _letters(sum(each.rejected + each.parked for each in found)),
        on_page=True,
    )
    async def dead_letter_chains(
        self, sink: str | None = None, *, after: After = 0, limit: Limit = LARGEST_PAGE
    ) -> Sequence[DeadLetterChain]:
        """As ``dead_letters``, with an entry for each chain. ``after``: a number of a first dead letter."""

    @_command(
        "GET",
        "/dead-letters/{number}/object",
        lambda number: f"dead-letters show {number}",
        lambda body: counted(len(body), "byte"),
        on_page=True,
    )
    async def dead_letter_body(self, number: Number) -> bytes:
        """The object of the dead letter's record, as JSON."""

    @_command(
        "POST",
        "/dead-letters/retry",
        lambda sink, numbers: f"dead-letters retry {_chosen(sink, numbers)}",
        _letters,
        member="count",
        on_page=True,
    )
    async def retry(self, sink: str, numbers: Sequence[Number] | None = None) -> int:
        """Marks dead letters of a sink for retry: ``numbers``, or all; parked records behind them too. Returns the
        number of marked dead letters. Durable on return."""

    @_command(
        "POST",
        "/dead-letters/drop",
        lambda sink, numbers: f"dead-letters drop {_chosen(sink, numbers)}",
        _letters,
        member="count",
    )
    async def drop(self, sink: str, numbers: Sequence[Number] | None = None) -> int:
        """Drops dead letters of a sink: ``numbers``, or all. Records parked behind a dropped dead letter are delivered.
        Returns the number of dropped dead letters. Durable on return."""

    @_command("POST", "/sinks/retry", lambda sink: f"sinks retry {sink}", _steered, member="changed", on_page=True)
    async def retry_sink(self, sink: str) -> bool:
        """Ends the sink's wait for its next attempt. False if it was not waiting."""

    @_command("POST", "/sinks/pause", lambda sink: f"sinks pause {sink}", _steered, member="changed", on_page=True)
    async def pause_sink(self, sink: str) -> bool:
        """Stops deliveries to the sink until ``resume_sink``, also across restarts; ``max_backlog`` still holds. False
        if the sink was already paused."""

    @_command("POST", "/sinks/resume", lambda sink: f"sinks resume {sink}", _steered, member="changed", on_page=True)
    async def resume_sink(self, sink: str) -> bool:
        """False if the sink was not paused."""

    @_command(
        "POST",
        "/reload",
        lambda request: "reload" + (f" --allow-deletes {request.allow_deletes}" if request.allow_deletes else ""),
        lambda done: "refused" if done.problems else counted(len(done.changes), "change"),
    )
    async def reload(self, request: ReloadRequest) -> Reloaded:
        """Reads the configuration file again. Returns when the change is in effect, or refused. Raises UnknownTarget if
        no bridge runs, or if it has no file."""

    @_command("GET", "/status", None, seconds=5.0)
    async def status(self) -> BridgeStatus:
        """The state of the running bridge. Raises UnknownTarget if no bridge runs."""

    @_command(
        "GET",
        "/state",
        lambda: "state check",
        lambda report: counted(len(report.problems), "problem"),
        seconds=86_400.0,
    )
    async def state_check(self) -> StateReport:
        """Reads the whole database: seconds for each gigabyte."""

    def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        """What the running bridge commits from now on, in the form that the sink gets, or as it is stored. Yields every
        few seconds, also without records. Raises UnknownTarget if no bridge runs, or if too many follow. The only
        command whose answer is a stream: client and server have it as a function of their own."""
        raise NotImplementedError("follow")


COMMANDS: Mapping[str, AdminCommand] = {
    name: each.command for name, each in vars(AdminOperations).items() if hasattr(each, "command")
}
"""By their names, in the order of their declaration."""
