"""How many objects to ask for at once, by what the last page was in bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bridge.model.object import ApiObject

STRETCH = 1 << 20
"""Bytes of objects that are queued at once."""
LARGE = 8 << 20
"""Bytes of a page. Beyond it half as many objects are asked for: whoever reads a page must do so within the minute that
API servers give a request, however slow the disk is."""
SMALL = LARGE // 4
"""Bytes. Below it twice as many are, up to what is configured."""


def next_page_size(objects: int, size: int, *, most: int) -> int:
    """Objects of the next page, where one of ``objects`` had ``size`` bytes. At least one."""
    if size > LARGE:
        return max(1, objects // 2)
    return min(most, objects * 2) if size < SMALL else objects


def smaller(objects: int) -> int:
    """Where a page could not be held at all."""
    return max(1, objects // 8)


def stretches(objects: list[ApiObject], most: int) -> Iterator[list[ApiObject]]:
    """The objects in their order, at most so many at once, and not many more bytes than STRETCH."""
    start = size = 0
    for index, thing in enumerate(objects):
        size += len(thing.body)
        if size >= STRETCH or index - start + 1 == most:
            yield objects[start : index + 1]
            start, size = index + 1, 0
    if start < len(objects):
        yield objects[start:]
