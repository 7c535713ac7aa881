"""Patches from a state to the next: RFC 7396 (JSON Merge Patch) and RFC 6902 (JSON Patch). Pure.

A patch is never much larger than the state after it, whatever keys and lists an object has: where a subtree has more
than ``MOST_OPERATIONS`` differences, or a path is longer than ``LONGEST_PATH``, the patch replaces the subtree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

MOST_OPERATIONS = 1000
LONGEST_PATH = 4096
"""Characters of a path in a JSON Patch."""

Operation: TypeAlias = dict[str, Any]
_encode = msgspec.json.Encoder().encode


def merge_patch(before: Any, after: Any) -> Any:
    """The RFC 7396 patch from ``before`` to ``after``. As the RFC demands, lists are replaced whole, and a member that
    became null looks like a removed member."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    patch = {name: None for name in before if name not in after}
    for name, value in after.items():
        if name not in before:
            patch[name] = value
        elif isinstance(value, dict) and isinstance(before[name], dict):
            if inner := merge_patch(before[name], value):
                patch[name] = inner
        elif not same(before[name], value):
            patch[name] = value
    return patch


def json_patch(before: Any, after: Any) -> list[Operation]:
    """The RFC 6902 patch from ``before`` to ``after``, of the operations add, remove and replace. Equal beginnings and
    ends of a list stay; between them, items are compared by their places."""
    return _Differ().operations("", before, after)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal. False for maps with equal members in another order, at times."""
    # In Python 1 == True, also inside a list or a map, whose JSON is therefore compared.
    if type(one) is not type(other) or one != other:
        return False
    return not isinstance(one, dict | list) or _encode(one) == _encode(other)


class _Differ:
    def operations(self, path: str, before: Any, after: Any) -> list[Operation]:
        if same(before, after):
            return []
        whole = [{"op": "replace", "path": path, "value": after}]
        if isinstance(before, dict) and isinstance(after, dict):
            found = self._of_members(path, before, after)
        elif isinstance(before, list) and isinstance(after, list):
            found = self._of_items(path, before, after)
        else:
            return whole
        operations: list[Operation] = []
        for part in found:
            operations += part
            if len(operations) > MOST_OPERATIONS or any(len(each["path"]) > LONGEST_PATH for each in part):
                return whole
        return operations

    def _of_members(self, path: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[list[Operation]]:
        for name, value in before.items():
            here = f"{path}/{_escaped(name)}"
            if name not in after:
                yield [{"op": "remove", "path": here}]
            else:
                yield self.operations(here, value, after[name])
        for name, value in after.items():
            if name not in before:
                yield [{"op": "add", "path": f"{path}/{_escaped(name)}", "value": value}]

    def _of_items(self, path: str, before: list[Any], after: list[Any]) -> Iterator[list[Operation]]:
        start, ends = _equal_ends(before, after)
        were, are = len(before) - ends, len(after) - ends
        for index in range(start, min(were, are)):
            yield self.operations(f"{path}/{index}", before[index], after[index])
        # From the end, since each removed item moves the items behind it.
        for index in range(were - 1, are - 1, -1):
            yield [{"op": "remove", "path": f"{path}/{index}"}]
        for index in range(were, are):
            yield [{"op": "add", "path": f"{path}/{index}", "value": after[index]}]


def _equal_ends(before: list[Any], after: list[Any]) -> tuple[int, int]:
    """How many items are equal at the beginning, and at the end behind these."""
    most = min(len(before), len(after))
    start = next((index for index in range(most) if not same(before[index], after[index])), most)
    left = most - start
    return start, next((back for back in range(left) if not same(before[-1 - back], after[-1 - back])), left)


def _escaped(name: str) -> str:
    """A name in a JSON Pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
