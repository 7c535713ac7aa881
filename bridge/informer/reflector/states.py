"""The words of the Reflector: where it stands, what only its driver can see, what the store should hear. One type per
state, holding what that state knows and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from bridge.model.answers import Busy, EventType, Failed, Page, Part, Refused, WatchAnswer
from bridge.model.object import ApiObject

# ── Where we stand ───────────────────────────────────────────────────────────


class Freshness(StrEnum):
    """Which state of the cluster a list may show."""

    CACHED = "cached"
    """Not older than what was seen; anything the cache has where nothing was."""
    CONSISTENT = "consistent"
    """The newest there is, read through to the store."""


@dataclass(frozen=True, slots=True)
class NotSynced:
    """The next request begins a list."""

    seen: str | None = None
    """The newest version the server ever told us."""
    freshness: Freshness = Freshness.CACHED
    watch_list: bool = True
    """Ask for a WatchList rather than a list, where a cached state will do. A consistent read is always a list: its
    version is known before its objects are."""
    whole: bool = False
    """List in one page: a continue token expired under way."""

    @property
    def streams(self) -> bool:
        """The next request is a WatchList."""
        return self.watch_list and self.freshness is Freshness.CACHED


@dataclass(frozen=True, slots=True)
class Listing:
    """Part of the list has arrived."""

    began: NotSynced
    version: str
    next_page: str | None
    """None while the first page is under way."""
    complete: bool
    """Every item so far could be read."""
    failures: int = 0
    """Times in a row that the next page failed."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """A WatchList is open; its closing bookmark has not come."""

    began: NotSynced
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Synced:
    """The store matches ``version``; no watch is open."""

    version: str
    watch_list: bool
    failures: int = 0
    """Watches in a row that failed, or were silent, at this version."""
    doubt: bool = False
    """The list could not be read completely."""


@dataclass(frozen=True, slots=True)
class Watching:
    """Changes after ``version`` arrive as they happen."""

    version: str
    watch_list: bool
    failures: int = 0
    """Watches in a row that failed, or were silent, at this version before this one told anything."""


@dataclass(frozen=True, slots=True)
class Doubting:
    """As Watching, but something on the way could not be read, and a change or a delete may be missing: a list must
    mend it."""

    version: str
    watch_list: bool


@dataclass(frozen=True, slots=True)
class Proving:
    """The server was out of sight since it told what is known: whether its history is still the one that this is of
    must be proven before anything builds on it."""

    then: NotSynced | Listing | Synced


State: TypeAlias = NotSynced | Listing | Streaming | Synced | Watching | Doubting | Proving


# ── What only the driver can see ─────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class VeryShort:
    """A watch ended in due form within a second and without an event: some servers answer so where they mean 410."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """The closing bookmark of a WatchList did not come in time."""


@dataclass(frozen=True, slots=True)
class RepairDue:
    """The time to live in doubt is over."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A watch ended in due form after the time that it was asked to keep."""


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """Prove that the server's history is the known one."""


@dataclass(frozen=True, slots=True)
class SameHistory:
    """What is known is of the history that the server has."""


@dataclass(frozen=True, slots=True)
class UnknownHistory:
    """The server answered, and it cannot be told: what would prove it is forgotten."""

    reason: str


@dataclass(frozen=True, slots=True)
class OtherHistory:
    """The server has another history: its store was restored from a backup, or replaced."""

    was: str
    """What is known of the one until now."""
    now: str
    """What contradicts it."""


@dataclass(frozen=True, slots=True)
class Contradicted:
    """The same, found by this informer: nobody else knows of it yet."""

    was: str
    now: str


Proof: TypeAlias = SameHistory | UnknownHistory | OtherHistory | Busy | Refused | Failed
"""The last three: it cannot be made now."""

Answer: TypeAlias = Page | Part | WatchAnswer | VeryShort | Overdue | RepairDue | TimedOut | Proof | Contradicted


# ── What the store should hear ───────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ListBegan:
    """What is Listed from here on replaces the store's content, once ListEnded says so."""


@dataclass(frozen=True, slots=True)
class Listed:
    objects: list[ApiObject]


@dataclass(frozen=True, slots=True)
class ListEnded:
    """Whatever the store holds and no Listed named has been deleted; unless the list was not ``complete``."""

    version: str
    complete: bool


Event: TypeAlias = tuple[EventType, ApiObject]


@dataclass(frozen=True, slots=True)
class Happened:
    events: list[Event]
    position: str | None
    """From where a watch may go on once these are stored; None while in doubt or inside a list."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Nothing else happened up to this version."""

    position: str


@dataclass(frozen=True, slots=True)
class RanBackwards:
    """The server is older than it was: its store was restored from a backup. A new epoch begins, for every informer of
    that server."""

    was: str
    now: str


@dataclass(frozen=True, slots=True)
class EpochBegan:
    """The server has another history, as every informer of it was told. A new epoch begins."""

    was: str
    now: str


@dataclass(frozen=True, slots=True)
class Suspected:
    """The server may have another history: the list that follows will tell."""


Sighting: TypeAlias = ListBegan | Listed | ListEnded | Happened | Reached | RanBackwards | EpochBegan | Suspected


class Pace(StrEnum):
    """When to make the next request."""

    AT_ONCE = "at once"
    AT_ONCE_IF_RARE = "at once, if rare"
    """But backs off where it comes again soon."""
    BACK_OFF = "back off"
    SLOWLY = "slowly"
    """Only an operator can mend it."""


@dataclass(frozen=True, slots=True)
class Step:
    state: State
    heard: tuple[Sighting, ...] = ()
    pace: Pace = Pace.AT_ONCE
    after: float | None = None
    """Seconds the server asked us to wait at least."""
