"""Facts of bridge.informer: lists, watches, and the server's history."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bridge.model.resource import Resource, Scope


class InformerStarted(msgspec.Struct, frozen=True):
    """The informer begins with a list, or resumes its watch at the saved position."""

    resource: Resource
    scope: Scope


class InformerSynced(msgspec.Struct, frozen=True):
    resource: Resource
    scope: Scope
    objects: int


class InformerStopped(msgspec.Struct, frozen=True):
    """The resource went away, or the bridge is ending. Its metrics labels may be dropped."""

    resource: Resource
    scope: Scope


class ListCompleted(msgspec.Struct, frozen=True):
    """A complete list was received and compared with the store."""

    resource: Resource
    scope: Scope
    objects: int
    seconds: float
    relist: bool


class ChangesIgnored(msgspec.Struct, frozen=True):
    """Updates of ignored paths alone, which are not exported."""

    resource: Resource
    scope: Scope
    count: int


class WatchOpened(msgspec.Struct, frozen=True):
    resource: Resource
    scope: Scope


class WatchEnded(msgspec.Struct, frozen=True):
    resource: Resource
    scope: Scope
    reason: str
    seconds: float
    events: int


class ListWatchFailed(msgspec.Struct, frozen=True):
    """A list or a watch failed. The next attempt is in ``retry_after`` seconds."""

    resource: Resource
    scope: Scope
    verb: str
    reason: str
    retry_after: float


class ResourceRefused(msgspec.Struct, frozen=True):
    """The API server refuses this resource (401, 403, 404, 405): the operator must act."""

    resource: Resource
    scope: Scope
    status: int
    reason: str
    retry_after: float


class InputUnreadable(msgspec.Struct, frozen=True):
    """An item or a line of the API server could not be read, and was skipped. A relist follows."""

    resource: Resource
    scope: Scope
    reason: str


class ObjectLeftBare(msgspec.Struct, frozen=True):
    """A version of an object is nested too deeply, or too large. Only its identity is exported."""

    resource: Resource
    scope: Scope
    reason: str
    """Names the object."""


class HistoryChecked(msgspec.Struct, frozen=True):
    """The result of a check, after an interrupted watch, whether the API server's history is the known history."""

    store: str
    """The aggregated server; empty for the API server's own store."""
    outcome: str
    """``same``, ``other``, ``unknown`` (the API server has forgotten the proof: all objects are compared) or ``failed``
    (the check is repeated)."""
    reason: str


class VersionsRanBackwards(msgspec.Struct, frozen=True):
    """The API server's versions are older than before: its store was restored. A new epoch began."""

    resource: Resource
    scope: Scope
    was: str
    now: str


InformerFact: TypeAlias = (
    InformerStarted
    | InformerSynced
    | InformerStopped
    | ListCompleted
    | ChangesIgnored
    | WatchOpened
    | WatchEnded
    | ListWatchFailed
    | ResourceRefused
    | InputUnreadable
    | ObjectLeftBare
    | HistoryChecked
    | VersionsRanBackwards
)
