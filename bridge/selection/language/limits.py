"""Refuses expressions whose cost may be a multiple of the object's size. Pure.

Operators write expressions, but whoever may write objects decides on their size. The library ends an evaluation after
10,000 iterations of its loops; these rules bound the memory of each iteration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bridge.selection.language.syntax import Call, Comprehension, Constant, Ident, Literal, Node, children, walk

_MAKES_TEXT = frozenset({"_+_", "format", "join", "lowerAscii", "quote", "replace", "reverse", "string", "upperAscii"})
_REPEATS = {"join": 1, "replace": 2}
"""Function → index of the argument that it may write many times into its result."""


def excesses(expression: Node) -> Iterator[tuple[int, str]]:
    """Offset and message of each part that may cost too much."""
    yield from _in_loops(expression, None)
    for node in walk(expression):
        if isinstance(node, Call) and node.function in _REPEATS:
            repeated = node.arguments[_REPEATS[node.function] :][:1]
            if not all(isinstance(each, Constant) for each in repeated):
                yield node.offset, f"{node.function}() writes this text many times, so it must be a constant"


def _in_loops(node: Node, variables: Collection[str] | None) -> Iterator[tuple[int, str]]:
    """``variables``: of the innermost loop; None outside of loops."""
    if isinstance(node, Comprehension) and node.range != Literal(()):
        own = (*node.variables, node.accumulator)
        for part in (node.range, node.start, node.result):
            yield from _in_loops(part, variables)
        yield from _in_loops(node.step, own)
        return
    if variables is not None and isinstance(node, Call) and node.function in _MAKES_TEXT:
        foreign = [each.name for each in walk(node) if isinstance(each, Ident) and each.name not in variables]
        if foreign and not _appends(node):
            yield (
                node.offset,
                f'a loop makes a new text for every item and may use only the item for it; found "{foreign[0]}"',
            )
            return
    for below in children(node):
        yield from _in_loops(below, variables)


def _appends(call: Call) -> bool:
    """Whether a macro appends an item to its result, which copies no text."""
    return call.function == "_+_" and isinstance(call.arguments[0], Ident) and isinstance(call.arguments[1], Literal)
