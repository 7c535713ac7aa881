"""Whoever the Lease may name has everything that was delivered, whichever write or answer is lost."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bridge.replication.in_sync import InSync

PATIENCE, REST = 1.0, 5.0
RUNS = ("b-1", "c-1", "b-2")


def a_leader(*, newest: int = 10) -> InSync:
    return InSync(PATIENCE, newest=newest, rest=REST)


def listed(leader: InSync) -> frozenset[str]:
    """Writes the Lease, and returns its list."""
    runs = leader.writing()
    leader.written(runs)
    return runs


# ── Examples ─────────────────────────────────────────────────────────────────


def test_a_follower_that_has_everything_is_named() -> None:
    leader = a_leader()
    leader.connected("b-1", 10, 0.0)
    assert leader.must_write
    assert listed(leader) == {"b-1"}
    assert not leader.must_write


def test_who_lags_holds_up_until_the_lease_is_without_it() -> None:
    leader = a_leader()
    leader.connected("b-1", 10, 0.0)
    listed(leader)
    leader.committed(11, 1.0)
    leader.look(1.9)
    assert not leader.must_write
    leader.look(2.0)
    assert leader.must_write
    assert leader.replicated == 10
    leader.writing()  # Its answer is lost.
    assert leader.replicated == 10
    assert listed(leader) == frozenset()
    assert leader.replicated == 11


def test_a_follower_that_is_slow_again_and_again_is_taken_off() -> None:
    """It acknowledges one commit after the other, each too late."""
    leader = a_leader()
    leader.connected("b-1", 10, 0.0)
    listed(leader)
    for commit in range(11, 40):
        leader.committed(commit, commit * 0.1)
    leader.acknowledged("b-1", 20, 4.0)
    leader.look(4.0)
    assert leader.must_write
    assert listed(leader) == frozenset()


def test_a_follower_comes_back_when_it_kept_up_for_a_while() -> None:
    leader = a_leader()
    leader.connected("b-1", 10, 0.0)
    listed(leader)
    leader.committed(11, 0.0)
    leader.look(1.0)
    listed(leader)
    leader.acknowledged("b-1", 11, 1.1)
    leader.look(5.9)
    assert not leader.must_write
    assert leader.next_look(5.9) <= 6.2
    leader.look(6.2)
    assert listed(leader) == {"b-1"}


def test_who_is_gone_has_no_more_than_it_acknowledged() -> None:
    leader = a_leader()
    leader.connected("b-1", 10, 0.0)
    listed(leader)
    leader.committed(11, 0.0)
    leader.disconnected("b-1")
    leader.connected("b-2", 11, 0.1)
    assert leader.replicated == 10, "the Lease names b-1 still"
    assert listed(leader) == {"b-2"}
    assert leader.replicated == 11


@pytest.mark.parametrize("commit", [5, 10, 12])
def test_an_acknowledgement_of_what_cannot_be_changes_nothing(commit: int) -> None:
    leader = a_leader()
    leader.connected("b-1", 10, 0.0)
    leader.committed(11, 0.0)
    leader.acknowledged("b-1", commit, 0.1)
    leader.acknowledged("nobody", 11, 0.1)
    assert leader.replicated == 10


def test_lags_say_who_is_behind() -> None:
    leader = a_leader()
    leader.connected("b-1", 10, 0.0)
    listed(leader)
    leader.committed(11, 1.0)
    leader.committed(12, 2.0)
    lag = leader.lags(2.5)["b-1"]
    assert (lag.commits, lag.seconds, lag.in_sync) == (2, 1.5, True)


# ── Whatever happens ─────────────────────────────────────────────────────────


@dataclass
class Process:
    """A follower's process: what it has, whatever the leader knows."""

    has: int
    connected: bool = False


class Replicas(RuleBasedStateMachine):
    """The Lease has what the last write that happened put there. Writes happen or not, and their answers come or not:
    the leader learns only of those whose answer comes. Deliveries go as far as the leader allows."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.newest = self.delivered = 0
        self.leader = InSync(PATIENCE, newest=0, rest=REST)
        self.lease: frozenset[str] = frozenset()
        self.processes = {run: Process(0) for run in RUNS}

    @rule(count=st.integers(1, 3))
    def commits(self, count: int) -> None:
        for _ in range(count):
            self.newest += 1
            self.leader.committed(self.newest, self.now)

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 6.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.leader.look(self.now)

    @rule(run=st.sampled_from(RUNS))
    def connects(self, run: str) -> None:
        process = self.processes[run]
        if not process.connected:
            process.connected = True
            self.leader.connected(run, process.has, self.now)

    @rule(run=st.sampled_from(RUNS), part=st.floats(0, 1))
    def applies(self, run: str, part: float) -> None:
        process = self.processes[run]
        if process.connected:
            process.has += round((self.newest - process.has) * part)

    @rule(run=st.sampled_from(RUNS))
    def acknowledges(self, run: str) -> None:
        process = self.processes[run]
        if process.connected:
            self.leader.acknowledged(run, process.has, self.now)

    @rule(run=st.sampled_from(RUNS))
    def is_cut_off(self, run: str) -> None:
        if self.processes[run].connected:
            self.processes[run].connected = False
            self.leader.disconnected(run)

    @rule(happens=st.booleans(), answered=st.booleans())
    def writes(self, happens: bool, answered: bool) -> None:
        runs = self.leader.writing()
        if happens:
            self.lease = runs
            if answered:
                self.leader.written(runs)

    @rule()
    def delivers(self) -> None:
        assert self.leader.replicated >= self.delivered
        self.delivered = self.leader.replicated

    @precondition(lambda self: self.lease)
    @invariant()
    def whoever_is_named_has_what_was_delivered(self) -> None:
        for run in self.lease:
            assert self.processes[run].has >= self.delivered

    @invariant()
    def nothing_waits_for_ever(self) -> None:
        """Whoever is waited for is connected, or the Lease is about to be written."""
        if self.leader.replicated < self.newest:
            assert self.leader.must_write or any(each.connected for each in self.processes.values())


TestReplicas = Replicas.TestCase
