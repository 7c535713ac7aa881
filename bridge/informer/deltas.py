"""The contents of the DeltaFIFO: observations of objects, like client-go's Delta."""

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
    floor: str | None = None
    """For a Replaced while the history is suspected: every object of the same history whose version is not newer than
    this is known. Empty where no version was reached. None while the history is not suspected."""


Deltas: TypeAlias = list[QueuedDelta]
