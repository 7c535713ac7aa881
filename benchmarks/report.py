"""Results as Markdown: the goals, and a table for each case. Medians everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.cases import BRIDGE
from benchmarks.goals import Judged, judge
from benchmarks.results import Measured, Results


@dataclass(frozen=True, slots=True)
class Column:
    heading: str
    show: Callable[[float], str]


def _number(digits: int, scale: float = 1) -> Callable[[float], str]:
    return lambda value: f"{value * scale:,.{digits}f}"


COLUMNS: Mapping[str, Column] = {
    "cpu_us": Column("CPU µs per event", _number(1)),
    "cpu_us_per_kb": Column("CPU µs per KB received", _number(2)),
    "switches": Column("context switches per event", _number(1)),
    "whole_cpu_us": Column("whole run, CPU s per 1,000 records", _number(3, 1e-3)),
    "events_per_second": Column("events/s", _number(0)),
    "wall_seconds": Column("wall s", _number(1)),
    "list_seconds": Column("first list s", _number(2)),
    "list_cpu_seconds": Column("first list CPU s", _number(2)),
    "list_cpu_us_per_kb": Column("first list CPU µs per KB received", _number(2)),
    "list_server_left": Column("load server meanwhile, % of a core left", _number(0, 100)),
    "rest_bytes": Column("RSS at rest MB", _number(0, 1e-6)),
    "rest_bytes_per_object": Column("RSS bytes per object", _number(0)),
    "peak_bytes": Column("peak RSS MB", _number(0, 1e-6)),
    "received_bytes": Column("received MB", _number(0, 1e-6)),
    "server_left": Column("load server, % of a core left", _number(0, 100)),
    "latency_p50_ms": Column("p50 ms", _number(1)),
    "latency_p99_ms": Column("p99 ms", _number(1)),
    "written_bytes": Column("KB written to disk per event", _number(1, 1e-3)),
    "fsyncs": Column("fsyncs per event", _number(2)),
    "acknowledged_ms": Column("from handing over to the acknowledgement, mean ms", _number(1)),
    "watching_seconds": Column("start to watch s", _number(2)),
    "lists_after_restart": Column("lists after restart", _number(0)),
    "core_share": Column("% of a core", _number(2, 100)),
    "start_seconds": Column("start s", _number(3)),
}
"""Figures in the order of a table's columns; one without values has no column."""

RATIO_OF = ("cpu_us", "whole_cpu_us", "list_seconds", "start_seconds")
"""What the column of ratios compares: the first of these that the case has."""


def markdown(results: Results) -> str:
    """The whole report."""
    parts = ["# Measured", "", _about(results), "", "## Goals", "", *_goals(judge(results))]
    for case, title in results.titles.items():
        contenders = results.measured.get(case, {})
        if not contenders:
            continue
        parts += ["", f"## {title}", "", *table(contenders)]
        parts += [f"\n{results.notes[case]}"] if case in results.notes else []
        parts += [
            f"\n{name}: {failure.splitlines()[0]}" for name, each in contenders.items() for failure in each.failures
        ]
    return "\n".join(parts) + "\n"


SUMMED_UP = (
    ("kafka", "cpu_us", "CPU µs per event"),
    ("first-list", "list_seconds", "first list of 100,000 pods, s"),
    ("first-list", "rest_bytes", "memory after it, MB"),
)
"""Cases and figures that the README tells, and what it calls them."""


def summary(results: Results) -> str:
    """The table of the README: everyone who takes objects to Kafka, the cheapest per event first."""
    cheapest = sorted(
        (value, name)
        for name, each in results.measured.get("kafka", {}).items()
        if (value := each.median("cpu_us")) is not None and name in results.measured.get("first-list", {})
    )
    rows = [[name, *(_beside_ours(results, name, *which) for *which, _ in SUMMED_UP)] for _, name in cheapest]
    return "\n".join(lines(["", *(heading for *_, heading in SUMMED_UP)], rows))


def _beside_ours(results: Results, name: str, case: str, figure: str) -> str:
    value, ours = results.median(case, name, figure), results.median(case, BRIDGE, figure)
    if value is None or not ours:
        return "–"
    shown = COLUMNS[figure].show(value)
    return shown if name == BRIDGE else f"{shown} ({value / ours:.1f}×)"


def _about(results: Results) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in results.about.items())


def _goals(judged: list[Judged]) -> list[str]:
    rows = [
        [each.goal.what, _limit(each.goal.at_most, each.goal.unit), _value(each), _verdict(each.met)] for each in judged
    ]
    return lines(["", "at most", "measured", ""], rows)


def _limit(value: float, unit: str) -> str:
    text = (
        f"1/{1 / value:.0f}"
        if 0 < value <= 0.5 and not unit and abs(1 / value - round(1 / value)) < 0.01
        else f"{value:g}"
    )
    return f"{text} {unit}".strip()


def _value(judged: Judged) -> str:
    if judged.value is None:
        return "–"
    limit = _limit(judged.goal.at_most, judged.goal.unit)
    if limit.startswith("1/") and 0 < judged.value < 1:
        return f"1/{1 / judged.value:.1f}"
    return f"{judged.value:.2f} {judged.goal.unit}".strip()


def _verdict(met: bool | None) -> str:
    return {None: "not measured", True: "met", False: "**missed**"}[met]


def table(contenders: Mapping[str, Measured]) -> list[str]:
    """The lines of one case's table, with ratios to the bridge where there is one."""
    shown = [name for name in COLUMNS if any(each.median(name) is not None for each in contenders.values())]
    compared = next((name for name in RATIO_OF if name in shown and len(contenders) > 1), None)
    base = contenders[BRIDGE].median(compared) if compared and BRIDGE in contenders else None
    of = f"{COLUMNS[compared].heading}, against {BRIDGE}" if compared else ""
    headings = ["", "rounds", *([of] if base else []), *(COLUMNS[name].heading for name in shown)]
    rows = []
    for name, measured in contenders.items():
        ratio = measured.median(compared) if compared and base else None
        against = [f"{ratio / base:.2f}×" if ratio is not None and base else "–"] if base else []
        rows.append(
            [name, str(len(measured.rounds)), *against, *(_cell(measured.median(figure), figure) for figure in shown)]
        )
    return lines(headings, rows)


def _cell(value: float | None, figure: str) -> str:
    return "–" if value is None else COLUMNS[figure].show(value)


def lines(headings: list[str], rows: list[list[str]]) -> list[str]:
    """A table in Markdown, line by line; numbers stand at the right."""
    rule = ["---", *(["---:"] * (len(headings) - 1))]
    return [f"| {' | '.join(row)} |" for row in (headings, rule, *rows)]
