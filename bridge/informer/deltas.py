"""Defines the contents of the DeltaFIFO: observations of objects, like client-go's Delta, and how two of them merge."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from bridge.model.answers import EventType
from bridge.model.change import Evidence
from bridge.model.object import ApiObject


class FifoClosed(Exception):
    """The queue is closed and empty."""


class DeltaType(StrEnum):
    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    REPLACED = "Replaced"
    """A list contains the object."""
    RESTORED = "Restored"
    """A list contains the object, and the server's versions ran backwards: an equal version may be another state."""
    SYNC = "Sync"
    """A resync is due."""


TYPE_OF_EVENT = {
    EventType.ADDED: DeltaType.ADDED,
    EventType.MODIFIED: DeltaType.UPDATED,
    EventType.DELETED: DeltaType.DELETED,
}


class Span(msgspec.Struct):
    """The versions between which a list that is compared with the known objects may show changes."""

    since: str | None
    """The version whose state the known objects were when the list began; None without such a version."""
    until: str | None = None
    """The version of the list; None until the list is complete."""


class Suspicion(msgspec.Struct, frozen=True):
    """A list may be of another history than the known objects, so no steps are looked for behind its differences."""

    floor: str
    """Every object of the same history whose version is not newer than this is known. Empty where no version was
    reached."""


Compared: TypeAlias = Span | Suspicion | None
"""How a list is compared with the known objects; None for a list whose differences have no recoverable steps."""


class QueuedDelta(msgspec.Struct, gc=False):
    type: DeltaType
    key: str
    object: ApiObject | None
    """None for a Sync, and for a delete found by comparison (client-go's DeletedFinalStateUnknown): the Indexer has
    the last state."""
    evidence: Evidence
    arrival: int
    """The number of the addition, ascending over all keys."""
    targets: tuple[str, ...] | None = None
    """For a Sync: the listeners whose period is due."""
    compared: Compared = None
    """For a Replaced, and a Deleted without object: how their list is compared."""

    @property
    def floor(self) -> str | None:
        """The floor of the suspicion; None while the history is not suspected."""
        return self.compared.floor if isinstance(self.compared, Suspicion) else None


Deltas: TypeAlias = list[QueuedDelta]


def is_repeated_delete(pending: QueuedDelta, delta: QueuedDelta) -> bool:
    """Whether two deletes are of the same object. Deletes with states of different uids are not."""
    if pending.type is not DeltaType.DELETED or delta.type is not DeltaType.DELETED:
        return False
    return pending.object is None or delta.object is None or pending.object.uid == delta.object.uid


def keep_last_state(pending: QueuedDelta, delta: QueuedDelta) -> int:
    """Merges two deletes into ``pending``, and keeps the last state. Returns the bytes by which ``pending`` grew."""
    if pending.object is not None or delta.object is None:
        return 0
    pending.object, pending.evidence = delta.object, delta.evidence
    return len(delta.object.body)


def wider(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The union of both; None stands for all listeners."""
    if one is None or other is None:
        return None
    return tuple(dict.fromkeys(one + other))
