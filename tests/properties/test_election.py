"""Two or three electors and one Lease: clocks of other rates, late and lost requests, kills, pauses, deletes.

The electors' rules run in a simulation with the time of the world; each elector sees its own clock only.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from math import inf
from random import Random

from hypothesis import event, given
from hypothesis import strategies as st

from bridge.model.policies import LeaseTiming
from bridge.replication.deciding import (
    Acquiring,
    Ended,
    Following,
    Held,
    Leading,
    Read,
    Release,
    Releasing,
    Renew,
    Rules,
    Starting,
    State,
    SteppingDown,
    Take,
    TakingOver,
    Wait,
)
from bridge.replication.lease import Lease, LeaseHolder, created, lease_of, released, renewed, taken
from tests.bridge.replication.lease_store import LeaseStore
from tests.kit.examples import examples

TIMING = LeaseTiming()
SKEW = 0.1
"""Clocks run this much faster or slower; the ratio of both durations allows 0.2."""
LENGTH = 150.0
CALM = 60.0
"""Seconds at the end without faults."""


class World:
    """Time, the Lease, and the faults."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 0.0
        self.calm_from = LENGTH - CALM
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = count()
        self.store = LeaseStore()
        self.electors: list[SimulatedElector] = []
        self.terms: list[int] = []
        self.deletes = 0

    def at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self.events, (when, next(self.numbers), act))

    def run(self) -> None:
        while self.events and self.events[0][0] <= LENGTH:
            self.now, _, act = heapq.heappop(self.events)
            act()
            self.i5_one_holder_works()

    def i5_one_holder_works(self) -> None:
        working = [each for each in self.electors if each.works]
        assert len(working) <= 1, (self.now, [each.identity for each in working])

    def delay(self) -> float:
        """Seconds on one way through the network."""
        if self.now >= self.calm_from:
            return 0.01
        return self.random.choice((0.001, 0.01, 0.1, 0.5, 2.0, 6.0, 12.0))

    def lost(self) -> bool:
        return self.now < self.calm_from and self.random.random() < 0.15

    # ── The Lease ────────────────────────────────────────────────────────────

    @property
    def body(self) -> bytes | None:
        return None if self.store.body is None else json.dumps(self.store.body).encode()

    def write(self, body: bytes, version: str) -> str:
        """``stored``, ``conflict`` or ``missing``. ``version`` "" creates."""
        current = "" if self.store.body is None else self.store.body["metadata"]["resourceVersion"]
        if version and not current:
            return "missing"
        if version != current:
            return "conflict"
        self.store.write(json.loads(body))
        self.announce()
        return "stored"

    def announce(self) -> None:
        for each in self.electors:
            each.send(self.body, str(self.store.version))

    def delete(self) -> None:
        if self.store.body is not None:
            self.deletes += 1
            self.store.delete()
            self.announce()

    def annotate(self) -> None:
        if self.store.body is not None:
            self.store.annotate("team", str(self.now))
            self.announce()


