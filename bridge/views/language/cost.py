"""Bounds the cost of an evaluation, by the sizes of the values that it reads.

Operators write expressions, but whoever may write objects decides on their sizes, and the library cannot be
interrupted: it counts the rounds of its loops, neither their bytes nor their time. So the cost is bounded before an
evaluation, and one that may cost more than ``budget`` is not begun.

The unit of work is about a nanosecond, and at most a byte of memory: the library frees nothing before the end.
``work`` follows the syntax tree with the sizes of values in place of the values. The size of a path of constants, such
as ``object.spec.containers``, is given; every other size is a sum or a product of these. A loop visits parts of a
value, whose sizes together are at most that of the value. The work on all of them is at most that on as many empty
items, and once that on the whole value, since products of sizes grow faster than sizes do: a loop inside of a loop over
its own item costs no product, and a loop over another list does.

A list of 44 KB in ``map`` took 1.3 GB and five seconds, a search of a long text in a loop 40 s, and the library holds
Python's lock to the end. The decision depends on the object alone, as a selection needs it; a clock would decide
otherwise on a busy machine. In a worker process an evaluation would cost 100 µs in place of 5, and a killed one would
still be a matter of the clock. The price: some products that would have been fast are refused. Patterns and time zones,
whose cost no size bounds, have to be constants, and at most 4 loops nest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from bridge.views.language.syntax import Call, Comprehension, Constant, Ident, Literal, Node, Select, children, walk

MOST_LOOPS = 4
"""Loops inside of one another: the bound takes twice the time for each."""
MOST_WORK = 64 * 1024 * 1024
"""Of an evaluation on an object of any size."""
_WORK_OF_SMALL = 4 * 1024 * 1024
_WORK_PER_BYTE = 128

_NODE = 50  # Work of a step in itself.
_BOUND = 200  # Of a value or a key that is converted for the library, or made by it.
_RETURNED = 700  # Of a value or a key that is converted back.
_COMPARED = 64  # Of a value or a key that is compared.
_COPIED = 32  # Of an item that is copied into another list, by reference.
_BYTE = 4  # Of a byte that a function reads or writes.
_FORMATTED = 1500  # Bytes of a number with the largest precision that ``format`` takes.


@dataclass(frozen=True, slots=True)
class ValueSize:
    items: int = 0
    """Of a list or a map itself."""
    values: int = 1
    """Values and keys in it, at any depth, and itself."""
    bytes: int = 0
    """Of all texts in it."""

    def __add__(self, other: ValueSize) -> ValueSize:
        return ValueSize(self.items + other.items, self.values + other.values, self.bytes + other.bytes)

    @property
    def part(self) -> ValueSize:
        """Of any value in it."""
        return ValueSize(self.values, self.values, self.bytes)


Path: TypeAlias = tuple[str | int, ...]
SizeOf: TypeAlias = Callable[[Path], ValueSize]
"""The size of the value at a path of constants, which begins with the name of a variable; that of an absent value is
``NOTHING``."""

NOTHING = ValueSize(0, 0, 0)
_SCALAR = ValueSize()


class TooManyValues(ValueError):
    """A value that is not measured, since its conversion alone is more work than any evaluation may be."""


def budget(size: int) -> int:
    """Work that an evaluation may be which reads ``size`` bytes of JSON."""
    return min(MOST_WORK, _WORK_OF_SMALL + _WORK_PER_BYTE * size)


def most(size: int) -> ValueSize:
    """The size of a value of ``size`` bytes of JSON is at most this."""
    return ValueSize(size // 2 + 1, size // 2 + 1, size)


def measured(value: Any) -> ValueSize:
    """Of a JSON value. Raises TooManyValues."""
    values = texts = 0
    waiting = [value]
    while waiting:
        here = waiting.pop()
        values += 1
        if isinstance(here, str):
            texts += _bytes_of(here)
        elif isinstance(here, dict):
            values += len(here)
            texts += sum(map(_bytes_of, here))
            waiting.extend(here.values())
        elif isinstance(here, list):
            waiting.extend(here)
        if (values + len(waiting)) * _BOUND > MOST_WORK:
            raise TooManyValues
    return ValueSize(len(value) if isinstance(value, dict | list) else 0, values, texts)


def sizes_in(variables: Mapping[str, Any]) -> SizeOf:
    """Measures JSON values, each once. Raises TooManyValues."""
    known: dict[Path, ValueSize] = {}

    def size_of(path: Path) -> ValueSize:
        if path not in known:
            known[path] = _size_at(path, variables)
        return known[path]

    return size_of


def _size_at(path: Path, found: Any) -> ValueSize:
    for step in path:
        try:
            found = found[step]
        except (LookupError, TypeError):
            return NOTHING
    return measured(found)


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


# ── What is refused ──────────────────────────────────────────────────────────


def unbounded(expression: Node) -> Iterator[tuple[int, str]]:
    """Offset and message of each part whose cost sizes do not bound."""
    for node in walk(expression):
        if isinstance(node, Comprehension) and _is_loop(node) and not _is_macro(node):
            yield node.offset, "a loop of an unknown kind"
        if not isinstance(node, Call):
            continue
        if node.function not in _FUNCTIONS:
            yield node.offset, f'the cost of "{node.function}" is not known'
        elif node.function == "matches" and not isinstance(node.arguments[1], Constant):
            yield node.arguments[1].offset, "matches() compiles this text at each call, so it must be a constant"
        elif node.function in _OF_TIMES and not all(isinstance(each, Constant) for each in node.arguments[1:]):
            yield node.arguments[1].offset, f"{node.function}() reads a file of this name, so it must be a constant"
    yield from _nested(expression, 0)


def _nested(node: Node, loops: int) -> Iterator[tuple[int, str]]:
    inside = loops + 1 if isinstance(node, Comprehension) and _is_loop(node) else loops
    if inside > MOST_LOOPS:
        yield node.offset, f"more than {MOST_LOOPS} loops are inside of one another"
        return
    for below in children(node):
        outside = isinstance(node, Comprehension) and below is node.range
        yield from _nested(below, loops if outside else inside)


def _is_loop(node: Comprehension) -> bool:
    """Not for ``cel.bind``, which is written as one without items."""
    return node.range != Literal(())


def _is_macro(loop: Comprehension) -> bool:
    """Whether each round adds to the accumulator, or leaves it."""
    step, accumulator = loop.step, Ident(loop.accumulator)
    if isinstance(step, Call) and step.function == "_?_:_" and step.arguments[2] == accumulator:
        step = step.arguments[1]
    return isinstance(step, Call) and step.arguments[:1] == (accumulator,) and step.function in ("_+_", "_&&_", "_||_")


# ── The bound ────────────────────────────────────────────────────────────────


def work(expression: Node, size_of: SizeOf, names: Sequence[str], *, returns: bool = False) -> int:
    """``names``: the variables that are bound. ``returns``: the value is converted to a JSON value."""
    bound = _Bound(size_of, frozenset(names))
    for name in names:
        bound.add(_BOUND, 0, size_of((name,)))
    value = bound.size(expression, {})
    if returns:
        bound.add(_RETURNED, _BYTE, value)
    return bound.work


_Scope: TypeAlias = Mapping[str, ValueSize]


class _Bound:
    def __init__(self, size_of: SizeOf, names: Collection[str]) -> None:
        self._size_of = size_of
        self._names = names
        self.work = 0

    def add(self, of_value: int, of_byte: int, *sizes: ValueSize) -> None:
        for each in sizes:
            self.work += of_value * each.values + of_byte * each.bytes

    def size(self, node: Node, scope: _Scope) -> ValueSize:
        """Of the node's value; adds the work of its evaluation."""
        self.work += _NODE
        match node:
            case Constant(value=value):
                return ValueSize(bytes=len(value) * 4) if isinstance(value, str | bytes) else _SCALAR
            case Ident(name=name):
                # The checker drops the leading dot of ``.object``, which means the variable behind a macro's one.
                root = name.removeprefix(".")
                return scope.get(name, NOTHING) + (self._size_of((root,)) if root in self._names else _SCALAR)
            case Select(operand=operand, is_test=is_test):
                path = None if is_test else self._path(node, scope)
                if path is None:
                    found = self.size(operand, scope).part
                    return _SCALAR if is_test else found
                self.work += _NODE * len(path)
                return self._size_of(path)
            case Call():
                path = self._path(node, scope)
                if path is not None:
                    self.work += _NODE * len(path)
                    return self._size_of(path)
                sizes = [self.size(each, scope) for each in node.arguments]
                return _FUNCTIONS[node.function](self, sizes, node.arguments)
            case Literal(items=items):
                below = [self.size(each, scope) for each in items]
                self.work += _BOUND * 2 * len(items)
                return sum(below, ValueSize(items=len(items)))
            case Comprehension():
                return self._loop(node, scope) if _is_loop(node) else self._binding(node, scope)

    def _binding(self, node: Comprehension, scope: _Scope) -> ValueSize:
        return self.size(node.result, {**scope, node.accumulator: self.size(node.start, scope)})

    def _loop(self, loop: Comprehension, scope: _Scope) -> ValueSize:
        visited = self.size(loop.range, scope)
        before = self.work
        of_empty = self._round(loop, scope, NOTHING)
        empty, self.work = self.work - before, before
        of_whole = self._round(loop, scope, visited.part)
        whole = self.work - before
        self.work = before + empty * visited.items + max(0, whole - empty)
        made = _SCALAR
        if isinstance(loop.start, Literal):
            made = ValueSize(
                visited.items,
                of_empty.values * visited.items + of_whole.values,
                of_empty.bytes * visited.items + of_whole.bytes,
            )
            # The library copies a list in order to append an item.
            self.work += _COPIED * visited.items * visited.items
        return self.size(loop.result, {**scope, loop.accumulator: made})

    def _round(self, loop: Comprehension, scope: _Scope, item: ValueSize) -> ValueSize:
        """What a round adds to the accumulator."""
        within = {**scope, **dict.fromkeys(loop.variables, item), loop.accumulator: NOTHING}
        self.size(loop.condition, within)
        return self.size(loop.step, within)

    def _path(self, node: Node, scope: _Scope) -> Path | None:
        """The path of constants that the node is; None for any other node."""
        step: Path
        match node:
            case Ident(name=name) if name not in scope and (root := name.removeprefix(".")) in self._names:
                return (root,)
            case Select(operand=operand, member=member, is_test=False):
                above, step = self._path(operand, scope), (member,)
            case Call(function="_[_]" | "_[?_]" | "_?._", arguments=(operand, Constant(value=str() | int() as key))):
                above, step = self._path(operand, scope), (key,)
            case _:
                return None
        return None if above is None else above + step


