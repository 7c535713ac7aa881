"""Finds the part of an object that an expression reads, and decodes that part alone.

``paths_of`` follows every node of the syntax tree to the subtrees of the variables that its value may be (aliases). A
select, an index or a loop goes down in these subtrees; an operation that looks at a whole value marks them as whole. An
operation that is not known here counts as one of these, so at worst too much is decoded.

``projection`` makes a decoder of the resulting PathTree, and ``cut`` takes the same part out of a larger one; both run
for every record. The decoder is made of TypedDicts: msgspec skips the other members without a Python object, the result
is a dict that an expression takes as it is, and an absent member stays absent. Members may have any type: an object
that is not shaped as expected is for the expression to judge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import GenericAlias
from typing import Any, TypeAlias, TypedDict

import msgspec

from bridge.views.language.syntax import Call, Comprehension, Constant, Ident, Literal, Node, Select


@dataclass(slots=True)
class PathTree:
    """The part of a JSON value that is read. A tree without anything reads scalars whole, and of a map or a list only
    that it is there."""

    whole: bool = False
    members: dict[str, PathTree] = field(default_factory=dict)
    """Of a map: the values of these keys."""
    values: PathTree | None = None
    """Of a map: this part of every value, and every key."""
    items: PathTree | None = None
    """Of a list: this part of every item, and their number."""

    def member(self, key: str) -> PathTree:
        return self.members.setdefault(key, PathTree())

    def any_value(self) -> PathTree:
        self.values = self.values or PathTree()
        return self.values

    def any_item(self) -> PathTree:
        self.items = self.items or PathTree()
        return self.items


def union(trees: Iterable[PathTree]) -> PathTree:
    """A tree that reads at least as much as each of these."""
    found = tuple(trees)
    keys = dict.fromkeys(key for tree in found for key in tree.members)
    values = [tree.values for tree in found if tree.values is not None]
    items = [tree.items for tree in found if tree.items is not None]
    return PathTree(
        whole=any(tree.whole for tree in found),
        members={key: union(tree.members[key] for tree in found if key in tree.members) for key in keys},
        values=union(values) if values else None,
        items=union(items) if items else None,
    )


def paths_of(expression: Node, variables: Collection[str]) -> dict[str, PathTree]:
    """Name of a variable → the part of its value that decides the expression's value, and whether it has one. Variables
    that the expression does not name are absent."""
    reader = _Reader(variables)
    reader.read_whole(expression, {})
    return reader.roots


_Aliases: TypeAlias = tuple[PathTree, ...]
_Scope: TypeAlias = Mapping[str, _Aliases]
"""A macro's variable → the subtrees that its value may be."""


