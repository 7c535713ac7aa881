"""``kubedelta tail``: prints the records of a file, of a sink's destination or of the running bridge, until the reader
leaves.

A destination that can be read is read by the ``RecordReader`` of the sink's type. Otherwise the running bridge passes
on what it commits, through its admin socket. In both cases ``TailFilter`` chooses records by resource, namespace and an
expression, and ``Printer`` prints them, as lines for people or unchanged as JSON.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import msgspec
from kubedelta_reader import Record
from kubedelta_reader.sources import Unavailable

from bridge.app.admin.client import AdminClient, NoAnswer, NotRunning
from bridge.cli.admin_access import directory_of
from bridge.cli.arguments import NO_FILE, UsageError, default_file
from bridge.cli.exits import CommandEnds, Exit
from bridge.cli.settings import OperatorSettings, operator_settings
from bridge.cli.terminal import Colours, colour_of, complain, flush, plain, say, say_escaped
from bridge.model.admin import Followed
from bridge.model.change import Evidence, Op
from bridge.model.formats.stored_record import FollowedRecord, followed
from bridge.model.primitives.printable import counted
from bridge.model.resource import SHORT_NAMES, Resource, ResourceName
from bridge.views.evaluation import Evaluator, FailedEvaluation, Failures
from bridge.views.language import Cel, Expression, ExpressionProblem, MissingLibrary, Purpose
from config.errors import ConfigError
from config.schema import SinkSettings
from sinks import registry
from sinks.base import CannotRead, NoDestination, ReadPurpose, RecordReader

POLL_EVERY = 0.25
"""Seconds between two looks for further records."""
_RETRY_EVERY = 0.5
"""Seconds between two looks for a bridge."""


def tail(
    target: str | None,
    path: Path | None,
    *,
    resource: str | None,
    namespace: str | None,
    where: str | None,
    lines: int | None,
    since: datetime | None,
    follow: bool,
    as_json: bool,
) -> int:
    """``target``: a file, the name of a sink in the configuration at ``path``, or None for the running bridge. Without
    ``path``, a file that exists is meant before a sink of the default configuration. ``lines``: how many of the last
    records come first; None to begin at ``since``, or with the oldest."""
    printer = Printer(TailFilter(resource, namespace, where), as_json=as_json)
    try:
        found = None if target is not None and path is None and Path(target).exists() else _configuration(path)
        if found is None and target is None:
            raise UsageError(f"kubedelta tail: {NO_FILE}: name one with -c, or a file of deltas")
        reader = _reader(target, found)
        if reader is not None:
            of_sink = found is not None
            return asyncio.run(_tail(target or "", reader, printer, lines, since, follow=follow, of_sink=of_sink))
        if found is None or lines is None or not follow:
            source = target or "the bridge"
            raise CommandEnds(Exit.NO, f"{source} is followed from now on alone, as the bridge commits records")
        found.warn()
        return asyncio.run(_follow(found, target, printer))
    except CannotRead as error:
        raise CommandEnds(Exit.NO, error) from error
    except Unavailable as error:
        raise CommandEnds(Exit.UNAVAILABLE, f"{target}: {error}") from error


def _configuration(path: Path | None) -> OperatorSettings | None:
    """None without a file: none is named, and there is no default. Raises ConfigError."""
    if path is None and (default := default_file()) is not None:
        path = default.path
    return None if path is None else operator_settings(path)


def _reader(target: str | None, found: OperatorSettings | None) -> RecordReader | None:
    """None for the running bridge: without a target, for a sink whose destination cannot be read, and for any sink of
    an invalid configuration. Raises CannotRead and CommandEnds."""
    if target is None:
        return None
    if found is not None:
        sinks = None if isinstance(found.settings, ConfigError) else found.settings.sinks
        if sinks is not None and target in sinks:
            return _of_sink(target, sinks[target], found.required().cluster.name)
        if not Path(target).exists():
            if sinks is None:
                return None
            known = f"sinks of {found.path}: {', '.join(sinks)}"
            raise CommandEnds(Exit.NO, f"there is no sink and no file {target}; {known}")
    return registry.reader_of_file(target, ReadPurpose.TAIL)


def _of_sink(name: str, sink: SinkSettings, cluster: str) -> RecordReader | None:
    try:
        return registry.reader(name, sink.type, sink.options, cluster=cluster, purpose=ReadPurpose.TAIL)
    except CannotRead:
        return None


async def _tail(
    target: str,
    reader: RecordReader,
    printer: Printer,
    lines: int | None,
    since: datetime | None,
    *,
    follow: bool,
    of_sink: bool,
) -> int:
    """``of_sink``: the target is a sink, and not the path of a file."""
    try:
        while not await _is_there(reader):
            if not follow:
                complain(f"{target}: no destination yet: no record was delivered, or the name is wrong")
                return Exit.NO
            printer.wait_for(f"the destination of {target}" if of_sink else _no_file(target))
            await asyncio.sleep(POLL_EVERY)
        if lines is not None:
            newest = await reader.last(lines, lambda record: printer.chosen(followed(record)))
            printer.print(map(followed, newest))
        else:
            await reader.begin(since)
        while True:
            async with aclosing(reader.read()) as batches:
                async for batch in batches:
                    printer.print(filter(printer.chosen, map(followed, batch)))
            if not follow:
                printer.tell_nothing()
                return Exit.OK
            await asyncio.sleep(POLL_EVERY)
    finally:
        await reader.close()


async def _is_there(reader: RecordReader) -> bool:
    try:
        await reader.open()
    except NoDestination:
        return False
    return True


def _no_file(target: str) -> str:
    return f"the file {target}, which does not exist; for a sink of that name, name the configuration (-c FILE)"


async def _follow(found: OperatorSettings, sink: str | None, printer: Printer) -> NoReturn:
    """``sink``: the sink in whose form records are shown; None for the form in which they are stored. Goes on with the
    next bridge when one ends."""
    directory = await directory_of(found)
    while True:
        try:
            async with AdminClient(directory) as admin, aclosing(admin.follow(sink)) as stream:
                async for each in stream:
                    _print(each, printer)
        except (NoAnswer, NotRunning):
            pass
        printer.wait_for(f"a bridge on {directory}")
        await asyncio.sleep(_RETRY_EVERY)


def _print(found: Followed, printer: Printer) -> None:
    printer.print(filter(printer.chosen, (followed(Record(bytes(each))) for each in found.records)))
    for reason in found.rejected:
        complain(f"no event: {plain(reason)}")
    if found.dropped:
        complain(f"{counted(found.dropped, 'record')} left out: they came faster than they were read")


# ── Choosing records ─────────────────────────────────────────────────────────


class _Kind(msgspec.Struct):
    kind: str = ""


_decode_kind = msgspec.json.Decoder(_Kind).decode


class TailFilter:
    """Records that all given conditions take. A gap passes every filter: it may stand for any object."""

    def __init__(self, resource: str | None, namespace: str | None, where: str | None) -> None:
        """``where``: a CEL expression with the names of ``select[].when``. Raises UsageError."""
        self._resource = None if resource is None else ResourceName.parsed(resource)
        self._namespace = namespace
        self._where = None if where is None else _compiled(where)
        self._failures = Failures()
        self._evaluators: dict[tuple[str, str], Evaluator] = {}

    def __call__(self, record: FollowedRecord) -> bool:
        if record.is_gap:
            return True
        if self._namespace is not None and record.namespace != self._namespace:
            return False
        if self._resource is not None and not _is_of(self._resource, record):
            return False
        return self._where is None or self._holds(self._where, record)

    def failed(self) -> FailedEvaluation | None:
        """The first failure of the expression, once. Where it fails, it does not choose."""
        _, first = self._failures.take()
        return first[0] if first else None

    def _holds(self, where: Expression, record: FollowedRecord) -> bool:
        if record.notice or record.foreign:
            return False
        evaluator = self._evaluator(where, record)
        key = f"{record.namespace}/{record.name}" if record.namespace else record.name
        evaluation = evaluator.evaluation(key, record.object or b"", record.before)
        return bool(evaluation.of_step(where, record.op or Op.UPDATED, record.evidence))

    def _evaluator(self, where: Expression, record: FollowedRecord) -> Evaluator:
        place = record.cluster, record.resource
        if place not in self._evaluators:
            resource = Resource(record.group, "", record.plural or record.kind, record.kind, True)
            self._evaluators[place] = Evaluator(resource, record.cluster, [where], self._failures, takes_bare=True)
        return self._evaluators[place]


def _compiled(where: str) -> Expression:
    try:
        return Cel().compile(where, Purpose.WHEN)
    except ExpressionProblem as problem:
        raise UsageError(f"--where: {problem}") from problem
    except MissingLibrary as error:
        raise UsageError(f"--where: {error}") from error


def _is_of(name: ResourceName, record: FollowedRecord) -> bool:
    """As kubectl takes names: plural, kind, or the short name of a resource of Kubernetes; with the group behind it, or
    without."""
    if not name.may_be_in(record.group):
        return False
    if name.is_wildcard or name.word in (record.plural, *SHORT_NAMES.get(record.resource, ())):
        return True
    return name.word == (record.kind or _kind_in(record.object)).lower()


def _kind_in(state: bytes | None) -> str:
    try:
        return "" if state is None else _decode_kind(state).kind
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


# ── Printing records ─────────────────────────────────────────────────────────

_LONGEST_FOREIGN = 200
"""Characters."""


class Printer:
    """Prints records as lines."""

    def __init__(self, chosen: TailFilter, *, as_json: bool) -> None:
        self.chosen = chosen
        self._as_json = as_json
        self._lines = TailLines(Colours.of_output())
        self._waits = False
        self._has_printed = False

    def wait_for(self, target: str) -> None:
        if not self._waits:
            complain(f"waiting for {target}")
        self._waits = True

    def print(self, records: Iterable[FollowedRecord]) -> None:
        self._waits = False
        for record in records:
            self._has_printed = True
            if self._as_json:
                if not record.foreign:
                    say(record.text.decode(errors="replace"))
            else:
                say_escaped(self._lines.line(record))
        if (failed := self.chosen.failed()) is not None:
            complain(f"--where fails on {failed.resource} {failed.key}, and chooses no such record: {failed.reason}")
        flush()

    def tell_nothing(self) -> None:
        """At the end, where nothing was printed: a name may be misspelt."""
        if not self._has_printed:
            complain("there is no such record")


class TailLines:
    """Every text of a record is escaped before it is coloured. Columns of resources grow with the longest so far."""

    def __init__(self, colours: Colours) -> None:
        self._paint = colours.paint
        self._width = 0

    def line(self, record: FollowedRecord) -> str:
        paint = self._paint
        time = paint(f"{record.time[:19]}Z" if record.time else "", "dim")
        if record.foreign:
            text = record.text[:_LONGEST_FOREIGN].decode(errors="replace") or "a record without a readable text"
            return paint(f"? {text}", "dim")
        if record.notice:
            return f"{time} {paint(record.notice, 'red' if record.is_gap else 'dim')}"
        step, colour = "*", "plain"
        if record.op is not None:
            step, colour = f"{record.op.sign} {record.op:<7}", colour_of(record.op)
        self._width = max(self._width, min(40, len(record.resource)))
        key = f"{record.namespace}/{record.name}" if record.namespace else record.name
        parts = [
            *([time] if record.time else []),
            paint(step, colour),
            paint(f"{record.resource:<{self._width}}", "cyan"),
            paint(key, "plain"),
            paint(f"@{record.version}", "dim"),
        ]
        if record.evidence not in ("", Evidence.WATCHED):
            parts.append(paint(record.evidence, "dim"))
        return " ".join(parts)
