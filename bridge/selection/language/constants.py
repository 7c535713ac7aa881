"""Finds constants with which an expression never does as meant: misspelt operations, patterns that are none. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches

from bridge.model.change import Evidence, Op
from bridge.selection.language.expression import EVIDENCE, OP
from bridge.selection.language.syntax import Call, Constant, Ident, Literal, Node, walk

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
