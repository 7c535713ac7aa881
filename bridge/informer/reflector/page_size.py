"""Adapts the number of objects in the next page of a list to the bytes of the last page. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bridge.model.object import ApiObject

QUEUED_AT_ONCE = 1 << 20
"""Bytes of objects that are queued at once."""
LARGE = 8 << 20
"""Bytes of a page. A larger page halves the next: the whole page must be read within the minute that API servers give
a request, on slow disks too."""
SMALL = LARGE // 4
"""Bytes of a page. A smaller page doubles the next, up to the configured size."""


def next_page_size(objects: int, size: int, *, most: int) -> int:
    """The number of objects in the next page, after a page of ``objects`` with ``size`` bytes. At least 1."""
    if size > LARGE:
        return max(1, objects // 2)
    return min(most, objects * 2) if size < SMALL else objects


def smaller(objects: int) -> int:
    """The number of objects in the next page, after a page that was too large to be held. At least 1."""
    return max(1, objects // 8)


def split_for_queue(objects: list[ApiObject], most: int) -> Iterator[list[ApiObject]]:
    """Splits the objects, in their order, into parts of at most ``most`` objects. A part ends with the object that
    brings it to QUEUED_AT_ONCE bytes."""
    start = size = 0
    for index, thing in enumerate(objects):
        size += len(thing.body)
        if size >= QUEUED_AT_ONCE or index - start + 1 == most:
            yield objects[start : index + 1]
            start, size = index + 1, 0
    if start < len(objects):
        yield objects[start:]