# ── Functions ────────────────────────────────────────────────────────────────

_Arguments: TypeAlias = Sequence[Node]
_Function: TypeAlias = Callable[[_Bound, Sequence[ValueSize], _Arguments], ValueSize]
"""Adds the work of a call on values of these sizes, and returns the size of its value."""


def _constant(_bound: _Bound, _sizes: Sequence[ValueSize], _arguments: _Arguments) -> ValueSize:
    return _SCALAR


def _compare(bound: _Bound, sizes: Sequence[ValueSize], _arguments: _Arguments) -> ValueSize:
    bound.add(_COMPARED, _BYTE, *sizes)
    return _SCALAR


def _contained(bound: _Bound, sizes: Sequence[ValueSize], _arguments: _Arguments) -> ValueSize:
    sought, container = sizes
    bound.add(_COMPARED, _BYTE, container)
    bound.work += container.items * (_COMPARED * sought.values + _BYTE * sought.bytes)
    return _SCALAR


def _one_of(_bound: _Bound, sizes: Sequence[ValueSize], _arguments: _Arguments) -> ValueSize:
    return sum(sizes, NOTHING)


def _chosen(_bound: _Bound, sizes: Sequence[ValueSize], _arguments: _Arguments) -> ValueSize:
    return sizes[1] + sizes[2]


