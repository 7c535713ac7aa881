"""Goals: what is compared with what, and when one is met."""

from __future__ import annotations

import pytest

from benchmarks.cases import BRIDGE, FLOOR, Scale, cases
from benchmarks.goals import GOALS, Judged, judge, spread, steepening
from benchmarks.results import Results


def test_spread_is_what_the_largest_has_above_the_smallest() -> None:
    assert spread([50.0, 40.0, 44.0]) == pytest.approx(0.25)
    assert spread([40.0, 40.0]) == 0


def test_a_straight_line_steepens_by_nothing() -> None:
    assert steepening([1, 10, 100], [12.0, 21.0, 111.0]) == pytest.approx(1)


def test_a_curve_that_bends_upwards_steepens() -> None:
    assert steepening([1, 2, 3], [1.0, 2.0, 5.0]) == pytest.approx(1.5)


def test_nothing_is_judged_of_what_was_not_measured() -> None:
    assert [each.met for each in judge(Results({}, {}))] == [None] * len(GOALS)


@pytest.mark.parametrize(("ours", "met"), [(65.9, True), (66.0, True), (66.1, False)])
def test_a_goal_is_met_up_to_its_limit(ours: float, met: bool) -> None:
    results = Results({}, {})
    results.of("kafka", BRIDGE).rounds.append({"cpu_us": ours})
    results.of("kafka", "client-go dynamic").rounds.append({"cpu_us": 660.0})

    assert the(results, "client-go's dynamic informer").met is met


def test_growth_is_judged_in_the_order_of_sizes() -> None:
    results = Results({}, {})
    for name, cpu, memory in (
        ("300000 objects", 44.0, 400e6),
        ("1000 objects", 40.0, 101e6),
        ("10000 objects", 42.0, 110e6),
    ):
        results.of("growth", name).rounds.append({"cpu_us": cpu, "rest_bytes": memory})

    assert the(results, "spread").value == pytest.approx(0.1)
    assert the(results, "Memory per object").value == pytest.approx(1, abs=0.01)


def test_judged_latency_ends_with_the_acknowledgement() -> None:
    results = Results({}, {})
    results.of("rate-500", BRIDGE).rounds.append({"latency_p50_ms": 7, "latency_p99_ms": 13, "acknowledged_ms": 2})

    assert [each.value for each in judge(results) if "Latency at" in each.goal.what] == [9, 15]


def test_every_goal_is_about_cases_and_contenders_that_there_are() -> None:
    """With figures for all contenders of all cases, every goal has a value."""
    figures = dict.fromkeys(FIGURES, 1.0)
    results = Results({}, {})
    for case in cases(Scale()):
        for number, name in enumerate(case.contenders, 1):
            results.of(case.name, name).rounds.append({name: value * number for name, value in figures.items()})

    assert [each.goal.what for each in judge(results) if each.value is None] == []
    assert FLOOR in cases(Scale())[0].contenders


FIGURES = (
    "acknowledged_ms",
    "cpu_us",
    "cpu_us_per_kb",
    "core_share",
    "fsyncs",
    "list_cpu_us_per_kb",
    "list_seconds",
    "lists_after_restart",
    "latency_p50_ms",
    "latency_p99_ms",
    "peak_bytes",
    "rest_bytes",
    "start_seconds",
    "watching_seconds",
    "whole_cpu_us",
)


def the(results: Results, words: str) -> Judged:
    [found] = [each for each in judge(results) if words in each.goal.what and each.value is not None]
    return found
