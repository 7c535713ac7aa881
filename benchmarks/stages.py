"""Where the CPU of one event goes, and who wakes up for it: the tables of `kubedelta run --profile-stages`.

    python -m benchmarks.stages [--rate N] [--events N] [--sink kafka]

Without a rate, events come at full speed, as in the case `kafka`. The tables cover the events alone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.build import CannotBuild
from benchmarks.contenders import Bridge
from benchmarks.processes import Child, ChildFailed
from benchmarks.runs import POLL_INTERVAL, SETTLE, STALL, Around, follow, running
from benchmarks.servers import Brokers, Load, brokers

LOAD = Load(pods=10_000)
EVENTS = 100_000
SECONDS = 10
"""Of events at a rate, unless their number is given."""

_TITLE = "Since the last profile"
_END = "all threads"


def main() -> int:
    chosen = _arguments().parse_args()
    events = chosen.events or (int(chosen.rate * SECONDS) if chosen.rate else EVENTS)
    with TemporaryDirectory(prefix="kubedelta-bench-") as folder, brokers(Path(folder), print) as shared:
        try:
            print(profile(Path(folder), shared, events, chosen.rate, chosen.sink))
        except CannotBuild as error:
            print(f"left out: {error}")
    return 0


def profile(folder: Path, shared: Brokers, events: int, rate: float = 0, sink: str = "kafka") -> str:
    """The tables of so many events, at full speed or so many a second. Raises CannotBuild."""
    contender, place = Bridge(sink, flags=["--profile-stages"]), Around(folder, shared).place(LOAD)
    with place.server, running(contender, place, LOAD.objects + events) as run:
        run.arrive(LOAD.objects)
        time.sleep(SETTLE)
        _next_table(run.child)
        follow(run, LOAD.objects, events, rate, settle=0)
        found = _next_table(run.child)
        run.end()
        return found


def _next_table(child: Child) -> str:
    before = len(tables(child.output()))
    os.kill(child.pid, signal.SIGUSR1)
    deadline = time.monotonic() + STALL
    while len(found := tables(child.output())) == before:
        if child.ended or time.monotonic() > deadline:
            raise ChildFailed(f"it printed no table\n{child.log_tail()}")
        time.sleep(POLL_INTERVAL)
    return found[-1]


def tables(output: str) -> list[str]:
    """The complete tables that SIGUSR1 has printed, each from its title to its last line."""
    found, lines = [], list[str]()
    for line in output.splitlines():
        if line.startswith(_TITLE):
            lines = [line]
        elif lines:
            lines.append(line)
            if line.startswith(_END):
                found.append("\n".join(lines))
                lines = []
    return found


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description="CPU of one event, by stage.")
    parser.add_argument("--rate", type=float, default=0, help="events a second; full speed by default")
    parser.add_argument("--events", type=int, default=0, help=f"{EVENTS:,} by default; at a rate, {SECONDS} s of them")
    parser.add_argument("--sink", choices=("kafka", "nats", "file", "webhook"), default="kafka")
    return parser


if __name__ == "__main__":
    sys.exit(main())
