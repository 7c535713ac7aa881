"""What clusters cost, by their number of changes a second: a table made of the rate cases.

python -m benchmarks.costs [--results FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.cases import BRIDGE, FLOOR, RATES
from benchmarks.report import lines
from benchmarks.results import Results

PUBLISHED = Path(__file__).parent / "results" / "results.json"

Cell = Callable[[Results, int], str]


def table(results: Results) -> str:
    """A column for each rate; a cell without a measured figure is a dash."""
    headings = ["changes a second", *(f"{rate:,}" for rate in RATES)]
    return "\n".join(lines(headings, [[name, *(cell(results, rate) for rate in RATES)] for name, cell in ROWS.items()]))


def _per_second(figure: str, scale: float, digits: int) -> Cell:
    """A figure of one event times the rate."""
    return _figure(BRIDGE, figure, digits, lambda value, rate: value * rate * scale)


def _cores(contender: str) -> Cell:
    return _figure(contender, "cpu_us", 2, lambda value, rate: value * rate / 1e6)


def _figure(contender: str, figure: str, digits: int, scaled: Callable[[float, int], float]) -> Cell:
    def cell(results: Results, rate: int) -> str:
        value = results.median(f"rate-{rate}", contender, figure)
        return "–" if value is None else f"{scaled(value, rate):,.{digits}f}"

    return cell


def _latency(percentile: str) -> Cell:
    figure = f"latency_{percentile}_ms"

    def cell(results: Results, rate: int) -> str:
        case = f"rate-{rate}"
        value, times = (
            results.median(case, BRIDGE, figure),
            results.ratio((case, BRIDGE, figure), (case, FLOOR, figure)),
        )
        return "–" if value is None or times is None else f"{value:.1f} ({times:.1f}×)"

    return cell


ROWS: Mapping[str, Cell] = {
    "cores, to Kafka": _cores(BRIDGE),
    "cores, to NATS": _cores(f"{BRIDGE} to nats"),
    "cores, to a file": _cores(f"{BRIDGE} to file"),
    "cores, to a webhook": _cores(f"{BRIDGE} to webhook"),
    "memory with 10,000 pods, MB": _figure(BRIDGE, "rest_bytes", 0, lambda value, _: value / 1e6),
    "written to disk, KB a second": _per_second("written_bytes", 1e-3, 0),
    "fsyncs a second": _per_second("fsyncs", 1, 0),
    "latency, median, ms (against the floor)": _latency("p50"),
    "latency, 99th percentile, ms": _latency("p99"),
    **{f"cores of {name}": _cores(name) for name in ("kube-rs", "client-go typed", "client-go dynamic", FLOOR)},
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description="Print what clusters cost.")
    parser.add_argument("--results", type=Path, default=PUBLISHED, metavar="FILE")
    print(table(Results.read(parser.parse_args().results)))


if __name__ == "__main__":
    main()
