"""Evaluates expressions on one record. Each distinct expression is evaluated once, for all sinks. Hot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bridge.model.change import Op
from bridge.model.resource import Resource
from bridge.selection.failures import Failures
from bridge.selection.known_values import KnownValues
from bridge.selection.language.expression import (
    EVIDENCE,
    OBJECT,
    OLD_OBJECT,
    OP,
    EvaluationFailed,
    Expression,
)
from bridge.selection.language.paths import PathTree, union
from bridge.selection.language.projection import projection

_MISSING: Any = object()
_encode = msgspec.json.Encoder().encode
_NO_VALUES: Mapping[str, Any] = {}
_LONGEST_BARE = 2048
"""Bytes: names, versions and uids are short."""
_LABELS = PathTree(members={"metadata": PathTree(members={"labels": PathTree(values=PathTree())})})


class _BareMetadata(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    uid: str
    resourceVersion: str
    namespace: str = ""


class _Bare(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    apiVersion: str
    metadata: _BareMetadata


_decode_bare = msgspec.json.Decoder(_Bare).decode


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
        found = tuple(expressions)
        trees = [each.reads[OBJECT] for each in found if OBJECT in each.reads]
        old = [each.reads[OLD_OBJECT] for each in found if OLD_OBJECT in each.reads]
        self.resource = resource
        self.names = {"resource": resource.name, "cluster": cluster}
        self.failures = failures
        self.values_of = None if known is None else known.of_resource()
        self.takes_bare = takes_bare
        self.reads = frozenset(name for each in found for name in each.reads)
        """Names that an expression uses."""
        self.reads_before = bool(old)
        """Whether an expression reads the state before the change, so that ``evaluation`` needs it."""
        self.decode = projection(union((*trees, _LABELS) if with_labels else trees))
        self.decode_before = projection(union(old))

    def evaluation(
        self, key: str, body: bytes, before: bytes | None = None, record: Mapping[str, Any] = _NO_VALUES
    ) -> Evaluation:
        return Evaluation(self, key, body, before, record)


class Evaluation:
    """A record's values of expressions. ``before`` is None for a new object, and where no expression reads it.
    ``record``: further values by name, for expressions that make content."""

    __slots__ = (
        "_before",
        "_body",
        "_bound",
        "_evaluator",
        "_known",
        "_labels",
        "_object",
        "_of_part",
        "_record",
        "_values",
        "key",
    )

    def __init__(
        self, evaluator: Evaluator, key: str, body: bytes, before: bytes | None, record: Mapping[str, Any]
    ) -> None:
        self.key = key
        self._evaluator = evaluator
        self._body = body
        self._before = before
        self._record = record
        self._known: dict[Any, bool | None] = {}
        self._of_part: dict[Any, bool] | None = None
        self._values: dict[Any, Any] = {}
        self._object: Any = None
        self._bound: dict[tuple[tuple[Op, str] | None, bool], Any] = {}
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
                found = self._decoded()["metadata"]["labels"]
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
            values = self._of_part
            if values is None:
                values = self._of_part = self._values_of_part()
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
        """The value of an expression that makes data or a text, see ``Expression.value``. Raises EvaluationFailed. The
        caller must not change the value."""
        key, kind = _key(expression, op, evidence), ((op, evidence), OBJECT in expression.reads)
        value = self._values.get(key, _MISSING)
        if value is _MISSING:
            try:
                value = expression.value(self._bound.get(kind) or self._bind(expression, kind))
            except EvaluationFailed as error:
                value = error
            self._values[key] = value
        if isinstance(value, EvaluationFailed):
            raise EvaluationFailed(str(value))
        return value

    def _values_of_part(self) -> dict[Any, bool]:
        """What is known of an object whose members that expressions read are the same."""
        values_of = self._evaluator.values_of
        try:
            return {} if values_of is None else values_of(_encode(self._decoded()))
        except (EvaluationFailed, RecursionError):
            return {}

    def _value(self, expression: Expression, step: tuple[Op, str] | None) -> bool | None:
        try:
            # A binding serves all expressions: objects are converted to CEL values once for each step.
            kind = step, OBJECT in expression.reads
            return expression.evaluate(self._bound.get(kind) or self._bind(expression, kind))
        except EvaluationFailed as error:
            self._evaluator.failures.add(expression, self._evaluator.resource.name, self.key, error)
            return None

    def _bind(self, expression: Expression, kind: tuple[tuple[Op, str] | None, bool]) -> Any:
        step, reads_object = kind
        # An object that cannot be decoded fails only expressions that read it.
        values = {OBJECT: self._decoded() if reads_object else {}, **self._evaluator.names}
        if step is not None:
            # For a sink that begins to get the object, there is no state before.
            old = None if step[0] is Op.ADDED else self._before
            before = None if old is None else _decoded(self._evaluator.decode_before, old)
            # Plain texts: the library takes members of a StrEnum only in an expression with the very same names.
            values |= {OLD_OBJECT: before, OP: str(step[0]), EVIDENCE: str(step[1]), **self._record}
        bound = self._bound[kind] = expression.bind(values)
        return bound

    def _decoded(self) -> Any:
        if self._object is None:
            if len(self._body) <= _LONGEST_BARE and not self._evaluator.takes_bare and _is_bare(self._body):
                raise EvaluationFailed("bare object")
            self._object = _decoded(self._evaluator.decode, self._body)
        return self._object


def _is_bare(body: bytes) -> bool:
    """Whether an object is reduced to its identity: too deep, too long, or of a shape that redaction cannot read. Such
    an object must not slip out of a selection by its missing members."""
    try:
        _decode_bare(body)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _key(expression: Expression, op: Op, evidence: str) -> Any:
    """Sinks that give different steps to a record share the value where the expression does not read them."""
    depends = not {OP, EVIDENCE, OLD_OBJECT}.isdisjoint(expression.reads)
    return (expression, op, evidence) if depends else expression


def _decoded(decode: Any, body: bytes) -> Any:
    try:
        return decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        # msgspec raises RecursionError for arrays nested a thousand deep, which are valid JSON.
        raise EvaluationFailed("no JSON that can be decoded") from error
