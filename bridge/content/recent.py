"""Values of recent records, so that sinks which take the same record make the same content once. Hot where sinks ask
for content."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Any, TypeAlias

from bridge.content.differences import Differences, differences
from bridge.model.change import Op
from bridge.model.formats.content import Include
from bridge.model.formats.managers import changed_in, entries_in
from bridge.model.record import Delta
from bridge.model.resource import Resource
from bridge.selection import Evaluation, Evaluator, Failures
from bridge.selection.language import CHANGED, TIME, Expression

MOST_RECORDS = 2000
MOST_BYTES = 8 * 1024 * 1024
"""Of the bodies; what expressions read of them is in memory, too."""

_Key: TypeAlias = tuple[int, int, int]


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
        if delta.managers is None or delta.op not in (Op.ADDED, Op.UPDATED):
            return None
        return entries_in(delta.managers) if delta.op is Op.ADDED else changed_in(delta.managers)


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
            self._bytes += _size(delta)
            while len(self._recent) > MOST_RECORDS or self._bytes > MOST_BYTES:
                self._forget(next(iter(self._recent)))
        return found

    def _forget(self, key: _Key) -> None:
        if (found := self._recent.pop(key, None)) is not None:
            self._bytes -= _size(found.delta)

    def _new(self, delta: Delta) -> RecordValues:
        evaluator = self._evaluators.get(delta.resource)
        if evaluator is None:
            evaluator = Evaluator(delta.resource, self._cluster, self._expressions, Failures(), takes_bare=True)
            self._evaluators[delta.resource] = evaluator
        return RecordValues(delta, evaluator, self._include)


def _size(delta: Delta) -> int:
    return len(delta.body) + len(delta.before or b"")
