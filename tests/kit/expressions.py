"""Regular expressions taken apart, by the parser of ``re`` itself: their alternatives, and texts that they match."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)


def parsed(pattern: re.Pattern[Any]) -> Any:
    return _parser.parse(pattern.pattern, pattern.flags)


def alternatives(pattern: re.Pattern[Any]) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The expression with one alternative in place of several, for each alternative in it: of ``|``, of a set of
    letters, and of a part that may be missing. With each, its place in the parsed expression."""
    for place, tree in _narrowed(parsed(pattern), ""):
        yield place, _compiler.compile(tree, pattern.flags & ~re.DEBUG)


def _narrowed(tree: Any, place: str) -> Iterator[tuple[str, Any]]:
    for index, (op, argument) in enumerate(tree.data):
        for inner, node in _narrowed_node(tree.state, op, argument, f"{place}/{index}"):
            yield inner, _parser.SubPattern(tree.state, [*tree.data[:index], node, *tree.data[index + 1 :]])


def _narrowed_node(state: Any, op: Any, argument: Any, place: str) -> Iterator[tuple[str, Any]]:
    if op is _constants.BRANCH:
        for index, branch in enumerate(argument[1]):
            yield f"{place}|{written(branch)}", (op, (None, [branch]))
            for inner, narrowed in _narrowed(branch, f"{place}|{index}"):
                yield inner, (op, (None, [narrowed]))
    elif op is _constants.IN:
        if len(argument) > 1 and all(each[0] is _constants.LITERAL for each in argument):
            for each in argument:
                yield f"{place}[{chr(each[1])}]", each
    elif op is _constants.SUBPATTERN:
        for inner, narrowed in _narrowed(argument[3], place):
            yield inner, (op, (*argument[:3], narrowed))
    elif op in _REPEATS:
        least, most, body = argument
        if (least, most) == (0, 1):
            yield f"{place}{{0}}", (op, (0, 0, body))
            yield f"{place}{{1}} {written(body)}", (op, (1, 1, body))
        for inner, narrowed in _narrowed(body, place):
            yield inner, (op, (max(least, 1), most, narrowed))
    elif op is _constants.ASSERT:
        for inner, narrowed in _narrowed(argument[1], place):
            yield inner, (op, (argument[0], narrowed))
    elif op is _constants.ATOMIC_GROUP:
        for inner, narrowed in _narrowed(argument, place):
            yield inner, (op, narrowed)


def written(tree: Any) -> str:
    """A text that the expression matches, assertions apart: the least of each repetition, the first of alternatives."""
    return "".join(_written(op, argument) for op, argument in tree.data)


def _written(op: Any, argument: Any) -> str:
    if op is _constants.LITERAL:
        return chr(int(argument))
    if op is _constants.NOT_LITERAL:
        return next(letter for letter in "a0-" if ord(letter) != argument)
    if op is _constants.ANY:
        return "a"
    if op is _constants.IN:
        return letters(argument)[0]
    if op is _constants.BRANCH:
        return written(argument[1][0])
    if op is _constants.SUBPATTERN:
        return written(argument[3])
    if op in _REPEATS:
        return written(argument[2]) * int(argument[0])
    if op is _constants.ATOMIC_GROUP:
        return written(argument)
    return ""


_SAMPLES = "a A0_-. /\"'\\=:;,@$(){}[]<>&|!?%+*\t\n\0é"


def letters(members: Any) -> list[str]:
    """Some letters of a set; at least one."""
    tree = _parser.SubPattern(_parser.State(), [(_constants.IN, members)])
    pattern = _compiler.compile(tree, 0)
    found = [letter for letter in _SAMPLES if pattern.fullmatch(letter)]
    return found or [next(chr(code) for code in range(0x3000) if pattern.fullmatch(chr(code)))]
