from __future__ import annotations

from bridge.telemetry.fact_log import PERIOD, LogThrottle
from tests.kit.virtual_time import StandingClock


def test_a_repeated_failure_is_logged_once_a_period_with_a_count() -> None:
    clock = StandingClock()
    throttle = LogThrottle(clock)
    assert [throttle.due("audit", "no broker") for _ in range(4)] == [1, None, None, None]
    clock.now += PERIOD
    assert throttle.due("audit", "no broker") == 4
    assert throttle.due("audit", "no broker") is None


def test_another_reason_and_another_subject_are_reported_at_once() -> None:
    throttle = LogThrottle(StandingClock())
    logged = [
        throttle.due("audit", "no broker"),
        throttle.due("audit", "not authorized"),
        throttle.due("hook", "no broker"),
    ]
    assert logged == [1, 1, 1]


def test_numbers_do_not_make_another_reason() -> None:
    throttle = LogThrottle(StandingClock())
    assert [throttle.due("audit", f"no answer from 127.0.0.1:{port}") for port in (1, 22, 333)] == [1, None, None]


def test_the_end_of_a_failure_is_logged_once_where_it_was() -> None:
    throttle = LogThrottle(StandingClock())
    assert not throttle.over("audit")
    throttle.due("audit", "no broker")
    assert [throttle.over("audit"), throttle.over("audit")] == [True, False]


def test_a_flapping_failure_is_logged_no_more_than_a_lasting_one() -> None:
    clock = StandingClock()
    throttle = LogThrottle(clock)
    logged = []
    for _ in range(60):
        logged.append((throttle.due("audit", "no broker"), throttle.over("audit")))
        clock.now += 1
    assert [each for each in logged if each != (None, False)] == [(1, True), (30, True)]


def test_reasons_without_end_do_not_fill_the_memory() -> None:
    throttle = LogThrottle(StandingClock())
    for letter in range(1000):
        throttle.due("audit", f"reason {'x' * letter}")
    assert len(throttle._subjects["audit"].failures) <= 16
