"""The names, purposes and limits of expressions, and their errors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

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
