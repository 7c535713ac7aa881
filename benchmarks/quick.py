"""A guard against blunders, in under two minutes and without peers: what the bridge adds to the floor.

    python -m benchmarks.quick [--rounds N] [--events N] [--update]

The floor is measured in the same run, in turns with the bridge, so that a slow or busy machine slows both. The medians
of the ratios are compared with those in `baseline.json`; only one that is far above fails. `--update` writes them
there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.build import CannotBuild
from benchmarks.contenders import Bridge, Contender, Floor
from benchmarks.meter import Figures
from benchmarks.runs import Around, at_rest, follow, running, turned
from benchmarks.servers import Brokers, Load, brokers

BASELINE = Path(__file__).parent / "baseline.json"
TOLERATED = 1.6
"""Times the committed ratio. Machines differ by less, blunders make more."""

LOAD = Load(pods=30_000)
"""So many that a bridge which kept bodies in memory would be noticed."""
EVENTS = 10_000
SETTLE = 1.0
RATE, EVENTS_AT_RATE = 500, 1_000
"""Events a second that follow, and their number."""

CPU = "CPU per event to Kafka"
CPU_AT_RATE = f"CPU per event to Kafka at {RATE} a second"
MEMORY = "memory with 30,000 objects"
"""The floor of memory only receives: what a producer holds differs from run to run."""

CONTENDERS: Mapping[str, Contender] = {
    "bridge": Bridge("kafka"),
    "floor": Floor(kafka=True),
    "floor without Kafka": Floor(kafka=False),
}
MEMORY_ALONE = "floor without Kafka"
"""Measured with all objects, and ended."""


@dataclass(frozen=True, slots=True)
class Check:
    what: str
    ratio: float
    """The median over all rounds."""
    committed: float

    @property
    def times(self) -> float:
        """The committed ratio is now so many times as large."""
        return self.ratio / self.committed

    @property
    def passes(self) -> bool:
        return self.times <= TOLERATED


def compare(rounds: Sequence[Mapping[str, float]], baseline: Mapping[str, float]) -> list[Check]:
    """The medians of each ratio against what is committed. Raises LookupError for a ratio that is not."""
    return [Check(what, statistics.median(each[what] for each in rounds), baseline[what]) for what in rounds[0]]


def ratios(figures: Mapping[str, Figures]) -> dict[str, float]:
    """Of one round, by contender."""
    bridge, floor, receiving = (figures[name] for name in CONTENDERS)
    return {
        CPU: bridge["cpu_us"] / floor["cpu_us"],
        CPU_AT_RATE: bridge["rate_cpu_us"] / floor["rate_cpu_us"],
        MEMORY: bridge["rest_bytes"] / receiving["rest_bytes"],
    }


def main() -> int:
    chosen = _arguments().parse_args()
    try:
        found = list(_rounds(chosen.rounds, chosen.events))
    except CannotBuild as error:
        print(f"left out, nothing was compared: {error}")
        return 0
    if chosen.update:
        medians = {what: round(statistics.median(each[what] for each in found), 2) for what in found[0]}
        BASELINE.write_text(json.dumps(medians, indent=2) + "\n")
    checks = compare(found, json.loads(BASELINE.read_text()))
    for check in checks:
        verdict = "fine" if check.passes else f"more than {TOLERATED} times the committed ratio"
        print(
            f"{check.what}: {check.ratio:.2f} times the floor's, committed {check.committed:.2f}, "
            f"now {check.times:.2f} times that: {verdict}"
        )
    return 0 if all(check.passes for check in checks) else 1


def _rounds(rounds: int, events: int) -> Iterator[dict[str, float]]:
    """Raises CannotBuild."""
    with TemporaryDirectory(prefix="kubedelta-bench-") as folder, brokers(Path(folder), print) as shared:
        for number in range(rounds):
            figures = _round(number, Path(folder), shared, events)
            print(f"round {number + 1}: {_in_words(figures)}", flush=True)
            yield ratios(figures)


def _round(number: int, folder: Path, shared: Brokers, events: int) -> dict[str, Figures]:
    """Who is first changes with each round."""
    figures = {}
    for name in turned(list(CONTENDERS), number):
        with TemporaryDirectory(dir=folder) as own:
            figures[name] = _figures(Around(Path(own), shared), name, events)
    return figures


def _figures(around: Around, name: str, events: int) -> Figures:
    """One process: the list, events at full speed, and events at a rate."""
    place, records = around.place(LOAD), LOAD.objects + events
    with place.server, running(CONTENDERS[name], place, records + EVENTS_AT_RATE) as run:
        run.arrive(LOAD.objects)
        figures = at_rest(run, SETTLE)
        if name == MEMORY_ALONE:
            return figures
        figures |= follow(run, LOAD.objects, events, 0, SETTLE)
        figures["rate_cpu_us"] = follow(run, records, EVENTS_AT_RATE, RATE, SETTLE)["cpu_us"]
        run.end()
        return figures


def _in_words(figures: Mapping[str, Figures]) -> str:
    bridge, floor, receiving = (figures[name] for name in CONTENDERS)
    added = (bridge["rest_bytes"] - receiving["rest_bytes"]) / LOAD.objects
    return (
        f"CPU {bridge['cpu_us']:.1f} µs per event, the floor {floor['cpu_us']:.1f}; "
        f"at {RATE} a second {bridge['rate_cpu_us']:.0f} µs, the floor {floor['rate_cpu_us']:.0f}; "
        f"memory {bridge['rest_bytes'] / 1e6:.0f} MB, {added:,.0f} bytes per object above the floor"
    )


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quick", description="Compare with the committed ratios."
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--update", action="store_true", help="commit to what is measured now")
    return parser


if __name__ == "__main__":
    sys.exit(main())