def _element(bound: _Bound, sizes: Sequence[ValueSize], _arguments: _Arguments) -> ValueSize:
    bound.add(0, _BYTE, *sizes[1:])
    return sizes[0].part


def _sum(bound: _Bound, sizes: Sequence[ValueSize], _arguments: _Arguments) -> ValueSize:
    made = sizes[0] + sizes[1]
    bound.work += _BYTE * made.bytes + _COPIED * made.items
    return made


def _text(bound: _Bound, sizes: Sequence[ValueSize], _arguments: _Arguments) -> ValueSize:
    bound.add(_COMPARED, _BYTE, sizes[0])
    return ValueSize(bytes=sizes[0].bytes + 64)  # of a number or a time


def _quote(bound: _Bound, sizes: Sequence[ValueSize], _arguments: _Arguments) -> ValueSize:
    bound.add(_COMPARED, 2 * _BYTE, sizes[0])
    return ValueSize(bytes=2 * sizes[0].bytes + 2)


def _find(bound: _Bound, sizes: Sequence[ValueSize], _arguments: _Arguments) -> ValueSize:
    text, sought = sizes[0].bytes, sizes[1].bytes
    # A text that nearly is the sought one at each of its characters is compared with all of it; 16 bytes at a time.
    bound.work += _BYTE * text + text * sought // 16
    return _SCALAR


