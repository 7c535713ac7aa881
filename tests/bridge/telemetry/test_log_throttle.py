from __future__ import annotations

from bridge.telemetry.log_throttle import PERIOD, LogThrottle
from tests.kit.virtual_time import StandingClock


def test_a_repeated_failure_is_logged_once_a_period_with_a_count() -> None:
    clock = StandingClock()
    repeats = LogThrottle(clock)
    assert [repeats.tell("audit", "no broker") for _ in range(4)] == [1, None, None, None]
    clock.now += PERIOD
    assert repeats.tell("audit", "no broker") == 4
    assert repeats.tell("audit", "no broker") is None


def test_another_reason_and_another_subject_are_told_at_once() -> None:
    repeats = LogThrottle(StandingClock())
    told = [
        repeats.tell("audit", "no broker"),
        repeats.tell("audit", "not authorized"),
        repeats.tell("hook", "no broker"),
    ]
    assert told == [1, 1, 1]


def test_numbers_do_not_make_another_reason() -> None:
    repeats = LogThrottle(StandingClock())
    assert [repeats.tell("audit", f"no answer from 127.0.0.1:{port}") for port in (1, 22, 333)] == [1, None, None]


def test_the_end_of_a_failure_is_logged_once_where_it_was() -> None:
    repeats = LogThrottle(StandingClock())
    assert not repeats.over("audit")
    repeats.tell("audit", "no broker")
    assert [repeats.over("audit"), repeats.over("audit")] == [True, False]


def test_a_flapping_failure_is_logged_no_more_than_a_lasting_one() -> None:
    clock = StandingClock()
    repeats = LogThrottle(clock)
    told = []
    for _ in range(60):
        told.append((repeats.tell("audit", "no broker"), repeats.over("audit")))
        clock.now += 1
    assert [each for each in told if each != (None, False)] == [(1, True), (30, True)]


def test_reasons_without_end_do_not_fill_the_memory() -> None:
    repeats = LogThrottle(StandingClock())
    for letter in range(1000):
        repeats.tell("audit", f"reason {'x' * letter}")
    assert len(repeats._subjects["audit"].failures) <= 16
