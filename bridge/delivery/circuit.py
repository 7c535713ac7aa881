"""The circuit breaker of a sink: when an attempt may begin. It has no clock: the caller brings the time and the jitter.

Closed --failures in a row, or an unavailable destination--> Open --its pause is over--> HalfOpen
   ^                                                          ^                            |  |
   +---------------------- success ---------------------------|----------------------------+  |
                                                              +---------- failure ------------+
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

import msgspec
from msgspec import structs

from bridge.model.primitives.backoff import Backoff
from bridge.model.status import CircuitState


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How a sink is retried. Delays are in seconds; see ``bridge.model.primitives.backoff``."""

    initial: float = 0.2
    """Short, because a broker that restarts is soon available."""
    maximum: float = 30.0
    quiet: float = 120.0
    failures: int = 5
    """Failures in a row that open the circuit."""
    longest_asked: float = 3600.0
    """Longest pause that a destination may ask for. After this time the sink is tried in any case."""

    def bounded(self, asked: float | None) -> float | None:
        """The pause that a destination asked for, within bounds: a mistake there must not stop the sink for ever."""
        return None if asked is None else max(0.0, min(asked, self.longest_asked))


class Closed(msgspec.Struct, frozen=True):
    """Attempts may begin."""

    failures: int = 0
    """Failures in a row."""
    failed: frozenset[Hashable] = frozenset()
    """The lanes that failed, for a sink with lanes."""


class Open(msgspec.Struct, frozen=True):
    """No attempt may begin."""

    since: float
    """The time at which the circuit left Closed."""
    until: float
    failures: int


class HalfOpen(msgspec.Struct, frozen=True):
    """A single attempt is in flight, and its result decides the next state."""

    since: float
    failures: int


State: TypeAlias = Closed | Open | HalfOpen

AT_REST = Closed()
"""The state of a circuit whose last attempt did not fail."""


class Failure(msgspec.Struct, frozen=True):
    """The consequences of a failed attempt."""

    delay: float
    """Seconds until the next attempt, for a worker that makes one attempt at a time. 0 for a lane that failed before:
    its own back-off decides."""
    opened: bool
    """This failure has opened a closed circuit."""


class Circuit:
    """The number of an attempt is that of the state in which it began. The result of an attempt that began in an
    earlier state is ignored."""

    def __init__(self, retry: Retry) -> None:
        self.state: State = AT_REST
        self._max_failures = retry.failures
        self._backoff = Backoff(retry.initial, retry.maximum, retry.quiet)
        self.state_number = 0
        """Number of the present state. An attempt has the number of the state that it began in."""

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
        """When the next attempt may begin: infinite while another attempt decides, in the past while closed."""
        match self.state:
            case Closed():
                return float("-inf")
            case Open(until=until):
                return until
            case HalfOpen():
                return float("inf")

    def retry_now(self, now: float) -> None:
        """An operator ends the pause: the next attempt may begin now."""
        if isinstance(self.state, Open):
            self.state = structs.replace(self.state, until=min(self.state.until, now))

    def begin(self) -> int:
        """An attempt begins, at ``ready_at`` or later. Returns its number, for ``succeeded`` and ``failed``."""
        if isinstance(self.state, Open):
            self._become(HalfOpen(self.state.since, self.state.failures))
        return self.state_number

    def succeeded(self, attempt: int, now: float) -> float | None:
        """The sink stored a record. If this closes the circuit, returns the seconds since it opened."""
        if attempt != self.state_number:
            return None
        # A stored record proves that the destination works, even if others of its batch failed.
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
        jitter: float,
        *,
        at_least: float | None = None,
        unavailable: bool = False,
        lane: Hashable = None,
    ) -> Failure:
        """The attempt failed. ``jitter``: from 0 to 1. ``at_least``: seconds that the destination asked for.
        ``unavailable``: the destination takes no record at all, so the circuit opens at once. ``lane``: the lane that
        failed; repeated failures of the same lane count once, so that a single object cannot open the circuit. None:
        every failure counts."""
        if attempt != self.state_number:
            return Failure(self._hold_off(now, at_least or 0.0), opened=False)
        match self.state:
            case Closed(failed=failed) if lane in failed and not unavailable:
                # The lane backs off by itself: its failures must not make the pause longer for all lanes.
                return Failure(0.0, opened=False)
            case Closed(failures, failed):
                delay = self._backoff.next(now, jitter, at_least)
                failures += 1
                if unavailable or failures >= self._max_failures:
                    self._become(Open(now, now + delay, failures))
                    return Failure(delay, opened=True)
                self.state = Closed(failures, failed if lane is None else failed | {lane})
                return Failure(delay, opened=False)
            case HalfOpen(since, failures):
                delay = self._backoff.next(now, jitter, at_least)
                self._become(Open(since, now + delay, failures + 1))
                return Failure(delay, opened=False)
            case Open():
                raise RuntimeError("no attempt begins while the circuit is open")

    def withdraw(self, attempt: int, now: float) -> None:
        """The attempt asked the destination for nothing: it decides nothing, and another may begin."""
        if attempt == self.state_number and isinstance(self.state, HalfOpen):
            self._become(Open(self.state.since, now, self.state.failures))

    def _hold_off(self, now: float, seconds: float) -> float:
        """A late failure can only make the pause of an open circuit longer."""
        if isinstance(self.state, Open):
            self.state = structs.replace(self.state, until=max(self.state.until, now + seconds))
            return self.state.until - now
        return seconds

    def _become(self, state: State) -> None:
        self.state = state
        self.state_number += 1
