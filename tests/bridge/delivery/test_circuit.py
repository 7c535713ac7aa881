"""When a sink may be tried."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from bridge.delivery.circuit import Circuit, Closed, HalfOpen, Open, Retry

RETRY = Retry(initial=1.0, maximum=8.0, failures=3)
NEVER = math.inf


def test_failures_in_a_row_open_it_and_a_success_resets_them() -> None:
    circuit = Circuit(RETRY)
    opened = [circuit.failed(circuit.begin(), now, 0.5).opened for now in (0.0, 1.0)]
    circuit.succeeded(circuit.begin(), 2.0)
    opened += [circuit.failed(circuit.begin(), now, 0.5).opened for now in (3.0, 4.0, 5.0)]

    assert opened == [False, False, False, False, True]
    assert circuit.state == Open(since=5.0, until=7.0, failures=3)


def test_the_successful_attempt_closes_it_and_reports_the_outage() -> None:
    circuit = Circuit(RETRY)
    circuit.failed(circuit.begin(), 10.0, 0.5, unavailable=True)

    assert circuit.succeeded(circuit.begin(), 12.0) == 2.0
    assert circuit.state == Closed()
    assert circuit.ready_at == -NEVER
    assert circuit.succeeded(circuit.begin(), 13.0) is None


def test_the_attempt_that_fails_opens_it_for_longer() -> None:
    circuit = Circuit(RETRY)
    now, pauses = 0.0, []
    circuit.failed(circuit.begin(), now, 0.5, unavailable=True)
    for _ in range(5):
        pauses.append(circuit.ready_at - now)
        now = circuit.ready_at
        assert not circuit.failed(circuit.begin(), now, 0.5).opened, "it was open already"

    assert pauses == [0.5, 1.0, 2.0, 4.0, 4.0]
    assert circuit.state == Open(since=0.0, until=now + 4.0, failures=6)


def test_one_thing_that_fails_again_and_again_does_not_open_it() -> None:
    circuit = Circuit(RETRY)
    for now in range(20):
        circuit.failed(circuit.begin(), float(now), 0.5, lane="a")
    assert circuit.state == Closed(1, frozenset({"a"}))

    circuit.failed(circuit.begin(), 20.0, 0.5, lane="b")
    assert circuit.failed(circuit.begin(), 21.0, 0.5, lane="c").opened


def test_one_object_opens_it_when_the_whole_delivery_fails() -> None:
    circuit = Circuit(RETRY)
    circuit.failed(circuit.begin(), 0.0, 0.5, lane="a")

    assert circuit.failed(circuit.begin(), 1.0, 0.5, lane="a", unavailable=True).opened


def test_what_began_before_it_opened_decides_nothing() -> None:
    circuit = Circuit(RETRY)
    early = [circuit.begin() for _ in range(4)]
    circuit.failed(early[0], 0.0, 0.5, unavailable=True)

    assert circuit.succeeded(early[1], 0.1) is None
    circuit.failed(early[2], 0.2, 0.5, unavailable=True)
    assert circuit.state == Open(since=0.0, until=0.5, failures=1)
    trial = circuit.begin()
    circuit.failed(early[3], 0.6, 0.5, unavailable=True)
    assert isinstance(circuit.state, HalfOpen)
    assert circuit.succeeded(trial, 0.7) == 0.7


def test_an_attempt_that_asked_for_nothing_leaves_its_place() -> None:
    circuit = Circuit(RETRY)
    early = circuit.begin()
    circuit.failed(circuit.begin(), 0.0, 0.5, unavailable=True)
    opened = circuit.state
    circuit.withdraw(early, 0.2)
    assert circuit.state == opened

    circuit.withdraw(circuit.begin(), 0.7)
    assert circuit.state == Open(since=0.0, until=0.7, failures=1)


def test_attempts_from_before_it_opened_only_lengthen_the_pause() -> None:
    circuit = Circuit(RETRY)
    first, second, third = (circuit.begin() for _ in range(3))
    circuit.failed(first, 0.0, 0.0, at_least=5.0, unavailable=True)
    circuit.failed(second, 1.0, 0.0, at_least=20.0, unavailable=True)
    circuit.failed(third, 2.0, 0.0, at_least=1.0, unavailable=True)

    assert circuit.ready_at == 21.0


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 0.999)), max_size=60))
def test_an_open_circuit_has_one_attempt_and_none_too_early(
    outcomes: list[tuple[bool, bool, float]],
) -> None:
    circuit = Circuit(RETRY)
    now = 0.0
    for good, unavailable, jitter in outcomes:
        now = max(now, circuit.ready_at)
        was_open = isinstance(circuit.state, Open)
        attempt = circuit.begin()
        assert (circuit.ready_at == NEVER) is was_open
        assert str(circuit.name) == ("half-open" if was_open else "closed")
        if good:
            closed = circuit.succeeded(attempt, now)
            assert (closed is not None) is was_open
            assert circuit.state == Closed()
        else:
            opened = circuit.failed(attempt, now, jitter, unavailable=unavailable).opened
            assert isinstance(circuit.state, Open) is (was_open or opened)
            if isinstance(circuit.state, Open):
                assert str(circuit.name) == "open"
                assert now <= circuit.ready_at <= now + RETRY.maximum
