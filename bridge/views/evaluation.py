"""Evaluates expressions on one record, each distinct expression once for all sinks.

An ``Evaluator`` belongs to a resource and knows all expressions that may be evaluated on its records. It decodes an
object once, as far as any expression reads it. Each expression gets, and is remembered by, the part that its own paths
name: what another expression reads neither fails it nor makes it forgotten.

Most updates change none of the members that an expression reads, so its value is known: ``KnownValues`` keeps values by
the part that was read. The key is the part itself, not a digest of it. Expressions of a resource with the same paths
have their values together. This is the path of every record, where sinks select.

An expression that fails has no value: ``of_object`` and ``of_step`` return None and count it in ``Failures``, whose
owner reports the figures, and the first failure of each expression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bridge.model.change import Op
from bridge.model.object import is_bare
from bridge.model.resource import Resource
from bridge.views.language.cel import Expression
from bridge.views.language.expression import (
    EVIDENCE,
    LARGEST,
    OBJECT,
    OLD_OBJECT,
    OP,
    EvaluationFailed,
)
from bridge.views.language.paths import PathTree, cut, projection, union
from bridge.views.language.values import TOO_MUCH

_MOST = 16_384
"""Parts of all resources: some 5 MB, as parts of some 150 bytes."""
_LONGEST = 1024
"""Bytes of a part."""


class KnownValues:
    """Values by part, for all paths of all resources together; forgets all of them when there are ``most`` parts."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._count = 0
        self._by_paths: list[dict[bytes, dict[Any, bool]]] = []

    def of_paths(self) -> Callable[[bytes], dict[Any, bool]]:
        """A function from the part of an object, as JSON, to the values of the expressions that read it, which the
        caller completes. A longer part is not kept."""
        parts: dict[bytes, dict[Any, bool]] = {}
        self._by_paths.append(parts)

        def values_of(part: bytes) -> dict[Any, bool]:
            values = parts.get(part)
            if values is None:
                values = {}
                if len(part) <= _LONGEST:
                    self._make_room()
                    parts[part] = values
            return values

        return values_of

    def _make_room(self) -> None:
        if self._count >= self._most:
            for each in self._by_paths:
                each.clear()
            self._count = 0
        self._count += 1


@dataclass(frozen=True, slots=True)
class FailedEvaluation:
    """The first failure of an expression."""

    expression: str
    resource: str
    key: str
    """Of the object."""
    reason: str
    """Without any value of the object."""


class Failures:
    """Counts failed evaluations. The owner takes the figures, for a metric and the log."""

    def __init__(self) -> None:
        self._reported: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._first: list[FailedEvaluation] = []

    def add(self, expression: Expression, resource: str, key: str, error: EvaluationFailed) -> None:
        self._counts[expression.text] += 1
        if expression.text not in self._reported:
            self._reported.add(expression.text)
            reason = expression.why_failed(error)
            self._first.append(FailedEvaluation(expression.text, resource, key, reason))

    def take(self) -> tuple[Mapping[str, int], tuple[FailedEvaluation, ...]]:
        """Failures by expression since the last call, and the first failure of each expression that had none before."""
        taken = dict(self._counts), tuple(self._first)
        self._counts.clear()
        self._first.clear()
        return taken


_MISSING: Any = object()
_UNDECODED: Any = object()
_encode = msgspec.json.Encoder().encode
_NO_PATHS = PathTree()
_LABELS = PathTree(members={"metadata": PathTree(members={"labels": PathTree(values=PathTree())})})


class _Reader:
    """The part of a record that expressions with the same paths read. Expressions with other paths have a Reader of
    their own: what the library cannot take, and a member that always changes, is no matter of others."""

    __slots__ = ("before", "decode", "decode_before", "names", "object", "reads", "values_of")

    def __init__(self, reads: Mapping[str, PathTree], known: KnownValues | None) -> None:
        self.reads = reads
        self.names = tuple(name for name in reads if name not in (OBJECT, OLD_OBJECT))
        self.object = cut(reads[OBJECT]) if OBJECT in reads else None
        self.before = cut(reads[OLD_OBJECT]) if OLD_OBJECT in reads else None
        self.decode, self.decode_before = (projection(reads.get(name, _NO_PATHS)) for name in (OBJECT, OLD_OBJECT))
        self.values_of = None if known is None else known.of_paths()


