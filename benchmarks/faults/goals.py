"""The goals of the report. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil

from benchmarks.faults.counting import Counts
from benchmarks.faults.destinations import FENCED, KAFKA, ONCE, WEBHOOK
from benchmarks.faults.results import Measured, Results


def percentile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that is at least as large as this share of all; None of no values."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


_KILLS = ("kill", "empty-disk", "cut-replicas", "base-copy", "full-disk", "compaction", "dead-sink", "brokers")
"""Faults in which leaders are killed."""


@dataclass(frozen=True, slots=True)
class Goal:
    what: str
    at_most: float
    unit: str
    value: Callable[[Results], float | None]


def _sum(figure: Callable[[Counts], int], *sinks: str, fault: str = "") -> Callable[[Results], float | None]:
    """Over all faults, or of this one; None where nothing was measured."""

    def value(results: Results) -> float | None:
        found = [
            figure(counts)
            for named, measured in results.faults.items()
            if fault in ("", named)
            for name, counts in measured.sinks.items()
            if not sinks or name in sinks
        ]
        return sum(found) if found else None

    return value


def _silence(fault: str, share: float) -> Callable[[Results], float | None]:
    """Over all destinations."""
    return lambda results: percentile(silences(results.faults.get(fault, Measured()).sinks.values()), share)


def silences(sinks: Iterable[Counts]) -> list[float]:
    return [each for counts in sinks for each in counts.silences]


def _oldest(results: Results) -> float | None:
    found = [results.faults.get(fault, Measured()) for fault in _KILLS]
    return percentile((each for kill in found for counts in kill.sinks.values() for each in counts.ages), 1)


GOALS = (
    Goal("Steps lost", 0, "", _sum(lambda counts: counts.lost)),
    Goal("Records disordered, or other than the history", 0, "", _sum(lambda each: each.disordered + each.untrue)),
    Goal("Stale records in fenced destinations", 0, "", _sum(lambda counts: counts.stale, *FENCED)),
    Goal(
        "Steps that readers of the topic with exactly once saw again",
        0,
        "",
        _sum(lambda counts: counts.repeated + counts.renamed, ONCE),
    ),
    Goal("Repeated with other ids", 0, "", _sum(lambda counts: counts.renamed, KAFKA, WEBHOOK, *FENCED)),
    Goal("Time without deliveries after a kill, 99th percentile", 18, "s", _silence("kill", 0.99)),
    Goal("After SIGTERM, longest", 2, "s", _silence("terminate", 1)),
    Goal("Records repeated after SIGTERM", 0, "", _sum(lambda counts: counts.repeated, fault="terminate")),
    Goal("Oldest repeated record at a kill, since it was settled", 1, "s", _oldest),
)
