"""Parts of a batch: notices come alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridge.model.record import Delta, Record


def split_at_notices(records: Sequence[Record]) -> Iterator[slice]:
    """Yields slices: each notice alone, and the records between two notices together. Nearly always a single slice."""
    if set(map(type, records)) <= {Delta}:
        if records:
            yield slice(0, len(records))
        return
    start = 0
    for index, record in enumerate(records):
        if isinstance(record, Delta):
            continue
        if start < index:
            yield slice(start, index)
        yield slice(index, index + 1)
        start = index + 1
    if start < len(records):
        yield slice(start, len(records))
