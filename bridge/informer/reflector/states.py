"""Defines the types of the list-watch state machine: states, answers that its driver makes, updates of the store, and
steps.

Each state is a type of its own, with exactly the fields that the state needs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from bridge.informer.history.proof import Contradicted, Proof
from bridge.model.answers import EventType, Page, Part, WatchAnswer
from bridge.model.object import ApiObject

# ── States ───────────────────────────────────────────────────────────────────


class Freshness(StrEnum):
    """The state of the cluster that a list must have."""

    CACHED = "cached"
    """Not older than the newest known version; the server may answer from its cache."""
    CONSISTENT = "consistent"
    """The newest state, read from the server's store."""


class NotSynced(msgspec.Struct, frozen=True):
    """The next request begins a list."""

    seen: str | None = None
    """The newest version that the server ever sent."""
    freshness: Freshness = Freshness.CACHED
    watch_list: bool = True
    """Use a WatchList if a cached state suffices. A consistent read is always a list, because a list has its version
    before its objects."""
    whole: bool = False
    """List in a single page, because a continue token expired during the last list."""

    @property
    def streams(self) -> bool:
        """The next request is a WatchList."""
        return self.watch_list and self.freshness is Freshness.CACHED


class Listing(msgspec.Struct, frozen=True):
    """A part of the list has arrived."""

    began: NotSynced
    version: str
    next_page: str | None
    """The continue token; None until the first page has ended."""
    complete: bool
    """Every item so far was readable."""
    failures: int = 0
    """Failures of the next page in a row."""


class Streaming(msgspec.Struct, frozen=True):
    """A WatchList is open, before the bookmark that ends its initial events."""

    began: NotSynced
    complete: bool = True


class Synced(msgspec.Struct, frozen=True):
    """The store matches ``version``, and no watch is open."""

    version: str
    watch_list: bool
    failures: int = 0
    """Watches in a row that failed, or were silent, at this version."""
    doubt: bool = False
    """The list had unreadable items."""


class Watching(msgspec.Struct, frozen=True):
    """A watch is open, and sends changes after ``version``."""

    version: str
    watch_list: bool
    failures: int = 0
    """Watches in a row that failed, or were silent, at this version; 0 once this watch has sent data."""


class Doubting(msgspec.Struct, frozen=True):
    """A watch is open, but an unreadable line or item may hide a change or a delete: a list must repair the store."""

    version: str
    watch_list: bool


class Proving(msgspec.Struct, frozen=True):
    """The connection to the server was lost since its last data. Before the next request, the server must prove that
    its history is the known history."""

    then: NotSynced | Listing | Synced


State: TypeAlias = NotSynced | Listing | Streaming | Synced | Watching | Doubting | Proving


# ── Answers that the driver makes, from its clock and from proofs ────────────


class VeryShort(msgspec.Struct, frozen=True):
    """A watch ended cleanly within a second and without an event: some servers answer so instead of 410."""


class Overdue(msgspec.Struct, frozen=True):
    """The bookmark that ends a WatchList's initial events did not come in time."""


class RepairDue(msgspec.Struct, frozen=True):
    """The time in doubt is over."""


class TimedOut(msgspec.Struct, frozen=True):
    """A watch ended cleanly after its timeoutSeconds."""


class ProofRequest(msgspec.Struct, frozen=True):
    """The request for a proof that the server's history is the known history."""


Answer: TypeAlias = Page | Part | WatchAnswer | VeryShort | Overdue | RepairDue | TimedOut | Proof | Contradicted


# ── Updates of the store ─────────────────────────────────────────────────────


class ListBegan(msgspec.Struct, frozen=True):
    """A list begins. Its objects replace the store's objects at its ListEnded."""


class Listed(msgspec.Struct, frozen=True):
    objects: list[ApiObject]


class ListEnded(msgspec.Struct, frozen=True):
    """A list ended. All objects of the store that were not Listed are deleted, if the list is ``complete``."""

    version: str
    complete: bool


Event: TypeAlias = tuple[EventType, ApiObject]


class Accepted(msgspec.Struct, frozen=True):
    """The first events of the answer happened; a watch sent an old event behind them, if there are more."""

    count: int
    position: str | None
    """The version from which a watch may continue once these events are stored; None in doubt."""


class Happened(msgspec.Struct, frozen=True):
    events: list[Event]
    position: str | None
    """The version from which a watch may continue once these events are stored; None in doubt, and within a list."""


class PositionReached(msgspec.Struct, frozen=True):
    """A bookmark: all events up to this version were sent."""

    position: str


class RanBackwards(msgspec.Struct, frozen=True):
    """The server is older than before, because its store was restored from a backup. A new epoch begins for every
    informer of the server."""

    was: str
    now: str


class EpochBegan(msgspec.Struct, frozen=True):
    """The server has another history, and every informer of the server knows. A new epoch begins."""

    was: str
    now: str


class Suspected(msgspec.Struct, frozen=True):
    """The server may have another history, which the next list will show."""


StoreUpdate: TypeAlias = (
    ListBegan | Listed | ListEnded | Accepted | Happened | PositionReached | RanBackwards | EpochBegan | Suspected
)


class Pace(StrEnum):
    """The time of the next request."""

    AT_ONCE = "at once"
    AT_ONCE_IF_RARE = "at once, if rare"
    """At once, or with backoff if the same happened a short time ago."""
    BACK_OFF = "back off"
    SLOWLY = "slowly"
    """At long intervals, because only an operator can remove the cause."""


class Step(msgspec.Struct, frozen=True):
    state: State
    updates: tuple[StoreUpdate, ...] = ()
    pace: Pace = Pace.AT_ONCE
    after: float | None = None
    """The server's Retry-After, in seconds."""


class UnexpectedAnswer(Exception):
    """An answer that does not belong to the request, which is a bug of the bridge."""

    def __init__(self, state: State, answer: Answer) -> None:
        super().__init__(f"{type(answer).__name__} while {type(state).__name__}")
