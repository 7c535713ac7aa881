"""The names, purposes and limits of expressions, their errors, and what is wrong with an expression in the operator's
words.

``problem`` takes cel-cpp's message for a text that it refused, and finds the position, the found and the allowed text.
``wrong_constants`` looks into the tree of an expression that the library accepts, for constants with which it never
does as meant: misspelt operations, patterns that are none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from bridge.model.change import Evidence, Op
from bridge.views.language.syntax import Call, Constant, Ident, Literal, Node, walk

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


# ── What is wrong with an expression ─────────────────────────────────────────

_ISSUE = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNDECLARED = re.compile(r"undeclared reference to '(\.?+([^'.]++)[^']*+)'")
_OVERLOAD = re.compile(r"found no matching overload for '([^']++)' applied to '\(([^']*)\)'")
_EXPECTING = re.compile(r"Syntax error: (?:mismatched|extraneous) input '(.{1,200}?)' expecting (.*)")
_UNREADABLE = re.compile(r"Syntax error: token recognition error at: '(.{1,200}?)'$")
_TOO_DEEP = re.compile(r"recursion (?:limit|depth)")
_A_VALUE = "{'['"
"""The beginning of the list of tokens with which a value may begin."""


def problem(message: str, text: str, names: Collection[str]) -> ExpressionProblem:
    """The first mistake in the message of a refused ``text``, where ``names`` may be used. An unknown function comes
    before the unknown names in its arguments, which a macro of that name would declare."""
    if _TOO_DEEP.search(message):
        return at(text, 0, "more than 32 levels are nested")
    issues = [(int(line), int(column), found) for line, column, found in _ISSUE.findall(message)]
    if not issues:
        return ExpressionProblem(0, 0, message.partition("\n")[0])
    explained = [_explained(_offset(text, line, column), found, text, names) for line, column, found in issues]
    return next((each for each in explained if each.message.startswith("unknown function")), explained[0])


def at(text: str, offset: int, message: str) -> ExpressionProblem:
    """A problem at this offset of the text in characters; at its beginning for a negative offset."""
    before = text[: max(0, offset)]
    line_start = before.rfind("\n") + 1
    return ExpressionProblem(
        before.count("\n") + 1, len(before) - line_start + 1, message, text.rstrip().count("\n") + 1
    )


def unknown_name(name: str, allowed: Collection[str]) -> str:
    """The message for a name that is not among ``allowed``."""
    if name in OF_A_STEP:
        return f'"{name}" belongs to a step, and not to an object; allowed here: {", ".join(allowed)}'
    close = get_close_matches(name, allowed, n=1)
    guess = f'; did you mean "{close[0]}"?' if close else ";"
    return f'unknown name "{name}"{guess} allowed here: {", ".join(allowed)}'


def _offset(text: str, line: int, column: int) -> int:
    return sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1


def _explained(offset: int, found: str, text: str, names: Collection[str]) -> ExpressionProblem:
    if match := _UNDECLARED.search(found):
        whole, name = match[1], match[2]
        if text[offset : offset + 1] == "(":
            allowed = "CEL's own, and its extensions strings, math, optional and bindings"
            start = max(0, text.rfind(whole, 0, offset))
            return at(text, start, f'unknown function "{whole}"; allowed functions: {allowed}')
        return at(text, max(0, text.rfind(name, 0, offset + len(name))), unknown_name(name, names))
    if match := _OVERLOAD.search(found):
        return at(text, offset, f'"{_spoken(match[1])}" cannot be applied to ({match[2]})')
    if match := _UNREADABLE.search(found):
        return at(text, offset, f"found {match[1].rstrip()}, which is no part of CEL")
    if match := _EXPECTING.search(found):
        was = "the end" if match[1] == "<EOF>" else f'"{match[1]}"'
        wanted = "a value" if match[2].startswith(_A_VALUE) else match[2].replace("<EOF>", "an operator or the end")
        return at(text, offset, f"found {was}; expected: {wanted}")
    return at(text, offset, found)


def _spoken(function: str) -> str:
    """``==`` for ``_==_``, ``[]`` for ``_[_]``, ``in`` for ``@in``."""
    return function.replace("_", "").removeprefix("@")


# ── Constants ────────────────────────────────────────────────────────────────

_VALUES: Mapping[str, Collection[str]] = {OP: tuple(Op), EVIDENCE: tuple(Evidence)}
_PARSED = {"matches": 1, "timestamp": 0, "duration": 0}
"""Function → index of the argument that it parses."""


def wrong_constants(expression: Node, why_wrong: Callable[[str, str], str]) -> Iterator[tuple[int, str]]:
    """Offset and message of each constant that is compared with ``op`` or ``evidence`` and is no value of it, and of
    each that a function cannot parse. ``why_wrong``: the reason why a function refuses a text; empty if it does not."""
    for node in walk(expression):
        if not isinstance(node, Call):
            continue
        if node.function in ("_==_", "_!=_", "@in"):
            yield from _compared(node)
        elif (index := _PARSED.get(node.function)) is not None and index < len(node.arguments):
            argument = node.arguments[index]
            text = argument.value if isinstance(argument, Constant) else None
            if isinstance(text, str) and (reason := why_wrong(node.function, text)):
                yield argument.offset, f'{node.function}() cannot read "{text}": {reason}'


def _compared(call: Call) -> Iterator[tuple[int, str]]:
    names = [each.name for each in call.arguments if isinstance(each, Ident) and each.name in _VALUES]
    lists = [each.items for each in call.arguments if isinstance(each, Literal)]
    for constant in (*call.arguments, *(item for items in lists for item in items)):
        if names and isinstance(constant, Constant) and constant.value not in (allowed := _VALUES[names[0]]):
            yield constant.offset, _no_value(names[0], str(constant.value), allowed)


def _no_value(name: str, found: str, allowed: Collection[str]) -> str:
    close = get_close_matches(found, allowed, n=1)
    guess = f'; did you mean "{close[0]}"?' if close else ";"
    return f'"{found}" is no value of {name}{guess} allowed: {", ".join(allowed)}'
