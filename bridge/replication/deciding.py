"""Decides the steps of an election: the states of an elector, and what follows from the Lease, from answers and from
time.

    Starting ──read──► Following ──free, or expired──► Acquiring ──taken──► TakingOver ──took over──► Leading
                         ▲  ▲                             │                   │                       │  │ stop
                         │  └──── conflict, failure ──────┘    deadline, lost │                       │  ▼
                         └──────── work ended ───── SteppingDown ◄────────────┴───────────────────────┘ Releasing
                                                                                                            └─► Ended

``Rules`` is a state machine without clock, loop or network: ``Elector`` asks for the next action, and enters the state
that follows from each answer. Times are seconds of one monotonic clock. Losing the Lease pauses the holder's work, and
ends no process.

Safety rests on two rules of client-go. A holder works at most ``renew_deadline`` after the *start* of its last
successful write. Another elector takes the Lease when it saw no change of its record for ``lease_duration``, counted
from the *arrival* of the last change. So two holders never work at the same time while the rates of their clocks differ
by less than the ratio of both durations. Wall clocks are never compared.

Differences from client-go (tools/leaderelection): a conflict is followed by a read, and only another holder in the
answer costs the Lease; a deleted Lease is created anew by its holder, who goes on; whoever else creates one does not
hold it yet, but takes it a duration later if nobody has changed it, since the holder of a Lease that was deleted unseen
may still work; a successor in the same state directory need not wait.

The election is our own, on one Lease. It is compare-and-swap on an object, and no consensus: a thousand lines, of which
the decisions are pure and tested with skewed clocks, late and lost requests. Both Python clients with an election
compare wall clocks, block the loop, or go on working behind a lost Lease. A replica that finds no Lease waits for its
whole duration, at the very first start too (15 s): to create and hold it at once, as client-go does, lets two leaders
deliver for up to ten seconds after a delete.
"""

from __future__ import annotations

from math import inf
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from bridge.model.policies import LeaseTiming
from bridge.model.status import ElectionState
from bridge.model.versions import is_older
from bridge.replication.lease import LAST_TERM, Lease, LeaseHolder, is_possible

# ── The states of an election ────────────────────────────────────────────────


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
_STATES: dict[type[State], ElectionState] = {
    Starting: ElectionState.STARTING,
    Following: ElectionState.FOLLOWING,
    Acquiring: ElectionState.ACQUIRING,
    TakingOver: ElectionState.TAKING_OVER,
    Leading: ElectionState.LEADING,
    SteppingDown: ElectionState.STEPPING_DOWN,
    Releasing: ElectionState.RELEASING,
    Ended: ElectionState.ENDED,
}


def state_of(state: State) -> ElectionState:
    return _STATES[type(state)]


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
_SILENCE = 1.5
"""Retry periods without news of the Lease, after which a follower reads: a watch may be dead without an error."""
_JITTER = 0.2
"""Of a retry period: the most that is added to the wait after a failure, so that electors spread."""
_AFTER_CONFLICT = 0.1
"""Of a retry period: another writer was faster, and its version is there already."""
_Knowing: TypeAlias = Following | Acquiring | TakingOver | Leading | Releasing | SteppingDown


