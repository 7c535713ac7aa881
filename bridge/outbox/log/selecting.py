"""Adds the decision of the sinks' selections to new records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from bridge.model.change import Change, ObjectVersion, Op
from bridge.model.record import Delta, Selected


class Decide(Protocol):
    """Decides which sinks get a record. ``was``: the members before it; None if the object was not known. ``before``
    returns the state before it (None if that is not known any more), and is called only if an expression reads that
    state. Pure."""

    def __call__(self, delta: Delta, was: int | None, before: Callable[[], bytes | None] | None) -> Selected: ...


def decided(
    changes: Sequence[Change], deltas: Sequence[Delta], decide: Decide, state: Callable[[ObjectVersion], bytes]
) -> tuple[list[Delta], list[int]]:
    """The records with their decisions, and the members of the object after each."""
    # The store learns the members of a batch after the batch is durable.
    here: dict[str, int] = {}
    found: list[Delta] = []
    members: list[int] = []
    for change, delta in zip(changes, deltas, strict=True):
        known = change.before
        was = None if known is None else here.get(delta.key, known.members)
        selected = decide(delta, was, None if known is None else partial(state, known))
        if change.op is not Op.SYNC:
            here[delta.key] = selected.members
        found.append(replace(delta, selected=selected))
        members.append(selected.members)
    return found, members
