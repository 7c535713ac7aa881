"""The part of an object that a PathTree names: decoded from its bytes, or cut out of a larger part. Pure. Hot.

The decoder is made of TypedDicts: msgspec skips the other members without a Python object, the result is a dict that an
expression takes as it is, and an absent member stays absent. Members may have any type: an object that is not shaped as
expected is for the expression to judge.
"""

from __future__ import annotations

from collections.abc import Callable
from types import GenericAlias
from typing import Any, TypedDict

import msgspec

from bridge.selection.language.paths import PathTree, union


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
