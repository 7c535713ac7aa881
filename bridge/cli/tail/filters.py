"""Chooses records by resource, namespace and an expression."""

from __future__ import annotations

import msgspec

from bridge.cli.command_line.arguments import UsageError
from bridge.kube import SHORT_NAMES
from bridge.model.change import Op
from bridge.model.resource import Resource
from bridge.model.resource_name import ResourceName
from bridge.model.versions.followed_record import FollowedRecord
from bridge.selection import Evaluator, FailedEvaluation, Failures
from bridge.selection.language import Cel, Expression, ExpressionProblem, MissingLibrary, Purpose


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
    if not any(group in (None, record.group) for group, _ in name.readings):
        return False
    if name.is_wildcard or name.word in (record.plural, *SHORT_NAMES.get(record.resource, ())):
        return True
    return name.word == (record.kind or _kind_in(record.object)).lower()


def _kind_in(state: bytes | None) -> str:
    try:
        return "" if state is None else _decode_kind(state).kind
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
