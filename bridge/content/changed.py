"""The paths at which two states differ, as the configuration has them (``redact``, ``ignore_changes``):
``spec.replicas``, ``metadata.labels['a.b/c']``, ``spec.containers[*].image``. Pure.

The list is bounded: where a subtree has more than ``MOST_PATHS`` differences, the list has the paths of those of its
members that differ, or else its own path; so where a name is long, or has no form in a path. The time is linear in the
bytes of both states: see ``patches``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from bridge.content.patches import same
from bridge.model.primitives.field_path import EVERY, MOST_STEPS, written_step

MOST_PATHS = 100
LONGEST_NAME = 316
"""Characters: a prefix of 253, a slash, and a name of 63 make the longest key of a label or an annotation."""
_METADATA = "metadata"
_COUNTERS = frozenset({"resourceVersion", "generation"})
"""In the metadata: counters of the API server, which change with the others."""
_OWN = [""]
_ITEM = written_step(EVERY)


def changed_paths(before: Any, after: Any) -> list[str]:
    """In the order of the members. A list of another length is a single path; of equal lengths, items are compared by
    their places, and a path names them all. ``*`` stands for the whole object. Empty where only counters of the API
    server differ."""
    return [path.removeprefix(".") or "*" for path in _changed(before, after, 0, ())]


def _changed(before: Any, after: Any, level: int, left_out: Collection[str]) -> list[str]:
    """Paths below the value, the value's own path being empty. ``left_out``: members that are not compared."""
    if same(before, after):
        return []
    if level == MOST_STEPS:
        return _OWN
    if isinstance(before, dict) and isinstance(after, dict):
        parts = _of_members(before, after, level, left_out)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        parts = ((_ITEM, _changed(was, now, level + 1, ())) for was, now in zip(before, after, strict=True))
    else:
        return _OWN
    found: dict[str, None] = {}
    steps: dict[str, None] = {}
    for step, below in parts:
        if not below:
            continue
        if step is None:
            return _OWN
        steps[step] = None
        if len(steps) > MOST_PATHS:
            return _OWN
        if len(found) <= MOST_PATHS:
            found.update(dict.fromkeys([step + path for path in below]))
    return list(found if len(found) <= MOST_PATHS else steps)


def _of_members(
    before: dict[str, Any], after: dict[str, Any], level: int, left_out: Collection[str]
) -> Iterator[tuple[str | None, list[str]]]:
    for name in dict.fromkeys((*before, *after)):
        if name in left_out:
            continue
        counters = _COUNTERS if not level and name == _METADATA else ()
        both = name in before and name in after
        below = _changed(before[name], after[name], level + 1, counters) if both else _OWN
        if below:
            yield (written_step(name) if len(name) <= LONGEST_NAME else None), below