def _split(bound: _Bound, sizes: Sequence[ValueSize], arguments: _Arguments) -> ValueSize:
    _find(bound, sizes, arguments)
    pieces = sizes[0].bytes // _least(arguments[1]) + 1
    bound.work += _BOUND * pieces
    return ValueSize(pieces, pieces + 1, sizes[0].bytes)


def _replace(bound: _Bound, sizes: Sequence[ValueSize], arguments: _Arguments) -> ValueSize:
    _find(bound, sizes, arguments)
    pieces = sizes[0].bytes // _least(arguments[1]) + 1
    made = sizes[0].bytes + pieces * sizes[2].bytes
    bound.work += _COMPARED * pieces + _BYTE * made
    return ValueSize(bytes=made)


def _least(sought: Node) -> int:
    """The least bytes of a text that is found."""
    return max(1, len(sought.value)) if isinstance(sought, Constant) and isinstance(sought.value, str) else 1


def _join(bound: _Bound, sizes: Sequence[ValueSize], _arguments: _Arguments) -> ValueSize:
    made = sizes[0].bytes + sizes[0].items * (sizes[1].bytes if len(sizes) > 1 else 0)
    bound.work += _COMPARED * sizes[0].items + _BYTE * made
    return ValueSize(bytes=made)


def _format(bound: _Bound, sizes: Sequence[ValueSize], arguments: _Arguments) -> ValueSize:
    pattern = arguments[0]
    clauses = pattern.value.count("%") if isinstance(pattern, Constant) and isinstance(pattern.value, str) else None
    made = sizes[0].bytes + 2 * sizes[1].bytes + 64 * sizes[1].values
    made += _FORMATTED * (sizes[0].bytes if clauses is None else clauses)
    bound.work += _NODE * sizes[1].values + _BYTE * made
    return ValueSize(bytes=made)


def _matches(bound: _Bound, sizes: Sequence[ValueSize], arguments: _Arguments) -> ValueSize:
    pattern = arguments[1]
    steps, tables = _program(pattern.value if isinstance(pattern, Constant) and isinstance(pattern.value, str) else "")
    bound.work += 10_000 + 200 * steps + 1_000_000 * tables + (_BYTE + 3 * steps) * sizes[0].bytes
    return _SCALAR


