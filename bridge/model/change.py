"""A change: what an informer found, against what it knew."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope


class Op(StrEnum):
    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"
    SYNC = "sync"
    """Nothing changed: the object is told again, because a listener asked for a resync."""


class Evidence(StrEnum):
    """How the bridge learned of a change."""

    WATCHED = "watched"
    """The API server announced it."""
    LISTED = "listed"
    """The first list had it."""
    RELISTED = "relisted"
    """A fresh list differed from what was known; steps in between may be missing."""


class ObjectVersion(msgspec.Struct, frozen=True, gc=False):
    """What is remembered of an object between two changes."""

    uid: str
    resource_version: str
    state: bytes | int
    """The body, in the form in which the store that made this keeps it; or the sequence number of the record in the
    outbox that has it. That store can tell."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One change to one object. ``object`` is the state after it; for a delete, the last known state."""

    op: Op
    evidence: Evidence
    object: ApiObject
    before: ObjectVersion | None = None
    """The version that was known until now; None for an object that was not."""
    targets: tuple[str, ...] | None = None
    """Names of the listeners this is for; None for all. Only a resync or a late listener narrows it."""


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes of one informer in the order in which they happened, and how far the watch has come with them."""

    resource: Resource
    scope: Scope
    changes: list[Change]
    position: str | None
    """The resourceVersion from which a watch may go on once these are stored: everything up to it has been told then,
    and nothing beyond it. None while there is none (a list is under way, or an announcement could not be read). A
    position that was told before holds until a batch without one changes something (a Sync does not), or begins a new
    epoch."""
    epoch: int = 1
    """Grows where the API server's versions ran backwards, so that an id that comes again can be told apart."""
