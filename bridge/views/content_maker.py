"""Makes the content that the options of a sink ask for, and adds it to the sink's records.

``compile_content`` compiles the expressions in the options, and finds all mistakes at once. A ``ContentMaker`` for each
sink then evaluates them before each attempt, on the record as it leaves. ``RecentValues`` keeps the values of recent
records, so that sinks which take the same record make the same content once: this runs for every record where sinks ask
for content.

Content is made of what others wrote into objects. So no failure of it is a failure of the bridge: what the content of a
record raises is the reason for which that record alone is rejected. A rejection by the sink loses nothing, keeps the
order, stores the reason, and a retry after a correction delivers. The object in place of the data would break the
receiver, and leak members that the expression leaves out; to skip the record would lose it silently. The price: an
expression that forgets about a missing member fills the dead letters until somebody looks. ``kubedelta check``
evaluates it on every live object before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from bridge.model.change import Op
from bridge.model.formats.content import DIFFERENCES, Content, ContentRequest, Include, Makes, changed_in, entries_in
from bridge.model.record import Delta, Record, record_bytes
from bridge.model.resource import Resource
from bridge.views.differences import Differences, differences
from bridge.views.evaluation import Evaluation, Evaluator, Failures
from bridge.views.language import CHANGED, TIME, Cel, EvaluationFailed, Expression, ExpressionProblem, Purpose

MOST_RECORDS = 2000
"""Records whose values are kept."""
MOST_BYTES = 8 * 1024 * 1024
"""Of the bodies; what expressions read of them is in memory, too."""
_PURPOSES = {Makes.DATA: Purpose.DATA, Makes.TEXT: Purpose.TEXT}
_encode = msgspec.json.Encoder().encode
_Key: TypeAlias = tuple[int, int, int]


# ── The options of a sink ────────────────────────────────────────────────────


class WrongContent(ValueError):
    """The message has a line for each mistake: the path of the option, the column, the found and the allowed text."""


@dataclass(frozen=True, slots=True)
class ContentPart:
    """A compiled expression of an option."""

    option: str
    """Its path in the sink's options."""
    makes: Makes
    expression: Expression


@dataclass(frozen=True, slots=True)
class SinkContent:
    """The content that a sink asks for."""

    parts: tuple[ContentPart, ...]
    include: frozenset[Include]


def compile_content(request: ContentRequest, path: str, language: Callable[[], Cel]) -> SinkContent:
    """``path``: of the sink, such as ``sinks.chat``. A language returns the same Expression for the same text, so that
    the options of several sinks evaluate it once. Raises WrongContent, and the error of ``language`` if its library is
    not installed."""
    parts, problems = [], []
    for each in request.expressions:
        try:
            compiled = language().compile(each.text, _PURPOSES[each.makes])
        except ExpressionProblem as problem:
            if problem.line == 1:
                problem = dataclasses.replace(problem, column=problem.column + each.offset)
            problems.append(f"{path}.{each.option}: {problem}")
        else:
            parts.append(ContentPart(each.option, each.makes, compiled))
    if problems:
        raise WrongContent("\n".join(problems))
    return SinkContent(tuple(parts), request.include)


# ── Content of records ───────────────────────────────────────────────────────


def content_makers(
    sinks: Mapping[str, ContentRequest], cluster: str, language: Callable[[], Cel]
) -> dict[str, ContentMaker]:
    """Name of a sink → its maker, of the sinks whose content must be made. Raises WrongContent, and the error of
    ``language``."""
    contents = {
        name: compile_content(request, f"sinks.{name}", language) for name, request in sinks.items() if request.is_made
    }
    expressions = [part.expression for content in contents.values() for part in content.parts]
    include = frozenset(each for content in contents.values() for each in content.include)
    recent = RecentValues(cluster, expressions, include, shared=len(contents) > 1)
    return {name: ContentMaker(content, recent) for name, content in contents.items()}


