"""Facts of bridge.informer: lists, watches, and the server's history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from bridge.model.resource import Resource, Scope


@dataclass(frozen=True, slots=True)
class InformerStarted:
    """The informer begins with a list, or resumes its watch at the saved position."""

    resource: Resource
    scope: Scope


@dataclass(frozen=True, slots=True)
class InformerSynced:
    resource: Resource
    scope: Scope
    objects: int


@dataclass(frozen=True, slots=True)
class InformerStopped:
    """The resource went away, or the bridge is ending. Its metrics labels may be dropped."""

    resource: Resource
    scope: Scope


@dataclass(frozen=True, slots=True)
class ListCompleted:
    """A complete list was received and compared with the store."""

    resource: Resource
    scope: Scope
    objects: int
    seconds: float
    relist: bool


@dataclass(frozen=True, slots=True)
class WatchOpened:
    resource: Resource
    scope: Scope


@dataclass(frozen=True, slots=True)
class WatchEnded:
    resource: Resource
    scope: Scope
    reason: str
    seconds: float
    events: int


@dataclass(frozen=True, slots=True)
class ListWatchFailed:
    """A list or a watch failed. The next attempt is in ``retry_after`` seconds."""

    resource: Resource
    scope: Scope
    verb: str
    reason: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class ResourceRefused:
    """The API server refuses this resource (401, 403, 404, 405): the operator must act."""

    resource: Resource
    scope: Scope
    status: int
    reason: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class InputUnreadable:
    """An item or a line of the API server could not be read, and was skipped. A relist follows."""

    resource: Resource
    scope: Scope
    reason: str


@dataclass(frozen=True, slots=True)
class ObjectLeftBare:
    """A version of an object is nested too deeply, or too large. Only its identity is exported."""

    resource: Resource
    scope: Scope
    reason: str
    """Names the object."""


@dataclass(frozen=True, slots=True)
class HistoryChecked:
    """The result of a check, after an interrupted watch, whether the API server's history is the known history."""

    store: str
    """The aggregated server; empty for the API server's own store."""
    outcome: str
    """``same``, ``other``, ``unknown`` (the API server has forgotten the proof: all objects are compared) or ``failed``
    (the check is repeated)."""
    reason: str


@dataclass(frozen=True, slots=True)
class VersionsRanBackwards:
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
    | WatchOpened
    | WatchEnded
    | ListWatchFailed
    | ResourceRefused
    | InputUnreadable
    | ObjectLeftBare
    | HistoryChecked
    | VersionsRanBackwards
)