@dataclass
class SimulatedElector:
    world: World
    name: str
    rate: float
    offset: float
    lives: int = 0
    predecessor: str = ""
    highest: int = 0
    frozen_until: float = -inf
    state: State = field(default_factory=Ended)
    busy: bool = False
    watched_at: float = 0.0

    def start(self) -> None:
        self.lives += 1
        self.identity = f"{self.name}_{self.lives}"
        self.rules = Rules(self.identity, TIMING, self.predecessor)
        self.state = Starting(highest_term=self.highest, retry_at=-inf)
        self.busy = False
        self.step()

    @property
    def clock(self) -> float:
        return self.offset + self.rate * self.world.now

    def later(self, local: float) -> float:
        """The world's time at which the own clock shows ``local``."""
        return max(self.world.now, (local - self.offset) / self.rate)

    @property
    def works(self) -> bool:
        return isinstance(self.state, Held) and self.clock < self.state.deadline

    def guarded(self, act: Callable[[], None]) -> Callable[[], None]:
        """Only in this life, and not while frozen."""
        life = self.lives

        def run() -> None:
            if life != self.lives:
                return
            if self.world.now < self.frozen_until:
                self.world.at(self.frozen_until, run)
                return
            act()
            if not self.busy:
                self.step()

        return run

    def enter(self, state: State) -> None:
        before, self.state = self.state, state
        if isinstance(state, TakingOver) and not isinstance(before, TakingOver):
            self.world.terms.append(state.term)
            self.world.at(self.world.now + 0.05, self.guarded(lambda: self.enter(self.rules.took_over(self.state))))
        if isinstance(state, Held):
            self.world.at(self.later(state.deadline) + 1e-6, self.guarded(lambda: None))
        if isinstance(state, SteppingDown) and not isinstance(before, SteppingDown):
            end = self.world.random.choice((0.0, 0.01, 3.0))
            over = self.guarded(lambda: self.enter(self.rules.work_ended(self.state, self.clock)))
            self.world.at(self.world.now + end, over)

    def step(self) -> None:
        self.enter(self.rules.at(self.state, self.clock))
        clean = self.world.random.random() < 0.8
        action = self.rules.next_action(self.state, self.clock, clean=clean)
        match action:
            case Wait(until):
                if until < inf:
                    self.world.at(self.later(until) + 1e-6, self.guarded(lambda: None))
            case Read():
                self.request(None, None)
            case Take(term):
                assert isinstance(self.state, Following)
                self.highest, self.predecessor = term, self.identity  # As Duties.remember.
                lease = self.state.known.lease
                self.enter(Acquiring(known=self.state.known, term=term))
                claim = self.claim(term)
                new = (
                    created(self.claim(term - 1), "apps", "x", None, self.wall)
                    if lease is None
                    else taken(lease, claim, self.wall, clean=True)
                )
                self.request(new, lease)
            case Renew():
                assert isinstance(self.state, Held)
                lease, claim = self.state.known.lease, self.claim(self.state.term)
                self.request(
                    created(claim, "apps", "x", None, self.wall)
                    if lease is None
                    else renewed(lease, self.state.term, None, self.wall),
                    lease,
                )
            case Release():
                assert isinstance(self.state, Releasing)
                lease = self.state.known.lease
                if lease is None:
                    self.enter(Ended())
                else:
                    self.request(released(lease, self.state.term, None, self.wall), lease)

    def claim(self, term: int) -> LeaseHolder:
        return LeaseHolder(holder=self.identity, seconds=TIMING.lease_duration, term=term)

    @property
    def wall(self) -> datetime:
        """A clock that nobody may trust."""
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.world.random.uniform(-1e6, 1e6))

    def request(self, body: bytes | None, before: Lease | None) -> None:
        """A read, or a write over ``before``."""
        world, began, self.busy = self.world, self.clock, True
        life, answered = self.lives, [False]

        def answer(act: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                if not answered[0]:
                    answered[0], self.busy = True, False
                    act()

            return self.guarded(run)

        def serve() -> None:
            if body is None:
                found = world.body
                read = answer(
                    lambda: self.enter(
                        self.rules.read(self.state, None if found is None else lease_of(found), self.clock)
                    )
                )
                if life == self.lives and not world.lost():
                    world.at(world.now + world.delay(), read)
                return
            outcome = world.write(body, "" if before is None else before.version)
            now = world.body
            if life != self.lives or world.lost():
                return

            def written() -> None:
                if outcome == "stored" and now is not None:
                    self.enter(self.rules.written(self.state, lease_of(now), began, self.clock))
                elif outcome == "missing":
                    self.enter(self.rules.missing(self.state, self.clock))
                else:
                    self.enter(self.rules.conflicting(self.state, self.clock))

            world.at(world.now + world.delay(), answer(written))

        if not world.lost():
            world.at(world.now + world.delay(), serve)
        timeout = answer(lambda: self.enter(self.rules.failed(self.state, self.clock, world.random.random())))
        world.at(self.later(began + TIMING.renew_deadline / 2), timeout)

    def send(self, body: bytes | None, version: str) -> None:
        """An event of the watch; events of one elector keep their order."""
        if not self.lives or self.world.lost():
            return
        self.watched_at = max(self.watched_at, self.world.now + self.world.delay())
        lease = None if body is None else lease_of(body)
        heard = self.guarded(lambda: self.enter(self.rules.watched(self.state, lease, version, self.clock)))
        self.world.at(self.watched_at, heard)

    # ── Faults ───────────────────────────────────────────────────────────────

    def kill(self) -> None:
        """The process ends, and another begins with its disk. Requests under way may still be served."""
        self.lives += 1
        self.state = Ended()
        self.world.at(self.world.now + self.world.random.choice((0.5, 5.0, 40.0)), self.start)

    def freeze(self) -> None:
        self.frozen_until = self.world.now + self.world.random.choice((3.0, 12.0, 30.0))

    def stop(self) -> None:
        """SIGTERM, a flush, and another process."""
        if isinstance(self.state, Ended):
            return
        self.enter(self.rules.stopped(self.state, working=isinstance(self.state, Held)))
        flushed = self.guarded(lambda: self.enter(self.rules.work_ended(self.state, self.clock)))
        self.world.at(self.world.now + self.world.random.choice((0.01, 1.0, 8.0)), flushed)
        self.world.at(self.world.now + 30.0, self.start)


FAULTS = ("kill", "freeze", "stop", "delete", "annotate")


@examples(100)
@given(
    seed=st.integers(0, 2**32),
    rates=st.lists(st.floats(1 - SKEW, 1 + SKEW), min_size=2, max_size=3),
    faults=st.lists(
        st.tuples(st.floats(6, LENGTH - CALM - 40), st.sampled_from(FAULTS), st.integers(0, 2)), max_size=8
    ),
)
def test_two_replicas_never_work_at_the_same_time(
    seed: int, rates: list[float], faults: list[tuple[float, str, int]]
) -> None:
    world = World(Random(seed))
    for number, rate in enumerate(rates):
        elector = SimulatedElector(world, f"pod-{number}", rate, offset=world.random.uniform(0, 1e6))
        world.electors.append(elector)
        world.at(world.random.uniform(0, 5), elector.start)
    for when, fault, which in faults:
        elector = world.electors[which % len(rates)]
        world.at(when, getattr(world if fault in ("delete", "annotate") else elector, fault))

    world.run()

    event(f"{min(len(world.terms), 6)} terms")
    if not world.deletes:
        assert world.terms == sorted(set(world.terms))
    assert [isinstance(each.state, Leading) for each in world.electors].count(True) == 1
