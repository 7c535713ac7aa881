"""Decodes from an object's bytes only the part that a PathTree names. Pure. Hot.

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
    """A function from JSON to the part in ``tree``: maps without the members that are not read, and lists without the
    content of items that are not read. It raises msgspec.DecodeError for bytes that are no JSON, and RecursionError
    for JSON that is too deep; values that are not read may have any form."""
    return msgspec.json.Decoder(_type_of(tree)).decode


def _type_of(tree: PathTree) -> Any:
    if tree.whole:
        return Any
    return _one_of(_map_of(tree), _ANYTHING if tree.items is None else _type_of(tree.items))


def _map_of(tree: PathTree) -> Any:
    if tree.values is not None:
        return GenericAlias(dict, (str, _type_of(union((tree.values, *tree.members.values())))))
    return _map_with({key: _type_of(below) for key, below in tree.members.items()})


def _map_with(members: dict[str, Any]) -> Any:
    make: Any = TypedDict
    return make("Part", members, total=False)


def _one_of(a_map: Any, items: Any) -> Any:
    return a_map | GenericAlias(list, items) | str | int | float | bool | None


_ANYTHING = _one_of(_map_with({}), Any)
"""For items that are not read. Their lists are decoded, since a type cannot contain itself here."""
