"""What is published is what was measured."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cases import BRIDGE, EXACTLY_ONCE, FOLLOWER, LEADER
from benchmarks.costs import table
from benchmarks.picture import cpu_picture
from benchmarks.report import lines, markdown, summary
from benchmarks.results import Results

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "benchmarks/results"
REPLICAS_AND_TRANSACTIONS = {
    "a single bridge, to Kafka": ("election", BRIDGE),
    "a leader with a follower": ("election", LEADER),
    "the follower": ("election", FOLLOWER),
    "a single bridge, to a reader of committed records": ("exactly-once", BRIDGE),
    "the same with [`exactly_once`](sinks/kafka.md#exactly-once)": ("exactly-once", EXACTLY_ONCE),
}
"""Rows of the table: case, and contender."""


def test_report_picture_and_readme_are_made_of_the_figures() -> None:
    results = Results.read(PUBLISHED / "results.json")

    assert (PUBLISHED / "results.md").read_text(encoding="utf-8") == markdown(results)
    assert (PUBLISHED / "cpu.svg").read_text(encoding="utf-8") == cpu_picture(results)
    assert summary(results) in (ROOT / "README.md").read_text(encoding="utf-8")
    assert table(results) in (ROOT / "docs/performance.md").read_text(encoding="utf-8")


def test_the_table_of_replicas_is_made_of_the_figures() -> None:
    results = Results.read(PUBLISHED / "results.json")
    latency = "latency there, median / 99th percentile, ms"
    headings = ["", "µs of CPU per event at full speed", "at 500 a second", latency]
    rows = [[name, *cells(results, *which)] for name, which in REPLICAS_AND_TRANSACTIONS.items()]

    assert "\n".join(lines(headings, rows)) in (ROOT / "docs/performance.md").read_text(encoding="utf-8")


def cells(results: Results, case: str, contender: str) -> list[str]:
    """CPU time in both cases, and latency at 500 events a second; "–" for what was not measured yet. A follower
    delivers nothing: the latency of its runs is that of the leader beside it."""

    def shown(case: str, figure: str, digits: int) -> str:
        value = results.median(case, contender, figure)
        return "–" if value is None else f"{value:.{digits}f}"

    slow = f"{case}-500"
    latency = " / ".join(shown(slow, f"latency_{percentile}_ms", 1) for percentile in ("p50", "p99"))
    return [shown(case, "cpu_us", 1), shown(slow, "cpu_us", 0), "–" if contender == FOLLOWER else latency]
