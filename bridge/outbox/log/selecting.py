"""Adds the decision of the sinks' selections to new records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from bridge.model.change import Change, ObjectVersion, Op
from bridge.model.record import Delta, Selected


class Decide(Protocol):
    """Decides which sinks get a record. ``was``: the members before it; None if the object was not known. ``before``
    returns the state before it (None if that is not known any more), and is called only if an expression reads that
    state. Pure: neither the number of the record nor its time decides."""

    def __call__(self, delta: Delta, was: int | None, before: Callable[[], bytes | None] | None) -> Selected: ...


def deciding(decide: Decide, state: Callable[[ObjectVersion], bytes]) -> Callable[[tuple[Change, Delta]], Selected]:
    """Decides on the records of a batch, which are passed in their order."""
    # The store learns the members of a batch after the batch is durable.
    here: dict[str, int] = {}

    def selected(step: tuple[Change, Delta]) -> Selected:
        change, delta = step
        known = change.before
        was = None if known is None else here.get(delta.key, known.members)
        found = decide(delta, was, None if known is None else partial(state, known))
        if change.op is not Op.SYNC:
            here[delta.key] = found.members
        return found

    return selected