class Rules:
    """The decisions of one elector."""

    def __init__(self, identity: str, timing: LeaseTiming, *predecessors: str) -> None:
        """``identity``: of this process alone. ``predecessors``: identities that took the Lease with this state
        directory, whose processes are known to have ended."""
        self.timing = timing
        self.identity = identity
        self.ours = frozenset({identity, *predecessors} - {""})

    # ── What to do ───────────────────────────────────────────────────────────

    def next_action(self, state: State, now: float, *, clean: bool) -> Action:
        """``clean``: whether this replica has everything that any destination can have. Without that, another replica
        gets one more duration to take the Lease."""
        match state:
            case Starting(retry_at=retry_at):
                return Read() if now >= retry_at else Wait(retry_at)
            case Following(known=known, retry_at=retry_at):
                return self._follow(known, now, clean=clean) if now >= retry_at else Wait(retry_at)
            case TakingOver() | Leading() | Releasing():
                return self._hold(state, now)
            case Acquiring() | SteppingDown() | Ended():
                return Wait(inf)

    def _follow(self, known: Known, now: float, *, clean: bool) -> Action:
        if known.unsure:
            return Read()
        take_at = self.take_at(known, clean=clean)
        if now >= take_at:
            return Take(known.highest_term + 1)
        quiet_at = known.heard + _SILENCE * self.timing.retry_period
        return Read() if now >= quiet_at else Wait(min(take_at, quiet_at))

    def take_at(self, known: Known, *, clean: bool) -> float:
        """When the Lease may be taken, or created where there is none, if its record stays as it is. Infinite if the
        terms are used up."""
        lease, duration = known.lease, self.timing.lease_duration
        if known.highest_term >= LAST_TERM:
            return inf
        if lease is None:
            return known.since + duration if known.version else known.since  # Its holder creates it before.
        if lease.holder in self.ours and lease.proves_the_last_write and not known.went_back:
            return known.since
        if not lease.holder:
            return known.since if clean else known.since + duration
        # Where no API server could be reached, the holder comes back first: it has all that it delivered.
        held_until = max(known.since + lease.duration, known.answers_since + self.timing.return_time)
        return held_until if clean else held_until + duration

    def _hold(self, state: Held, now: float) -> Action:
        if now < state.renew_at:
            return Wait(min(state.renew_at, state.deadline))
        if state.known.unsure:
            return Read()
        if isinstance(state, Releasing) and state.finished:
            return Release()
        return Renew()

    # ── What time does ───────────────────────────────────────────────────────

    def at(self, state: State, now: float) -> State:
        """The state at this time: a Lease that was not renewed until the deadline is lost."""
        if not isinstance(state, Held) or now < state.deadline:
            return state
        if isinstance(state, Releasing) and state.finished:
            return Ended()
        reason = f"it could not be renewed within renew_deadline ({self.timing.renew_deadline:g} s)"
        return SteppingDown(known=state.known, term=state.term, reason=reason)

    # ── What the API server says ─────────────────────────────────────────────

    def read(self, state: State, lease: Lease | None, now: float, asked: str = "") -> State:
        """An answer to a read, which began after the answer to the last write, with ``asked`` as the known version.
        ``lease`` None: there is none. An answer that is older than an event meanwhile is passed over, and read again;
        any other counts, since the API server may have been restored from a backup."""
        match state:
            case Starting(highest_term=highest_term):
                return Following(known=Known.first(lease, now, highest_term), retry_at=now)
            case Ended():
                return state
        newest = state.known.version
        if asked and lease is not None and newest != asked and is_older(lease.version, newest):
            return replace(state, known=replace(state.known, unsure=True))
        return self._with(state, replace(state.known.after(lease, now), unsure=False))

    def watched(self, state: State, lease: Lease | None, version: str, now: float) -> State:
        """An event of the watch. ``version``: of the event; ``lease`` None: it was deleted. An event that is not newer
        than the known version is passed over: it may come behind the answer to a write."""
        if isinstance(state, Starting | Ended):
            return state
        newest = state.known.version
        if version == newest or is_older(version, newest):
            return state
        return self._with(state, state.known.after(lease, now, version))

    def written(self, state: State, lease: Lease, began: float, now: float) -> State:
        """A write succeeded. ``began``: when the request began. A Lease that was lost meanwhile stays lost: work that
        asked at the deadline has heard so, and waits to be cancelled."""
        state = self.at(state, now)
        deadline, renew_at = began + self.timing.renew_deadline, began + self.timing.retry_period
        match state:
            case Acquiring(known=known) if lease.transitions == 0:
                # Created, and not held yet.
                return Following(known=known.after(lease, now), retry_at=now)
            case Acquiring(known=known, term=term):
                known = known.after(lease, now).tried(term)
                if now >= deadline:
                    # The Lease is ours, but the time in which others leave it to us is over.
                    return Following(known=replace(known, unsure=True), retry_at=now)
                return TakingOver(known=known, term=term, deadline=deadline, renew_at=renew_at)
            case TakingOver() | Leading() | Releasing():
                known = replace(state.known.after(lease, now), unsure=False)
                if isinstance(state, Releasing) and state.finished:
                    # A renewal may have been under way when the work ended.
                    finished = replace(state, known=known, renew_at=-inf)
                    return finished if lease.holder else Ended()
                return replace(state, known=known, deadline=max(state.deadline, deadline), renew_at=renew_at)
            case SteppingDown():
                return replace(state, known=state.known.after(lease, now))
        return state

    def missing(self, state: State, now: float) -> State:
        """A write was refused with 404: the Lease was deleted."""
        if isinstance(state, Acquiring):
            state = Following(known=state.known, retry_at=now)
        return self.read(state, None, now)

    def conflicting(self, state: State, now: float) -> State:
        """A write was refused with 409: another version is current."""
        return self._unsure(state, now + _AFTER_CONFLICT * self.timing.retry_period)

    def failed(self, state: State, now: float, jitter: float) -> State:
        """A request failed, or its answer is lost: a write may have happened. ``jitter``: uniform in [0, 1)."""
        retry_at = now + self.timing.retry_period * (1 + _JITTER * jitter)
        if isinstance(state, Starting):
            return replace(state, retry_at=retry_at)
        if isinstance(state, Ended):
            return state
        return self._unsure(replace(state, known=replace(state.known, answers_since=inf)), retry_at)

    def _unsure(self, state: State, retry_at: float) -> State:
        match state:
            case Acquiring(known=known, term=term):
                return Following(known=replace(known.tried(term), unsure=True), retry_at=retry_at)
            case Following(known=known):
                return Following(known=replace(known, unsure=True), retry_at=retry_at)
            case TakingOver() | Leading() | Releasing():
                return replace(state, known=replace(state.known, unsure=True), renew_at=retry_at)
        return state

    def _with(self, state: _Knowing, known: Known) -> State:
        """The state with news of the Lease: another holder ends ours."""
        lease = known.lease
        if not isinstance(state, Held) or (lease is not None and lease.holder == self.identity):
            return replace(state, known=known)
        if lease is None:
            return replace(state, known=known, renew_at=-inf)
        if isinstance(state, Releasing) and state.finished:
            # Mostly our release: the watch may be faster than the answer.
            return Ended()
        reason = f"{lease.holder} holds it" if lease.holder else "its holder was removed"
        return SteppingDown(known=known, term=state.term, reason=reason)

    # ── What the process does ────────────────────────────────────────────────

    def stopped(self, state: State, *, working: bool) -> State:
        """The process is to end. ``working``: the holder's work goes on, and ends by itself."""
        match state:
            case TakingOver() | Leading() | Releasing():
                return Releasing(
                    known=state.known,
                    term=state.term,
                    deadline=state.deadline,
                    renew_at=state.renew_at if working else -inf,
                    finished=not working,
                )
            case SteppingDown():
                return state if working else Ended()
            case Starting() | Following() | Acquiring() | Ended():
                return Ended()

    def work_ended(self, state: State, now: float) -> State:
        """The holder's work has ended, however it ended."""
        match state:
            case Releasing():
                return replace(state, renew_at=-inf, finished=True)
            case SteppingDown(known=known):
                return Following(known=replace(known, unsure=True), retry_at=now)
            case TakingOver() | Leading():
                retry_at = now + self.timing.retry_period
                return Following(known=replace(state.known, unsure=True), retry_at=retry_at)
        return state

    def hastened(self, state: State) -> State:
        """There is news to publish: the next renewal is due."""
        return replace(state, renew_at=-inf) if isinstance(state, TakingOver | Leading | Releasing) else state

    def claim(self, term: int) -> LeaseHolder:
        """This elector as the holder of the Lease."""
        return LeaseHolder(holder=self.identity, seconds=self.timing.lease_duration, term=term)

    def took_over(self, state: State) -> State:
        """The work of the holder has begun."""
        if not isinstance(state, TakingOver):
            return state
        return Leading(known=state.known, term=state.term, deadline=state.deadline, renew_at=state.renew_at)
