"""Decides which followers are in sync, and how far deliveries may go.

The leader *wants* a follower in the Lease's list while the follower keeps up. What the Lease says may differ for a
while: a write takes time, and one whose answer was lost may have happened. So the leader waits for everybody whom the
Lease may name, and for everybody whom it is to name:

- A commit is *replicated* when all of these have acknowledged it. Its transaction is done then, and its records can be
  delivered.
- A follower is wanted once it has every commit that is replicated, and does not lag. From that moment on the leader
  waits for it, although the Lease does not name it yet.
- A follower that lags for ``patience`` seconds, or whose connection ends, is not wanted any more. The leader goes on
  waiting for it until the Lease was written without it: until then it may take over.

So whoever the Lease names has, at every moment, every commit that any destination can have seen, whichever write or
answer is lost. Without followers the leader goes on alone.

A run names a follower's process, and not its pod: a process that began anew, perhaps behind a power cut that took what
it had acknowledged, has to catch up first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

REST = 5.0
"""Seconds without a lag until a follower that was taken off the list comes back: each change is a write of the
Lease."""
_MOST_TIMES = 100_000
"""Commits whose times are remembered. A lag that began before them is taken for a shorter one."""


@dataclass(slots=True)
class _Follower:
    acknowledged: int
    rests_until: float = float("-inf")


@dataclass(frozen=True, slots=True)
class Lag:
    """Of a follower that is connected."""

    commits: int
    seconds: float
    """Since the oldest commit that it has not acknowledged."""
    in_sync: bool


@dataclass(slots=True)
class InSync:
    """A leader's knowledge of its followers. Its term begins with an empty list in the Lease."""

    patience: float
    newest: int
    """The newest commit."""
    rest: float = REST
    _wanted: set[str] = field(default_factory=set)
    _listed: frozenset[str] = frozenset()
    """As of the last write that is known to have happened."""
    _named: set[str] = field(default_factory=set)
    """Whom the Lease may name: ``_listed``, and the lists of all writes since."""
    _connected: dict[str, _Follower] = field(default_factory=dict)
    _gone: dict[str, int] = field(default_factory=dict)
    """Run that the Lease may name → what it acknowledged before its connection ended."""
    _times: deque[float] = field(default_factory=deque)
    """Of the newest commits, ascending."""

    # ── What happens ─────────────────────────────────────────────────────────

    def committed(self, commit: int, now: float) -> None:
        """The next commit was made."""
        self.newest = commit
        self._times.append(now)
        if len(self._times) > _MOST_TIMES:
            self._times.popleft()

    def connected(self, run: str, commit: int, now: float) -> None:
        """A follower has this commit, and gets all behind it."""
        self._gone.pop(run, None)
        self._connected[run] = _Follower(commit)
        self._admit(run, now)

    def acknowledged(self, run: str, commit: int, now: float) -> None:
        """A follower has everything up to this commit. What it cannot have is no acknowledgement."""
        follower = self._connected.get(run)
        if follower is not None and follower.acknowledged < commit <= self.newest:
            follower.acknowledged = commit
            self._admit(run, now)

    def disconnected(self, run: str) -> None:
        follower = self._connected.pop(run, None)
        self._wanted.discard(run)
        if follower is not None and run in self._named:
            self._gone[run] = follower.acknowledged

    def look(self, now: float) -> None:
        """Takes followers off that lag, and takes those on again whose rest is over."""
        for run, follower in self._connected.items():
            if self._lag(follower, now) >= self.patience:
                follower.rests_until = now + self.rest
                self._wanted.discard(run)
            else:
                self._admit(run, now)

    def writing(self) -> frozenset[str]:
        """The list for a write of the Lease that begins now, behind the end of all earlier ones."""
        self._named |= self._wanted
        return frozenset(self._wanted)

    def written(self, runs: frozenset[str]) -> None:
        """The Lease has this list, of the last ``writing``."""
        self._listed = runs
        self._named = set(runs)
        self._gone = {run: commit for run, commit in self._gone.items() if run in runs}

    def _admit(self, run: str, now: float) -> None:
        follower = self._connected[run]
        keeps_up = follower.acknowledged >= self.replicated and self._lag(follower, now) < self.patience / 2
        if keeps_up and now >= follower.rests_until:
            self._wanted.add(run)

    # ── What follows ─────────────────────────────────────────────────────────

    @property
    def replicated(self) -> int:
        """The newest commit that counts as replicated. Never goes back."""
        awaited = self._wanted | self._named
        has = [
            self._connected[run].acknowledged if run in self._connected else self._gone.get(run, 0) for run in awaited
        ]
        return min(has, default=self.newest)

    @property
    def must_write(self) -> bool:
        """Whether the Lease is to be written now, since it may name others than the wanted ones."""
        return self._listed != self._wanted or self._named != self._wanted

    def next_look(self, now: float) -> float:
        """When ``look`` may change something, if nothing happens before."""
        due = [
            now + self.patience - self._lag(each, now) for run, each in self._connected.items() if run in self._wanted
        ]
        rests = [
            max(now + self.patience / 4, each.rests_until)
            for run, each in self._connected.items()
            if run not in self._wanted
        ]
        return min([*due, *rests], default=float("inf"))

    def lags(self, now: float) -> dict[str, Lag]:
        """Of each connected run."""
        return {
            run: Lag(
                self.newest - each.acknowledged,
                self._lag(each, now),
                in_sync=run in self._wanted and run in self._listed,
            )
            for run, each in self._connected.items()
        }

    def _lag(self, follower: _Follower, now: float) -> float:
        """Seconds since the oldest commit without its acknowledgement was made."""
        open_ = min(self.newest - follower.acknowledged, len(self._times))
        return max(0.0, now - self._times[-open_]) if open_ else 0.0
