"""Results: medians over rounds, ratios of medians, and what is missing stays missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.results import Measured, Results


def test_the_median_counts_and_rounds_without_the_figure_do_not() -> None:
    measured = Measured(rounds=[{"cpu_us": 30.0}, {"cpu_us": 90.0}, {"cpu_us": 40.0}, {"wall_seconds": 1.0}])

    assert measured.median("cpu_us") == 40.0
    assert measured.median("peak_bytes") is None


def test_a_ratio_is_of_two_medians() -> None:
    results = a_result({"ours": [20.0, 10.0, 30.0], "theirs": [200.0, 100.0, 900.0]})

    assert results.ratio(("kafka", "ours", "cpu_us"), ("kafka", "theirs", "cpu_us")) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "under", [("kafka", "nobody", "cpu_us"), ("nowhere", "ours", "cpu_us"), ("kafka", "ours", "wall_seconds")]
)
def test_a_ratio_to_what_was_not_measured_is_none(under: tuple[str, str, str]) -> None:
    assert a_result({"ours": [20.0]}).ratio(("kafka", "ours", "cpu_us"), under) is None


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    results = a_result({"ours": [20.0, 10.0]})
    results.of("kafka", "theirs").failures.append("it ended with 1")
    results.notes["kafka"] = "beside other work"
    results.write(tmp_path / "results.json")

    assert Results.read(tmp_path / "results.json") == results


def a_result(cpu: dict[str, list[float]]) -> Results:
    results = Results({"rounds": 3}, {"kafka": "To Kafka"})
    for name, values in cpu.items():
        results.of("kafka", name).rounds += [{"cpu_us": value} for value in values]
    return results
