"""The election as a state machine: what follows from the Lease, from answers and from time. Pure.

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

from msgspec.structs import replace

from bridge.model.primitives.election import LeaseTiming
from bridge.model.versions.version import is_older
from bridge.replication.lease import LAST_TERM, Lease, LeaseHolder
from bridge.replication.states import (
    Acquiring,
    Action,
    Ended,
    Following,
    Held,
    Known,
    Leading,
    Read,
    Release,
    Releasing,
    Renew,
    Starting,
    State,
    SteppingDown,
    Take,
    TakingOver,
    Wait,
)

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

    def taking(self, state: Following, term: int) -> Acquiring:
        """The write that takes the Lease begins."""
        return Acquiring(known=state.known, term=term)

    def took_over(self, state: State) -> State:
        """The work of the holder has begun."""
        if not isinstance(state, TakingOver):
            return state
        return Leading(known=state.known, term=state.term, deadline=state.deadline, renew_at=state.renew_at)
