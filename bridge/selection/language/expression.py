"""The interface to the language of expressions. ``cel`` implements it with ``cel-expr-python``; no other module knows
that library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from bridge.selection.language.paths import PathTree

OBJECT = "object"
OLD_OBJECT = "oldObject"
OP = "op"
EVIDENCE = "evidence"

OF_AN_OBJECT = (OBJECT, "resource", "cluster")
OF_A_STEP = (*OF_AN_OBJECT, OLD_OBJECT, OP, EVIDENCE)

LONGEST = 4096
"""Characters of an expression."""


class Purpose(Enum):
    """An option with an expression: the names that it offers, and the type of the value."""

    WHERE = OF_AN_OBJECT
    """Chooses objects: a bool that depends on the object's state alone."""
    WHEN = OF_A_STEP
    """Chooses steps: a bool."""


@dataclass(frozen=True, slots=True)
class ExpressionProblem(ValueError):
    """A mistake in an expression, for the operator."""

    line: int
    """From 1; 0 if the mistake has no position."""
    column: int
    """From 1, in characters."""
    message: str
    """The found text, and the allowed texts."""
    lines: int = 1
    """Lines of the expression; the line is written only if there are several."""

    def __str__(self) -> str:
        if not self.line:
            return self.message
        line = f"line {self.line}, " if self.lines > 1 else ""
        return f"{line}column {self.column}: {self.message}"


class EvaluationFailed(Exception):
    """The expression has no value for this object. The text may have values of the object, so it goes into no log."""


class Expression(Protocol):
    """A compiled and checked expression. Immutable."""

    @property
    def text(self) -> str: ...

    @property
    def reads(self) -> Mapping[str, PathTree]:
        """Name → the part of its value that the expression reads; absent for a name that it does not use."""

    def bind(self, values: Mapping[str, Any]) -> Any:
        """Values for ``evaluate`` of all expressions of the language, by name: JSON for objects, texts for the other
        names. Names that are not used may be absent."""

    def evaluate(self, bound: Any) -> bool:
        """Raises EvaluationFailed, also for a value that is no bool."""

    def why_failed(self, error: EvaluationFailed) -> str:
        """The reason of a failed ``evaluate`` without any value of the object."""


class Language(Protocol):
    def compile(self, text: str, purpose: Purpose) -> Expression:
        """The same value for the same text and purpose. Raises ExpressionProblem."""
