"""What stands in the DeltaFIFO: one observation of one object, as client-go's Delta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import msgspec

from bridge.model.answers import EventType
from bridge.model.change import Evidence
from bridge.model.object import ApiObject


class DeltaType(StrEnum):
    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    REPLACED = "Replaced"
    """A list had it."""
    RESTORED = "Restored"
    """The same, but the server's versions ran backwards: an equal version may be another state."""
    SYNC = "Sync"
    """A resync is due."""


TYPE_OF_EVENT = {
    EventType.ADDED: DeltaType.ADDED,
    EventType.MODIFIED: DeltaType.UPDATED,
    EventType.DELETED: DeltaType.DELETED,
}


class QueuedDelta(msgspec.Struct, gc=False):
    type: DeltaType
    key: str
    object: ApiObject | None
    """None for a Sync, and for a delete found by comparison (client-go's DeletedFinalStateUnknown): ask the store."""
    evidence: Evidence
    arrival: int
    """Ascending over all keys."""
    targets: tuple[str, ...] | None = None
    """For a Sync: the listeners whose period is due."""
    floor: str | None = None
    """For a Replaced while the history is suspected: what is not newer than this version was known, if it was there."""


Deltas: TypeAlias = list[QueuedDelta]


@dataclass(frozen=True, slots=True)
class Drained:
    """Everything that was queued, in arrival order."""

    deltas: Sequence[QueuedDelta]
    position: str | None
    """With these deltas the store is exactly what the server had at this version; None where it is at none (within a
    list, in doubt). It stays while nothing but Syncs is queued."""
