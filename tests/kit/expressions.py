"""Regular expressions taken apart, by the parser of ``re`` itself: their alternatives, and texts that they match."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
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


def written(tree: Any, least: int = 0) -> str:
    """A text that the expression matches, assertions apart: the first of alternatives, and of each repetition as few as
    may be, and at least so many."""
    return "".join(_written(op, argument, least) for op, argument in tree.data)


def _written(op: Any, argument: Any, least: int) -> str:
    if op is _constants.LITERAL:
        return chr(int(argument))
    if op is _constants.NOT_LITERAL:
        return next(letter for letter in "a0-" if ord(letter) != argument)
    if op is _constants.ANY:
        return "a"
    if op is _constants.IN:
        return letters(argument)[0]
    if op in _REPEATS:
        return written(argument[2], least) * max(least, int(argument[0]))
    if op in (_constants.BRANCH, _constants.SUBPATTERN, _constants.ATOMIC_GROUP):
        return written(_inner(op, argument)[0], least)
    return ""


def _inner(op: Any, argument: Any) -> list[Any]:
    """The expressions within a node."""
    if op is _constants.BRANCH:
        return list(argument[1])
    if op is _constants.SUBPATTERN:
        return [argument[3]]
    if op in _REPEATS:
        return [argument[2]]
    if op is _constants.ATOMIC_GROUP:
        return [argument]
    if op in (_constants.ASSERT, _constants.ASSERT_NOT):
        return [argument[1]]
    return []


_MOST_LETTERS = 8
_SAMPLES = "a A0_-. /\"'\\=:;,@$(){}[]<>&|!?%+*\t\n\0é"


def letters(members: Any) -> list[str]:
    """Some letters of a set; at least one."""
    tree = _parser.SubPattern(_parser.State(), [(_constants.IN, members)])
    pattern = _compiler.compile(tree, 0)
    found = [letter for letter in _SAMPLES if pattern.fullmatch(letter)]
    return found or [next(chr(code) for code in range(0x3000) if pattern.fullmatch(chr(code)))]


# ── Hostile texts ────────────────────────────────────────────────────────────

_SEPARATORS = ("", " ", "-", "a", "\n", ",")
_ENDS = ("", "\0", "!", ",", " ")


@dataclass(frozen=True, slots=True)
class Pump:
    """A text of any length: a beginning, a part that is repeated, and an end."""

    beginning: str
    part: str
    end: str = ""

    def text(self, length: int) -> str:
        times = max(1, (length - len(self.beginning) - len(self.end)) // len(self.part))
        return self.beginning + self.part * times + self.end

    def __str__(self) -> str:
        return f"{self.beginning!r} + {self.part!r} * n + {self.end!r}"


def pumps(pattern: re.Pattern[Any]) -> list[Pump]:
    """Texts made of the expression's own parts: each of its repetitions goes on and on, and then does not match; and
    each beginning of a match comes again and again."""
    found: dict[Pump, None] = {}
    for before, body in _repetitions(parsed(pattern), ""):
        for part in _samples(body):
            found |= dict.fromkeys(Pump(before, part, end) for end in _ENDS if part)
    for beginning in dict.fromkeys(_beginnings(parsed(pattern), "")):
        parts = [separator + beginning for separator in _SEPARATORS]
        found |= dict.fromkeys(Pump("", part) for part in parts if part)
    return list(found)


def _repetitions(tree: Any, before: str) -> Iterator[tuple[str, Any]]:
    """The body of each repetition, with a text that matches up to it."""
    for op, argument in tree.data:
        if op in _REPEATS:
            yield before, argument[2]
        for inner in _inner(op, argument):
            yield from _repetitions(inner, before)
        before += _written(op, argument, 1)


def _beginnings(tree: Any, before: str) -> Iterator[str]:
    """Texts that match up to the end of a word, or of another part of the expression."""
    for index, (op, argument) in enumerate(tree.data):
        for inner in _inner(op, argument):
            yield from _beginnings(inner, before)
        before += _written(op, argument, 1)
        following = tree.data[index + 1 : index + 2]
        if op is not _constants.LITERAL or not following or following[0][0] is not _constants.LITERAL:
            yield before


def _samples(body: Any) -> Iterator[str]:
    """Texts that the body of a repetition matches: with each of its alternatives, and with several letters of a set."""
    yield written(body, 1)
    if len(body.data) == 1:
        op, argument = body.data[0]
        if op is _constants.IN:
            yield from letters(argument)[:_MOST_LETTERS]
        elif op in (_constants.ANY, _constants.NOT_LITERAL):
            yield from _SAMPLES[:_MOST_LETTERS]
    for op, argument in body.data:
        for inner in _inner(op, argument):
            yield from _samples(inner)
