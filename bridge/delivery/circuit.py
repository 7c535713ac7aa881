"""When a sink may be tried. Pure: the caller brings the time and the chance.

Closed --failures in a row, or nothing is taken at all--> Open --its time is over--> HalfOpen
   ^                                                       ^                           |  |
   +--------------------- success -------------------------|---------------------------+  |
                                                           +---------- failure -----------+
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TypeAlias

from bridge.model.primitives.backoff import Backoff
from bridge.model.status import CircuitState


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Delays are in seconds; see bridge.model.primitives.backoff.Backoff."""

    initial: float = 0.2
    """A broker that restarts is soon back."""
    maximum: float = 30.0
    quiet: float = 120.0
    failures: int = 5
    """In a row, after which the circuit opens."""
    longest_asked: float = 3600.0
    """Most seconds that a destination may ask for; one that asks for more is tried once in so many."""


@dataclass(frozen=True, slots=True)
class Closed:
    """Anything may be tried."""

    failures: int = 0
    """In a row."""
    failed: frozenset[Hashable] = frozenset()
    """What failed, where failures are told apart."""


@dataclass(frozen=True, slots=True)
class Open:
    """Nothing is tried."""

    since: float
    """When it was last closed."""
    until: float
    failures: int


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """One attempt is under way, and decides."""

    since: float
    failures: int


State: TypeAlias = Closed | Open | HalfOpen

AT_REST = Closed()
"""The state of a circuit whose last attempt did not fail."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed attempt came to."""

    delay: float
    """Seconds until the next attempt of whoever makes only one at a time; 0 where something failed once more that
    failed before, and has a delay of its own."""
    opened: bool
    """Whether this failure opened a closed circuit."""


class Circuit:
    """Attempts are numbered by the state in which they began: what comes out of one that began in an earlier state
    says nothing about this one."""

    def __init__(self, retry: Retry) -> None:
        self.state: State = AT_REST
        self._enough = retry.failures
        self._backoff = Backoff(retry.initial, retry.maximum, retry.quiet)
        self._turn = 0

    @property
    def name(self) -> CircuitState:
        match self.state:
            case Closed():
                return CircuitState.CLOSED
            case Open():
                return CircuitState.OPEN
            case HalfOpen():
                return CircuitState.HALF_OPEN

    @property
    def ready_at(self) -> float:
        """When the next attempt may begin. Infinite while another one decides; a past time when nothing forbids it."""
        match self.state:
            case Closed():
                return float("-inf")
            case Open(until=until):
                return until
            case HalfOpen():
                return float("inf")

    def hurry(self, now: float) -> None:
        """Somebody knows that a pause is of no use any more: the next attempt may begin now."""
        if isinstance(self.state, Open):
            self.state = replace(self.state, until=min(self.state.until, now))

    def begin(self) -> int:
        """An attempt begins, at ``ready_at`` or later. Returns its number, to tell its outcome with."""
        if isinstance(self.state, Open):
            self._become(HalfOpen(self.state.since, self.state.failures))
        return self._turn

    def succeeded(self, attempt: int, now: float) -> float | None:
        """The sink has taken something. Returns for how many seconds it had not, where this closes the circuit."""
        if attempt != self._turn:
            return None
        self._backoff.reset()
        if isinstance(self.state, Closed):
            self.state = AT_REST
            return None
        since = self.state.since
        self._become(AT_REST)
        return now - since

    def failed(
        self,
        attempt: int,
        now: float,
        chance: float,
        *,
        at_least: float | None = None,
        whole: bool = False,
        what: Hashable = None,
    ) -> Failure:
        """The sink has taken nothing. ``at_least``: seconds it asked for. ``whole``: it takes nothing, whatever it is
        offered; the circuit opens at once. ``what`` failed, where one thing alone may fail however often without
        opening the circuit; None where every failure counts."""
        if attempt != self._turn:
            return Failure(self._hold_off(now, at_least or 0.0), opened=False)
        match self.state:
            case Closed(failed=failed) if what in failed and not whole:
                # It backs off by itself: that must not make the pause longer for all.
                return Failure(0.0, opened=False)
            case Closed(failures, failed):
                delay = self._backoff.next(now, chance, at_least)
                failures += 1
                if whole or failures >= self._enough:
                    self._become(Open(now, now + delay, failures))
                    return Failure(delay, opened=True)
                self.state = Closed(failures, failed if what is None else failed | {what})
                return Failure(delay, opened=False)
            case HalfOpen(since, failures):
                delay = self._backoff.next(now, chance, at_least)
                self._become(Open(since, now + delay, failures + 1))
                return Failure(delay, opened=False)
            case Open():
                raise RuntimeError("no attempt begins while the circuit is open")

    def _hold_off(self, now: float, seconds: float) -> float:
        """What came late can only make an open circuit stay so for longer."""
        if isinstance(self.state, Open):
            self.state = replace(self.state, until=max(self.state.until, now + seconds))
            return self.state.until - now
        return seconds

    def _become(self, state: State) -> None:
        self.state = state
        self._turn += 1