class ContentMaker:
    """A function from the record that a sink gets to the same record with its content. Notices stay. Never raises: a
    failure is in the content. All makers share values, so that one runs at a time."""

    def __init__(self, content: SinkContent, recent: RecentValues) -> None:
        self._parts = content.parts
        self._include = content.include
        self._recent = recent

    def __call__(self, record: Record) -> Record:
        return replace(record, content=self._content(record)) if isinstance(record, Delta) else record

    def _content(self, delta: Delta) -> Content:
        include = self._include
        data: Any = None
        texts: dict[str, str] = {}
        option = "include"
        try:
            values = self._recent.of(delta)
            found = None if DIFFERENCES.isdisjoint(include) else values.differences
            managers = values.managers if Include.MANAGERS in include else None
            for part in self._parts:
                option = part.option
                value = values.evaluation.value_of_step(part.expression, delta.op, delta.evidence)
                if part.makes is Makes.DATA:
                    data = value
                else:
                    texts[part.expression.text] = _text(value)
        except EvaluationFailed as error:
            return Content(failure=f"{option}: {part.expression.why_failed(error)}")
        except Exception as error:
            # A bug, or no memory: for this record alone. The error's own text may have values of the object.
            return Content(failure=f"{option}: the content cannot be made: {type(error).__name__}")
        if found is None:
            return Content(data, texts, managers=managers)
        changed = None if found.changed is None else _encode(found.changed)
        return Content(data, texts, found.patch, found.json_patch, changed, managers, uncompared=found.uncompared)


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# ── Values of recent records ─────────────────────────────────────────────────


class RecentValues:
    """``expressions`` and ``include``: of all sinks. ``shared``: several sinks ask for content; otherwise values are
    not kept. For one thread at a time."""

    def __init__(
        self, cluster: str, expressions: Iterable[Expression], include: Collection[Include], *, shared: bool
    ) -> None:
        self._cluster = cluster
        self._expressions = tuple(dict.fromkeys(expressions))
        paths = {Include.CHANGED} if any(CHANGED in each.reads for each in self._expressions) else frozenset()
        self._include = frozenset(include) | paths
        self._shared = shared
        self._evaluators: dict[Resource, Evaluator] = {}
        self._recent: dict[_Key, RecordValues] = {}
        self._bytes = 0

    def of(self, delta: Delta) -> RecordValues:
        """The same value for records with the same bodies and operation."""
        if not self._shared:
            return self._new(delta)
        # A kept delta keeps its bodies, so that no others have these addresses. A sink's own redaction makes other
        # bodies of the same record.
        key = (delta.sequence, id(delta.body), id(delta.before))
        found = self._recent.get(key)
        if found is None or found.delta.op is not delta.op:
            self._forget(key)
            found = self._recent[key] = self._new(delta)
            self._bytes += record_bytes(delta)
            while len(self._recent) > MOST_RECORDS or self._bytes > MOST_BYTES:
                self._forget(next(iter(self._recent)))
        return found

    def _forget(self, key: _Key) -> None:
        if (found := self._recent.pop(key, None)) is not None:
            self._bytes -= record_bytes(found.delta)

    def _new(self, delta: Delta) -> RecordValues:
        evaluator = self._evaluators.get(delta.resource)
        if evaluator is None:
            evaluator = Evaluator(delta.resource, self._cluster, self._expressions, Failures(), takes_bare=True)
            self._evaluators[delta.resource] = evaluator
        return RecordValues(delta, evaluator, self._include)


class RecordValues:
    """What content can be made of a record. Each value is made when it is first read, and kept."""

    def __init__(self, delta: Delta, evaluator: Evaluator, include: frozenset[Include]) -> None:
        self.delta = delta
        self._evaluator = evaluator
        self._include = include

    @cached_property
    def evaluation(self) -> Evaluation:
        delta = self.delta
        return self._evaluator.evaluation(delta.key, delta.body, delta.before, self._named)

    def _named(self, name: str) -> Any:
        return (self.differences.changed or []) if name == CHANGED else {TIME: self.delta.time}[name]

    @cached_property
    def differences(self) -> Differences:
        """Between the states before and after an update: those that any sink asks for. None of them where the state
        before is unknown."""
        delta = self.delta
        if delta.op is not Op.UPDATED or delta.before is None:
            return Differences()
        return differences(delta.before, delta.body, self._include)

    @cached_property
    def managers(self) -> bytes | None:
        """All managers of a new object, and of an object in a snapshot."""
        delta = self.delta
        if delta.managers is None or not delta.op.has_state:
            return None
        return entries_in(delta.managers) if delta.op is Op.ADDED else changed_in(delta.managers)
