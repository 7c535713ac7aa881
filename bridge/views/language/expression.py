"""The interface to the language of expressions: its names, its purposes and limits, a compiled expression, and errors.

``cel`` implements it with ``cel-expr-python``; no other module knows that library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from bridge.views.language.paths import PathTree

OBJECT = "object"
OLD_OBJECT = "oldObject"
OP = "op"
EVIDENCE = "evidence"
TIME = "time"
CHANGED = "changed"

OF_AN_OBJECT = (OBJECT, "resource", "cluster")
OF_A_STEP = (*OF_AN_OBJECT, OLD_OBJECT, OP, EVIDENCE)
OF_A_RECORD = (*OF_A_STEP, TIME, CHANGED)

LONGEST = 4096
"""Characters of an expression."""
LARGEST = 4 * 1024 * 1024
"""Bytes of an object that is evaluated, and of a value."""
LARGEST_OF_SMALL, TIMES = 128 * 1024, 16
"""Bytes of a value of a small object, and times what a value may have beyond that of what was read: a loop may repeat a
part of an object many times, and a batch of such values is in memory."""


class Purpose(Enum):
    """An option with an expression: the names that it offers, the type of the value in words, and CEL's types that may
    be one."""

    WHERE = (OF_AN_OBJECT, "a bool", ("BOOL",))
    """Chooses objects: depends on the object's state alone."""
    WHEN = (OF_A_STEP, "a bool", ("BOOL",))
    """Chooses steps."""
    DATA = (OF_A_RECORD, "a map, a list or a text", ("MAP", "LIST", "STRING"))
    """Makes the data of an event."""
    TEXT = (OF_A_RECORD, "a text, a whole number or a bool", ("STRING", "INT", "UINT", "BOOL"))
    """Makes a part of a text."""

    def __init__(self, names: tuple[str, ...], expected: str, types: tuple[str, ...]) -> None:
        self.names = names
        self.expected = expected
        self.types = types


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
    """A compiled and checked expression, whose value is a bool for the purposes ``where`` and ``when``. Immutable."""

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

    def value(self, bound: Any) -> Any:
        """A JSON value of a type of the purpose, of a bounded size. Raises EvaluationFailed, also for any
        other value."""

    def why_failed(self, error: EvaluationFailed) -> str:
        """The reason of a failed ``evaluate`` without any value of the object."""


class Language(Protocol):
    def compile(self, text: str, purpose: Purpose) -> Expression:
        """The same value for the same text and purpose. Raises ExpressionProblem."""
