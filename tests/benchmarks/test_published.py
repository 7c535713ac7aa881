"""What is published is what was measured."""

from __future__ import annotations

from pathlib import Path

from benchmarks.costs import in_words, table
from benchmarks.picture import cpu_picture
from benchmarks.report import markdown, summary
from benchmarks.results import Results

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "benchmarks/results"


def test_report_picture_and_readme_are_made_of_the_figures() -> None:
    results = Results.read(PUBLISHED / "results.json")

    assert (PUBLISHED / "results.md").read_text(encoding="utf-8") == markdown(results)
    assert (PUBLISHED / "cpu.svg").read_text(encoding="utf-8") == cpu_picture(results)
    assert summary(results) in (ROOT / "README.md").read_text(encoding="utf-8")
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert all(words in readme for words in in_words(results))
    assert table(results) in (ROOT / "docs/performance.md").read_text(encoding="utf-8")
