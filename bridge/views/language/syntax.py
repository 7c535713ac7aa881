"""The syntax tree of a checked expression, and its reading from the form in which cel-cpp serializes it.

The tree is ``cel.expr.Expr`` of CEL's syntax.proto, without types. ``read_checked_expr`` reads it out of a serialized
``cel.expr.CheckedExpr`` (checked.proto and syntax.proto of CEL's specification).

No package on the registry has these messages, and protobuf's runtime would be a dependency for this file alone. Fields
of later versions are ignored; a kind of expression that is not known raises UnknownSyntax, since the paths that it
reads are not known either.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from bridge.model.primitives.protobuf import (
    MalformedMessage,
    Message,
    all_bytes,
    bytes_in,
    message,
    number_in,
    text_in,
)

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


# ── A serialized CheckedExpr ─────────────────────────────────────────────────


class UnknownSyntax(ValueError):
    """The bytes are no CheckedExpr, or have a kind of expression of a later version."""


class _Expr(IntEnum):
    """Field numbers of Expr."""

    ID = 2
    CONSTANT = 3
    IDENT = 4
    SELECT = 5
    CALL = 6
    LIST = 7
    STRUCT = 8
    COMPREHENSION = 9


class _Constant(IntEnum):
    """Field numbers of Constant."""

    NULL = 1
    BOOL = 2
    INT64 = 3
    UINT64 = 4
    DOUBLE = 5
    STRING = 6
    BYTES = 7


def read_checked_expr(serialized: bytes) -> Node:
    """The tree of a CheckedExpr inside a ``google.protobuf.Any``. Raises UnknownSyntax."""
    try:
        # Any.value (2) has the CheckedExpr; of that, expr (4) and source_info (5).
        checked = message(bytes_in(message(serialized), 2))
        expr, source = bytes_in(checked, 4), message(bytes_in(checked, 5))
        return _Tree(_offsets(source)).node(expr)
    except (MalformedMessage, UnicodeDecodeError, struct.error, RecursionError) as error:
        raise UnknownSyntax(f"no CheckedExpr: {error}") from error


class _Tree:
    def __init__(self, offsets: Mapping[int, int]) -> None:
        self._offsets = offsets

    def node(self, serialized: bytes) -> Node:
        fields = message(serialized)
        kinds = [kind for kind in fields if kind != _Expr.ID]
        if len(kinds) != 1:
            raise UnknownSyntax(f"an expression with the fields {kinds}")
        inner = message(bytes_in(fields, kinds[0]))
        at = self._offsets.get(number_in(fields, _Expr.ID), -1)
        match kinds[0]:
            case _Expr.CONSTANT:
                return Constant(_constant(inner), at)
            case _Expr.IDENT:
                return Ident(text_in(inner, 1), at)
            case _Expr.SELECT:
                return Select(self.node(bytes_in(inner, 1)), text_in(inner, 2), bool(number_in(inner, 3)), at)
            case _Expr.CALL:
                return Call(text_in(inner, 2), (*self._nodes(inner, 1), *self._nodes(inner, 3)), at)
            case _Expr.LIST:
                return Literal(self._nodes(inner, 1), at)
            case _Expr.STRUCT:
                entries = map(message, all_bytes(inner, 2))
                return Literal(tuple(node for entry in entries for n in (3, 4) for node in self._nodes(entry, n)), at)
            case _Expr.COMPREHENSION:
                return self._comprehension(inner, at)
        raise UnknownSyntax(f"an expression of the kind {kinds[0]}")

    def _nodes(self, fields: Message, number: int) -> tuple[Node, ...]:
        return tuple(map(self.node, all_bytes(fields, number)))

    def _comprehension(self, fields: Message, at: int) -> Comprehension:
        # Fields 1 and 8: a comprehension over a map has a second variable.
        variables = tuple(name for name in (text_in(fields, 1), text_in(fields, 8)) if name)
        items, start, condition, step, result = (self.node(bytes_in(fields, number)) for number in (2, 4, 5, 6, 7))
        return Comprehension(variables, items, text_in(fields, 3), start, condition, step, result, at)


def _constant(fields: Message) -> Scalar:
    kind, value = next(((kind, values[-1]) for kind, values in fields.items()), (_Constant.NULL, 0))
    match kind, value:
        case _Constant.NULL, _:
            return None
        case _Constant.BOOL, int():
            return bool(value)
        case _Constant.INT64, int():
            # A negative int64 is a varint of its 64 bits in two's complement.
            return value - 2**64 if value >= 2**63 else value
        case _Constant.UINT64, int():
            return value
        case _Constant.DOUBLE, bytes():
            number: float = struct.unpack("<d", value)[0]
            return number
        case _Constant.STRING, bytes():
            return value.decode()
        case _Constant.BYTES, bytes():
            return value
    raise UnknownSyntax(f"a constant of the kind {kind}")


def _offsets(source: Message) -> dict[int, int]:
    """Id of a node → characters before the node in the text."""
    # SourceInfo.positions. On the wire, a map is a list of messages with the key in field 1, the value in field 2.
    return {number_in(entry, 1): number_in(entry, 2) for entry in map(message, all_bytes(source, 4))}
