"""Counts failed evaluations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bridge.selection.language.expression import EvaluationFailed, Expression


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