class Evaluator:
    """Makes the Evaluations of a resource's records. ``expressions`` are all that may be evaluated on them;
    ``with_labels``: label selectors are, too. ``takes_bare``: a bare object is evaluated as it is; otherwise all
    expressions fail on it, since its missing members decide nothing."""

    def __init__(
        self,
        resource: Resource,
        cluster: str,
        expressions: Iterable[Expression],
        failures: Failures,
        *,
        known: KnownValues | None = None,
        with_labels: bool = False,
        takes_bare: bool = False,
    ) -> None:
        self.resource = resource
        self.names = {"resource": resource.name, "cluster": cluster}
        self.failures = failures
        self.takes_bare = takes_bare
        self.readers: dict[Expression, _Reader] = {}
        made: list[_Reader] = []
        for each in expressions:
            same = next((reader for reader in made if reader.reads == each.reads), None)
            if same is None:
                made.append(same := _Reader(each.reads, known))
            self.readers[each] = same
        self.labels = _Reader({OBJECT: _LABELS}, None)
        trees = [reader.reads[OBJECT] for reader in (*made, *([self.labels] if with_labels else [])) if reader.object]
        old = [reader.reads[OLD_OBJECT] for reader in made if reader.before]
        self.reads_before = bool(old)
        """Whether an expression reads the state before the change, so that ``evaluation`` needs it."""
        self.is_divided, self.is_divided_before = len(trees) > 1, len(old) > 1
        """Whether a Reader reads less than the decoded part. An object is decoded once for all of them."""
        self.decode, self.decode_before = projection(union(trees)), projection(union(old))

    def evaluation(
        self, key: str, body: bytes, before: bytes | None = None, record: Callable[[str], Any] | None = None
    ) -> Evaluation:
        return Evaluation(self, key, body, before, record)


