"""Messages of cel-cpp → problems in the operator's words. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

from bridge.selection.language.expression import OF_A_STEP, ExpressionProblem

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