_TOKEN = re.compile(
    r"\{(\d{1,4})(?:,(\d{0,4}))?\}|\\[pP](?:\{\^?\w+\}|.)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|[^\]\\]|\\.)*+(?:\]|\\?\Z)|.",
    re.DOTALL,
)


def _program(pattern: str) -> tuple[int, int]:
    """Of a regular expression, about: steps of its program, and tables of Unicode in it. RE2 compiles it at each call,
    and at worst takes all steps for each byte. A repetition is written out."""
    sums: list[tuple[int, int]] = [(0, 0)]
    last = 0, 0
    for token in _TOKEN.finditer(pattern):
        text, added = token[0], (0, 0)
        if token[1]:
            times = max(1, int(token[1]), int(token[2] or 0))
            added, last = (last[0] * (times - 1), last[1] * (times - 1)), (last[0] * times, last[1] * times)
        elif text == "(":
            sums.append((0, 0))
        else:
            last = added = sums.pop() if text == ")" and len(sums) > 1 else _atom(text)
        sums[-1] = sums[-1][0] + added[0], sums[-1][1] + added[1]
    folds = 3 if "(?" in pattern else 1
    return (sum(steps for steps, _ in sums) + 10) * folds, sum(tables for _, tables in sums)


def _atom(text: str) -> tuple[int, int]:
    tables = text.count("\\p") + text.count("\\P") if text[0] in "[\\" else 0
    if text[0] == "[":
        return len(text) // 3 + 1 + 60 * (
            text[1:2] == "^" or "[:^" in text or not text.isascii()
        ) + 600 * tables, tables
    is_wide = text[0] in ".\\" or not text.isascii()
    return 600 if tables else 15 if is_wide else 2, tables


_OF_TIMES = frozenset(
    f"get{part}"
    for part in (
        "Date",
        "DayOfMonth",
        "DayOfWeek",
        "DayOfYear",
        "FullYear",
        "Hours",
        "Milliseconds",
        "Minutes",
        "Month",
        "Seconds",
    )
)
_OF_NUMBERS = frozenset(
    f"math.{name}"
    for name in (
        "abs",
        "bitAnd",
        "bitNot",
        "bitOr",
        "bitShiftLeft",
        "bitShiftRight",
        "bitXor",
        "ceil",
        "floor",
        "isFinite",
        "isInf",
        "isNaN",
        "round",
        "sign",
        "sqrt",
        "trunc",
    )
)

_FUNCTIONS: Mapping[str, _Function] = {
    **dict.fromkeys((*_OF_TIMES, *_OF_NUMBERS), _constant),
    **dict.fromkeys(("!_", "-_", "_-_", "_*_", "_/_", "_%_", "_&&_", "_||_", "@not_strictly_false"), _constant),
    **dict.fromkeys(("type", "hasValue", "optional.none"), _constant),
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "startsWith", "endsWith", "size"), _compare),
    **dict.fromkeys(("math.@max", "math.@min", "bool", "int", "uint", "double", "duration", "timestamp"), _compare),
    **dict.fromkeys(("dyn", "optional.of", "optional.ofNonZeroValue", "or", "orValue", "value"), _one_of),
    **dict.fromkeys(("_[_]", "_[?_]", "_?._", "first", "last"), _element),
    **dict.fromkeys(("bytes", "charAt", "lowerAscii", "reverse", "string"), _text),
    **dict.fromkeys(("substring", "trim", "upperAscii"), _text),
    **dict.fromkeys(("contains", "indexOf", "lastIndexOf"), _find),
    "@in": _contained,
    "_+_": _sum,
    "_?_:_": _chosen,
    "format": _format,
    "join": _join,
    "matches": _matches,
    "replace": _replace,
    "strings.quote": _quote,
    "split": _split,
}