class Evaluation:
    """A record's values of expressions. ``before`` is None for a new object, and where no expression reads it.
    ``record``: further values by name, for expressions that make content; it is called when one of these reads it."""

    __slots__ = (
        "_before",
        "_body",
        "_bound",
        "_decoded",
        "_decoded_before",
        "_evaluator",
        "_known",
        "_labels",
        "_of_part",
        "_parts",
        "_record",
        "_values",
        "key",
    )

    def __init__(
        self,
        evaluator: Evaluator,
        key: str,
        body: bytes,
        before: bytes | None,
        record: Callable[[str], Any] | None,
    ) -> None:
        self.key = key
        self._evaluator = evaluator
        self._body = body
        self._before = before
        self._record = record
        self._known: dict[Any, bool | None] = {}
        self._of_part: dict[_Reader, dict[Any, bool]] = {}
        self._parts: dict[_Reader, Any] = {}
        self._values: dict[Any, Any] = {}
        self._decoded: Any = _MISSING
        self._decoded_before: Any = _MISSING
        self._bound: dict[Any, Any] = {}
        self._labels: Mapping[str, str] | None = None

    @property
    def namespace(self) -> str:
        """Empty for cluster-scoped objects."""
        return self.key.rpartition("/")[0]

    @property
    def labels(self) -> Mapping[str, str] | None:
        """Those with a text as the value: an aggregated API may serve others. None if they cannot be known."""
        if self._labels is None:
            try:
                found = self._part(self._evaluator.labels)["metadata"]["labels"]
            except EvaluationFailed:
                return None
            except (LookupError, TypeError):
                found = None
            found = found if isinstance(found, dict) else {}
            self._labels = {key: value for key, value in found.items() if isinstance(value, str)}
        return self._labels

    def of_object(self, expression: Expression) -> bool | None:
        """The value of an expression on the object's state; None if it fails, which is counted."""
        value: bool | None = self._known.get(expression, _MISSING)
        if value is _MISSING:
            reader = self._evaluator.readers[expression]
            values = self._of_part.get(reader)
            if values is None:
                values = self._of_part[reader] = self._values_of_part(reader)
            value = values.get(expression)
            if value is None:
                value = self._value(expression, None)
                if value is not None:
                    values[expression] = value
            self._known[expression] = value
        return value

    def of_step(self, expression: Expression, op: Op, evidence: str) -> bool | None:
        """The value of an expression on a step. ``op`` and ``evidence`` are the sink's own: an object that a selection
        begins to contain is ``added``."""
        key = _key(expression, op, evidence)
        value: bool | None = self._known.get(key, _MISSING)
        if value is _MISSING:
            value = self._known[key] = self._value(expression, (op, evidence))
        return value

    def value_of_step(self, expression: Expression, op: Op, evidence: str) -> Any:
        """The value of an expression that makes data or a text, see ``Expression.value``. Raises EvaluationFailed, and
        the errors of ``record``. The caller must not change the value."""
        key = _key(expression, op, evidence)
        value = self._values.get(key, _MISSING)
        if value is _MISSING:
            try:
                value = expression.value(self._bind(expression, (op, evidence)))
            except EvaluationFailed as error:
                value = error
            self._values[key] = value
        if isinstance(value, EvaluationFailed):
            raise EvaluationFailed(str(value))
        return value

    def _values_of_part(self, reader: _Reader) -> dict[Any, bool]:
        """What is known of an object whose members that expressions read are the same."""
        try:
            return {} if reader.values_of is None else reader.values_of(_encode(self._part(reader)))
        except (EvaluationFailed, RecursionError):
            return {}

    def _value(self, expression: Expression, step: tuple[Op, str] | None) -> bool | None:
        try:
            return expression.evaluate(self._bind(expression, step))
        except EvaluationFailed as error:
            self._evaluator.failures.add(expression, self._evaluator.resource.name, self.key, error)
            return None

    def _bind(self, expression: Expression, step: tuple[Op, str] | None) -> Any:
        # A binding serves all expressions of a Reader: what they read is converted to CEL values once for each step.
        reader = self._evaluator.readers[expression]
        bound = self._bound.get((reader, step))
        if bound is None:
            values = {name: self._named(name, step) for name in reader.names}
            if reader.object is not None:
                values[OBJECT] = self._part(reader)
            if reader.before is not None:
                # For a sink that begins to get the object, there is no state before.
                is_new = self._before is None or step is None or step[0] is Op.ADDED
                values[OLD_OBJECT] = None if is_new else self._part_before(reader)
            bound = self._bound[reader, step] = expression.bind(values)
        return bound

    def _named(self, name: str, step: tuple[Op, str] | None) -> Any:
        if step is not None and name in (OP, EVIDENCE):
            # A plain text: the library takes members of a StrEnum only in an expression with the very same names.
            return str(step[name == EVIDENCE])
        found = self._evaluator.names.get(name)
        return self._record(name) if found is None and self._record is not None else found

    def _part(self, reader: _Reader) -> Any:
        """What is read of the object. Raises EvaluationFailed."""
        if reader.object is None:
            return {}
        part = self._parts.get(reader, _MISSING)
        if part is _MISSING:
            evaluator = self._evaluator
            if self._decoded is _MISSING:
                # Such an object must not slip out of a selection by its missing members.
                if not evaluator.takes_bare and is_bare(self._body):
                    raise EvaluationFailed("bare object")
                self._decoded = _decoded_for_all(evaluator.decode, self._body)
            if self._decoded is _UNDECODED:
                part = _decoded(reader.decode, self._body)
            else:
                part = reader.object(self._decoded) if evaluator.is_divided else self._decoded
            self._parts[reader] = part
        return part

    def _part_before(self, reader: _Reader) -> Any:
        before, evaluator = self._before, self._evaluator
        if self._decoded_before is _MISSING:
            self._decoded_before = _decoded_for_all(evaluator.decode_before, before or b"")
        if self._decoded_before is _UNDECODED:
            return _decoded(reader.decode_before, before or b"")
        return (
            reader.before(self._decoded_before)
            if evaluator.is_divided_before and reader.before
            else self._decoded_before
        )


def _key(expression: Expression, op: Op, evidence: str) -> Any:
    """Sinks that give different steps to a record share the value where the expression does not read them."""
    depends = not {OP, EVIDENCE, OLD_OBJECT}.isdisjoint(expression.reads)
    return (expression, op, evidence) if depends else expression


def _decoded(decode: Any, body: bytes) -> Any:
    if len(body) > LARGEST:
        raise EvaluationFailed(TOO_MUCH)
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # msgspec raises RecursionError for arrays nested a thousand deep, which are valid JSON, and DecodeError for
        # numbers beyond its own.
        raise EvaluationFailed("no JSON that can be decoded") from error


def _decoded_for_all(decode: Any, body: bytes) -> Any:
    """_UNDECODED for an object of which a part cannot be decoded: other parts may be."""
    try:
        return _decoded(decode, body)
    except EvaluationFailed:
        return _UNDECODED
