"""How long to wait before the next attempt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.primitives.backoff import Backoff, PollInterval

chances = st.floats(0, 1, exclude_max=True)


@given(
    st.lists(
        st.tuples(
            chances,
            st.none() | st.floats(0, 1000),
            st.sampled_from([0.0, 0.0, 1.0, 119.0, 121.0]),
            st.sampled_from([False] * 9 + [True]),
        ),
        max_size=50,
    )
)
def test_ceilings_double_until_a_success_or_a_quiet_time_behind_a_wait(
    failures: list[tuple[float, float | None, float, bool]],
) -> None:
    """A wait is jittered, and at least as long as the server asked."""
    backoff, now, ceiling = Backoff(), 0.0, 0.0
    quiet = float("inf")
    for chance, at_least, pause, succeeded in failures:
        ceiling = 0.8 if quiet > 120 else min(ceiling * 2, 30)
        delay = backoff.next(now, chance, at_least)
        assert delay == pytest.approx(ceiling * chance + (at_least or 0.0))
        now += delay + pause
        quiet = pause
        if succeeded:
            backoff.reset()
            quiet = float("inf")


def test_an_outage_of_hours_keeps_the_ceiling_at_its_maximum() -> None:
    backoff, now, waits = Backoff(), 1000.0, list[float]()
    for _ in range(1000):
        waits.append(backoff.next(now, 1.0))
        now += waits[-1]

    assert waits[:6] == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6])
    assert set(waits[6:]) == {30.0}


def test_looks_become_rare_while_nothing_changes() -> None:
    interval = PollInterval(0.25, 1.0)
    seconds = [interval.seconds]
    for changed in (False, False, False, True, False):
        interval.looked(changed=changed)
        seconds.append(interval.seconds)

    assert seconds == [0.25, 0.5, 1.0, 1.0, 0.25, 0.5]
