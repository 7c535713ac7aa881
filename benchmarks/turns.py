"""Alternatives measured in turns, in one run: what the machine does meanwhile meets all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.build import CannotBuild
from benchmarks.contenders import Contender
from benchmarks.runs import Around, stream, turned
from benchmarks.servers import Load, brokers

TURNS, REPEATS = 200, 100
LOAD, EVENTS = Load(pods=10_000), 20_000


def microseconds(cases: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """CPU time of a call, the best of several turns."""
    best = dict.fromkeys(cases, float("inf"))
    for turn in range(TURNS):
        for name in turned(list(cases), turn):
            start = time.process_time()
            for _ in range(REPEATS):
                cases[name]()
            best[name] = min(best[name], (time.process_time() - start) / REPEATS * 1e6)
    return best


def print_calls(cases: Mapping[str, Callable[[], object]]) -> None:
    for name, cpu in microseconds(cases).items():
        print(f"{name:28} {cpu:7.1f} us")


def print_bridges(contenders: Callable[[Path], Mapping[str, Contender]], rounds: int) -> float | None:
    """Prints the CPU per event of two whole bridges, round by round. Returns the median ratio of the second to the
    first; None without rounds, or where something cannot be built. ``contenders`` gets a folder for files."""
    ratios = []
    try:
        for figures in _rounds(contenders, rounds) if rounds else ():
            first, second = figures.values()
            ratios.append(second / first)
            print(", ".join(f"{name} {cpu:.1f} us per event" for name, cpu in figures.items()), flush=True)
    except CannotBuild as error:
        print(f"left out: {error}")
    return statistics.median(ratios) if ratios else None


def _rounds(contenders: Callable[[Path], Mapping[str, Contender]], rounds: int) -> Iterator[dict[str, float]]:
    with TemporaryDirectory(prefix="kubedelta-bench-") as folder, brokers(Path(folder), print) as shared:
        made = contenders(Path(folder))
        for number in range(rounds):
            figures = {}
            for name in turned(list(made), number):
                with TemporaryDirectory(dir=folder) as own:
                    figures[name] = stream(Around(Path(own), shared), made[name], LOAD, EVENTS)["cpu_us"]
            yield {name: figures[name] for name in made}
