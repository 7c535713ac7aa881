"""Facts of bridge.informer: lists, watches, and the server's history."""

from __future__ import annotations

from enum import StrEnum
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


class RecoveryEnd(StrEnum):
    """Why the recovery of the steps behind a list ended."""

    COMPLETE = "complete"
    """Every step of every object that the list showed to be changed was found."""
    FORGOTTEN = "forgotten"
    """The API server has forgotten older versions (410: etcd was compacted)."""
    REQUESTS = "requests"
    """``watch.recover_steps.most_requests`` was reached."""
    SECONDS = "seconds"
    """It took too long: the watch must not wait until its own version is forgotten."""
    BYTES = "bytes"
    """The steps of a batch took too much memory."""
    FAILED = "failed"
    """The API server refused a request, or failed or was too busy several times in a row."""
    UNSUPPORTED = "unsupported"
    """The server cannot list an object at a version, and is not asked again."""
    CONTRADICTED = "contradicted"
    """The answers do not belong to the history of the list. The found steps are dropped."""
    STOPPED = "stopped"
    """The informer was ended meanwhile."""


class StepsRecovered(msgspec.Struct, frozen=True):
    """The steps between the states of a list and the known states were looked for in the API server's history."""

    resource: Resource
    scope: Scope
    objects: int
    """Objects that the list showed to be changed, and objects that came and went."""
    steps: int
    """Changes that are exported as ``recovered``."""
    requests: int
    seconds: float
    ended_by: RecoveryEnd
    reason: str = ""
    """The server's words, where a request failed."""


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
    """A version of an object is nested too deeply, too large, or not to be redacted: only its identity is exported. Or
    its name is too long: it is left out."""

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
    | StepsRecovered
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
