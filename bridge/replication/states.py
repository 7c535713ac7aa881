"""The states of an election, and what an elector does next. Pure.

    Starting ──read──► Following ──free, or expired──► Acquiring ──taken──► TakingOver ──took over──► Leading
                         ▲  ▲                             │                   │                       │  │ stop
                         │  └──── conflict, failure ──────┘    deadline, lost │                       │  ▼
                         └──────── work ended ───── SteppingDown ◄────────────┴───────────────────────┘ Releasing
                                                                                                            └─► Ended

Times are seconds of one monotonic clock. Losing the Lease pauses the holder's work, and ends no process.
"""

from __future__ import annotations

from math import inf
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from bridge.replication.lease import Lease, is_possible


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The newest known state of the Lease."""

    lease: Lease | None
    """None: no Lease exists."""
    version: str
    """The newest resourceVersion; that of its delete for a deleted Lease, if the watch sent it."""
    since: float
    """When its record was first seen as it is: the start of the time after which it expires."""
    heard: float
    """When the API server last sent it, changed or not."""
    highest_term: int
    """Of all possible terms that were ever seen, or tried."""
    seen_term: int
    """Of the newest leader that was seen: in the Lease, or by the own state."""
    unsure: bool = False
    """Another version is current, or the result of a write is unknown: read before the next write."""
    answers_since: float = -inf
    """Since when every request of this elector has had an answer; infinite behind one that failed."""

    @classmethod
    def first(cls, lease: Lease | None, now: float, highest_term: int) -> Known:
        known = cls(lease=None, version="", since=now, heard=now, highest_term=highest_term, seen_term=highest_term)
        return replace(known.after(lease, now), since=now)

    def after(self, lease: Lease | None, now: float, version: str = "") -> Known:
        """With a newer state. ``version``: of a delete. Labels and other annotations are no change."""
        before, term = self.lease, 0 if lease is None else lease.term
        seen = term if is_possible(term, self.highest_term) else 0
        corrects = before is not None and lease is not None and before.holder == lease.holder and before.term > term
        alike = before is lease if before is None or lease is None else before.record == lease.record
        return replace(
            self,
            lease=lease,
            version=version or (self.version if lease is None else lease.version),
            since=self.since if alike else now,
            heard=now,
            answers_since=min(self.answers_since, now),
            highest_term=max(self.highest_term, seen),
            # A holder that stays has corrected a larger term, which somebody else wrote.
            seen_term=seen if seen and corrects else max(self.seen_term, seen),
        )

    @property
    def went_back(self) -> bool:
        """The Lease is of an earlier term than one that is known: the API server was restored from a backup, and what
        the Lease says of who led last, and of who is in sync, is over."""
        return self.lease is not None and self.lease.term < self.seen_term

    @property
    def doubted_term(self) -> int:
        """The term of the Lease if it is not possible, else 0."""
        term = 0 if self.lease is None else self.lease.term
        return term if term > self.highest_term else 0

    def tried(self, term: int) -> Known:
        """After an attempt to take the Lease: an attempt whose answer was lost may have used the term."""
        return replace(self, highest_term=max(self.highest_term, term))


class Starting(msgspec.Struct, frozen=True, kw_only=True):
    """The Lease was not read yet."""

    highest_term: int
    retry_at: float


class Following(msgspec.Struct, frozen=True, kw_only=True):
    """Another replica delivers, or none."""

    known: Known
    retry_at: float
    """No request before."""


class Acquiring(msgspec.Struct, frozen=True, kw_only=True):
    """The write that takes the Lease is under way."""

    known: Known
    term: int


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The Lease is ours until ``deadline``, if nothing else is heard."""

    known: Known
    term: int
    deadline: float
    """The start of the last successful renewing request, and the renew deadline. Nobody else takes the Lease before."""
    renew_at: float


class TakingOver(Held, frozen=True, kw_only=True):
    """The holder prepares its work; what the Lease says stays as the holder before left it."""


class Leading(Held, frozen=True, kw_only=True):
    """The holder delivers and publishes."""


class Releasing(Held, frozen=True, kw_only=True):
    """The process ends: the holder finishes its work, then leaves the Lease to others."""

    finished: bool = False
    """The work has ended: the next write releases the Lease."""


class SteppingDown(msgspec.Struct, frozen=True, kw_only=True):
    """The Lease is lost; the holder's work is being cancelled."""

    known: Known
    term: int
    reason: str


class Ended(msgspec.Struct, frozen=True):
    """The process ends, and holds no Lease any more."""


State: TypeAlias = Starting | Following | Acquiring | TakingOver | Leading | Releasing | SteppingDown | Ended


# ── What an elector does next ────────────────────────────────────────────────


class Wait(msgspec.Struct, frozen=True):
    """Until this time, or until news."""

    until: float


class Read(msgspec.Struct, frozen=True):
    """Read the Lease."""


class Take(msgspec.Struct, frozen=True):
    """Write the Lease with ourselves as the holder: create it if there is none."""

    term: int


class Renew(msgspec.Struct, frozen=True):
    """Write the Lease with a later renewTime; create it if it was deleted."""


class Release(msgspec.Struct, frozen=True):
    """Write the Lease without a holder."""


Action: TypeAlias = Wait | Read | Take | Renew | Release
