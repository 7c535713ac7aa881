"""The paths at which two states differ, in the syntax of ``redact``: ``spec.replicas``, ``metadata.labels['a.b/c']``,
``spec.containers[0].image``. Pure.

The list is bounded: where a subtree has more than ``MOST_PATHS`` differences, the list has the paths of those of its
members that differ, or else its own path; so where a name is long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from bridge.content.patches import same

MOST_PATHS = 100
LONGEST_NAME = 316
"""Characters: a prefix of 253, a slash, and a name of 63 make the longest key of a label or an annotation."""
_LEFT_OUT = frozenset({("metadata", "resourceVersion"), ("metadata", "generation")})
"""Counters of the API server, which change with the others."""
_PLAIN = re.compile("[A-Za-z0-9_-]+")


def changed_paths(before: Any, after: Any) -> list[str]:
    """In the order of the members. A list of another length is a single path; of equal lengths, items are compared by
    their places. Empty where only counters of the API server differ."""
    return [path.removeprefix(".") for path in _changed((), before, after)]


def _changed(names: tuple[str, ...], before: Any, after: Any) -> list[str]:
    """Paths below the value whose names these are, the value's own path being empty."""
    if same(before, after):
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        parts = _of_members(names, before, after)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        parts = _of_items(names, before, after)
    else:
        return [""]
    found: list[str] = []
    steps: list[str] = []
    for step, below in parts:
        if step is None or len(steps) == MOST_PATHS:
            return [""]
        steps.append(step)
        if len(found) <= MOST_PATHS:
            found += [step + path for path in below]
    return found if len(found) <= MOST_PATHS else steps


def _of_members(
    names: tuple[str, ...], before: dict[str, Any], after: dict[str, Any]
) -> Iterator[tuple[str | None, list[str]]]:
    for name in dict.fromkeys((*before, *after)):
        if (*names, name) in _LEFT_OUT:
            continue
        both = name in before and name in after
        below = _changed((*names, name), before[name], after[name]) if both else [""]
        if below:
            yield (_step(name) if len(name) <= LONGEST_NAME else None), below


def _of_items(names: tuple[str, ...], before: list[Any], after: list[Any]) -> Iterator[tuple[str | None, list[str]]]:
    for index, (was, now) in enumerate(zip(before, after, strict=True)):
        if below := _changed((*names, "*"), was, now):
            yield f"[{index}]", below


def _step(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return f".{name}"
    if "'" not in name and name.isprintable():
        return f"['{name}']"
    return f"[{msgspec.json.encode(name).decode()}]"