class _Reader:
    def __init__(self, variables: Collection[str]) -> None:
        self._variables = variables
        self.roots: dict[str, PathTree] = {}

    def read_whole(self, node: Node, scope: _Scope) -> None:
        for tree in self._aliases(node, scope):
            tree.whole = True

    def _aliases(self, node: Node, scope: _Scope) -> _Aliases:
        """The subtrees that the value of ``node`` may be; all that is read on the way to it is marked."""
        match node:
            case Ident(name=name):
                return (*scope.get(name, ()), *self._root(name.removeprefix(".")))
            case Select(operand=operand, member=member):
                found = tuple(tree.member(member) for tree in self._aliases(operand, scope))
                return () if node.is_test else found
            case Call():
                return self._call(node, scope)
            case Literal(items=items):
                self._read_all(items, scope)
                return ()
            case Comprehension():
                return self._comprehension(node, scope)
            case Constant():
                return ()

    def _root(self, name: str) -> _Aliases:
        """Also for a macro's variable of that name: the checker drops the leading dot of ``.object``, which means the
        hidden variable."""
        return (self.roots.setdefault(name, PathTree()),) if name in self._variables else ()

    def _read_all(self, nodes: Iterable[Node], scope: _Scope) -> None:
        for each in nodes:
            self.read_whole(each, scope)

    def _call(self, call: Call, scope: _Scope) -> _Aliases:
        match call.function, call.arguments:
            case ("_[_]" | "_[?_]" | "_?._", (container, index)):
                return self._index(self._aliases(container, scope), index, scope)
            case ("_?_:_", (condition, this, other)):
                self.read_whole(condition, scope)
                return (*self._aliases(this, scope), *self._aliases(other, scope))
            case ("dyn", (argument,)):
                return self._aliases(argument, scope)
            case ("size", (container,)):
                for tree in self._aliases(container, scope):
                    tree.any_value(), tree.any_item()
            case ("@in", (key, container)):
                trees = self._aliases(container, scope)
                self._index(trees, key, scope)
                for tree in trees:
                    tree.any_item().whole = True
            case ("_==_" | "_!=_", (Constant(), other) | (other, Constant())):
                self._aliases(other, scope)  # No map and no list equals a constant, whatever is in it.
            case _:
                self._read_all(call.arguments, scope)
        return ()

    def _index(self, trees: _Aliases, index: Node, scope: _Scope) -> _Aliases:
        if isinstance(index, Constant) and isinstance(index.value, str):
            return tuple(tree.member(index.value) for tree in trees)
        self.read_whole(index, scope)
        items = tuple(tree.any_item() for tree in trees)
        return items if isinstance(index, Constant) else (*items, *(tree.any_value() for tree in trees))

    def _comprehension(self, loop: Comprehension, scope: _Scope) -> _Aliases:
        ranges = self._aliases(loop.range, scope)
        items, values = tuple(tree.any_item() for tree in ranges), tuple(tree.any_value() for tree in ranges)
        start = self._aliases(loop.start, scope)
        # Of a map, a single variable is the key, which is read with the values.
        variables = {loop.variables[-1]: items if len(loop.variables) == 1 else (*items, *values)}
        if len(loop.variables) > 1:
            variables[loop.variables[0]] = ()
        within = {**scope, **variables, loop.accumulator: start}
        self.read_whole(loop.condition, within)
        for tree in self._aliases(loop.step, within):
            # In a later round, the accumulator may be this subtree.
            tree.whole = tree.whole or not any(tree is each for each in start)
        return self._aliases(loop.result, {**scope, loop.accumulator: start})


# ── The part of an object ────────────────────────────────────────────────────


def projection(tree: PathTree) -> Callable[[bytes], Any]:
    """A function from JSON to the part in ``tree``: maps without the members that are not read, and lists with None for
    items that are not read. It raises msgspec.DecodeError for bytes that are no JSON, and RecursionError
    for JSON that is too deep; values that are not read may have any form."""
    return msgspec.json.Decoder(_type_of(tree), dec_hook=_nothing).decode


def cut(tree: PathTree) -> Callable[[Any], Any]:
    """A function from a larger part of a value to what ``projection`` makes of its JSON."""
    if tree.whole:
        return _all
    members = [(key, cut(below)) for key, below in tree.members.items()]
    of_value = None if tree.values is None else cut(union((tree.values, *tree.members.values())))
    of_item = None if tree.items is None else cut(tree.items)

    def part(value: Any) -> Any:
        if isinstance(value, dict):
            if of_value is not None:
                return {key: of_value(below) for key, below in value.items()}
            return {key: of(value[key]) for key, of in members if key in value}
        if isinstance(value, list):
            return [None] * len(value) if of_item is None else [of_item(item) for item in value]
        return value

    return part


class _OfAll(type):
    def __instancecheck__(cls, _instance: object) -> bool:
        return True


class _Unread(metaclass=_OfAll):
    """The type of items that are not read. msgspec reads an item of a type that it does not know as any JSON, gives it
    to the hook, and expects an instance of the type back, which None is here."""


def _nothing(_type: type, _item: Any) -> None:
    return None


def _all(value: Any) -> Any:
    return value


def _type_of(tree: PathTree) -> Any:
    if tree.whole:
        return Any
    return _one_of(_map_of(tree), _Unread if tree.items is None else _type_of(tree.items))


def _map_of(tree: PathTree) -> Any:
    if tree.values is not None:
        return GenericAlias(dict, (str, _type_of(union((tree.values, *tree.members.values())))))
    return _map_with({key: _type_of(below) for key, below in tree.members.items()})


def _map_with(members: dict[str, Any]) -> Any:
    make: Any = TypedDict
    return make("Part", members, total=False)


def _one_of(a_map: Any, items: Any) -> Any:
    return a_map | GenericAlias(list, items) | str | int | float | bool | None
