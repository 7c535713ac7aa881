"""Adds the field managers of a step to its record, where a sink asks for them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from bridge.model.change import Change, Op
from bridge.model.formats.managers import step
from bridge.model.record import Delta


def with_managers(
    changes: Sequence[Change], deltas: Sequence[Delta], entries_of: Callable[[int], bytes | None]
) -> list[Delta]:
    """``entries_of``: the entries of the state in a record of the log; None if it was stored without them."""
    return [*_with_managers(changes, deltas, entries_of)]


def _with_managers(
    changes: Sequence[Change], deltas: Sequence[Delta], entries_of: Callable[[int], bytes | None]
) -> Iterator[Delta]:
    here: dict[str, bytes] = {}
    for change, delta in zip(changes, deltas, strict=True):
        after, before = change.object.managers, change.before
        if not after or change.op in (Op.DELETED, Op.SYNC):
            yield delta
            continue
        known = None
        if before is not None:
            # An object that changes twice in a batch has no record of its state before yet.
            known = entries_of(before.state) if isinstance(before.state, int) else here.get(delta.key)
        here[delta.key] = after
        yield msgspec.structs.replace(delta, managers=step(known, after))
