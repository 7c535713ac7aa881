"""The syntax tree of a checked expression: ``cel.expr.Expr`` of CEL's syntax.proto, without types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

Scalar: TypeAlias = bool | int | float | str | bytes | None


@dataclass(frozen=True, slots=True)
class Constant:
    value: Scalar
    offset: int = field(default=-1, compare=False)
    """Characters before it in the text; -1 where unknown. So for every node."""


@dataclass(frozen=True, slots=True)
class Ident:
    name: str
    """A leading dot means the variable of the environment, although a macro's variable has the same name."""
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Select:
    """``operand.member``, or ``has(operand.member)``."""

    operand: Node
    member: str
    is_test: bool
    """True for ``has``."""
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator. Operators have names such as ``_&&_``, ``_[_]`` and ``@in``."""

    function: str
    arguments: tuple[Node, ...]
    """With the receiver first, if the call has a receiver."""
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A list, a map or a message: its items, or its keys and values."""

    items: tuple[Node, ...]
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Comprehension:
    """The loop that a macro such as ``exists`` stands for: ``accumulator`` is ``start``, then ``step`` for each item of
    ``range`` while ``condition`` holds; the value is ``result``."""

    variables: tuple[str, ...]
    """One: an item of a list, or a key of a map. Two: index and item, or key and value."""
    range: Node
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node
    offset: int = field(default=-1, compare=False)


Node: TypeAlias = Constant | Ident | Select | Call | Literal | Comprehension


def walk(node: Node) -> Iterator[Node]:
    """The node and all nodes below it."""
    waiting: list[Node] = [node]
    while waiting:
        here = waiting.pop()
        yield here
        waiting.extend(children(here))


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Select(operand=operand):
            return (operand,)
        case Call(arguments=below) | Literal(items=below):
            return below
        case Comprehension():
            return (node.range, node.start, node.condition, node.step, node.result)
        case _:
            return ()
