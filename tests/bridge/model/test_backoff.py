"""How long to wait before the next attempt."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bridge.model.primitives.backoff import Backoff, PollInterval

chances = st.floats(0, 1, exclude_max=True)


def ceilings(backoff: Backoff, times: int, pause: float = 0.0) -> list[float]:
    """The longest waits of a row of failures, each attempt ``pause`` seconds long."""
    now, found = 1000.0, []
    for _ in range(times):
        delay = backoff.next(now, 1.0)
        found.append(delay)
        now += delay + pause
    return found


def test_the_ceiling_doubles_up_to_the_maximum() -> None:
    assert ceilings(Backoff(), 8) == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])


def test_an_outage_of_hours_does_not_reset_it() -> None:
    assert set(ceilings(Backoff(), 1000)[6:]) == {30.0}


@pytest.mark.parametrize(("quiet", "expected"), [(119.0, 3.2), (121.0, 0.8)])
def test_only_quiet_time_after_a_wait_resets_it(quiet: float, expected: float) -> None:
    backoff = Backoff()
    backoff.next(1000.0, 1.0)
    end = 1000.8 + backoff.next(1000.8, 1.0)

    assert backoff.next(end + quiet, 1.0) == pytest.approx(expected)


def test_the_other_side_being_well_again_resets_it() -> None:
    backoff = Backoff()
    ceilings(backoff, 5)
    backoff.reset()

    assert backoff.next(1020.0, 1.0) == 0.8


@given(st.lists(st.tuples(chances, st.none() | st.floats(0, 1000), st.floats(0, 300)), max_size=50))
def test_a_wait_is_jittered_at_least_as_asked_and_bounded(
    failures: list[tuple[float, float | None, float]],
) -> None:
    backoff, now, ceiling = Backoff(), 0.0, 0.0
    quiet = float("inf")
    for chance, at_least, pause in failures:
        assume(abs(pause - 120) > 1e-6)  # A sum of floats may fall on either side of the very edge.
        ceiling = 0.8 if quiet > 120 else min(ceiling * 2, 30)
        delay = backoff.next(now, chance, at_least)
        assert delay == pytest.approx(ceiling * chance + (at_least or 0.0))
        now += delay + pause
        quiet = pause


def test_looks_become_rare_while_nothing_changes() -> None:
    interval = PollInterval(0.25, 1.0)
    seconds = [interval.seconds]
    for changed in (False, False, False, True, False):
        interval.looked(changed=changed)
        seconds.append(interval.seconds)

    assert seconds == [0.25, 0.5, 1.0, 1.0, 0.25, 0.5]
