"""The guard against blunders: which ratios it makes, and when it fails."""

from __future__ import annotations

import json

import pytest

from benchmarks.meter import Figures
from benchmarks.quick import BASELINE, CPU, CPU_AT_RATE, MEMORY, TOLERATED, compare, ratios


def test_ratios_are_to_the_floor_of_the_same_round() -> None:
    figures: dict[str, Figures] = {
        "bridge": {"cpu_us": 50.0, "rate_cpu_us": 300.0, "rest_bytes": 120e6},
        "floor": {"cpu_us": 12.5, "rate_cpu_us": 150.0, "rest_bytes": 80e6},
        "floor without Kafka": {"rest_bytes": 40e6},
    }

    assert ratios(figures) == {CPU: 4.0, CPU_AT_RATE: 2.0, MEMORY: 3.0}


def test_the_median_round_is_compared_with_what_is_committed() -> None:
    [check] = compare([{CPU: 4.0}, {CPU: 40.0}, {CPU: 6.0}], {CPU: 4.0})

    assert (check.ratio, check.times, check.passes) == (6.0, 1.5, True)


@pytest.mark.parametrize(("ratio", "passes"), [(0.1, True), (4.0 * TOLERATED, True), (4.0 * TOLERATED + 0.01, False)])
def test_it_fails_only_above_the_tolerated_multiple(ratio: float, passes: bool) -> None:
    [check] = compare([{CPU: ratio}], {CPU: 4.0})

    assert check.passes is passes


def test_two_bad_rounds_of_five_do_not_fail_and_three_do() -> None:
    good, bad = {CPU: 4.0}, {CPU: 40.0}

    assert compare([good, bad, good, bad, good], {CPU: 4.0})[0].passes
    assert not compare([bad, good, bad, good, bad], {CPU: 4.0})[0].passes


def test_a_ratio_that_is_not_committed_is_an_error() -> None:
    with pytest.raises(LookupError):
        compare([{"new": 1.0}], {CPU: 4.0})


def test_what_is_committed_is_what_is_measured() -> None:
    assert set(json.loads(BASELINE.read_text())) == {CPU, CPU_AT_RATE, MEMORY}
