"""Where the CPU of one event goes: the table of `kubedelta run --profile-stages` under the load of the case `kafka`."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.build import CannotBuild
from benchmarks.contenders import Bridge
from benchmarks.runs import Around, running
from benchmarks.servers import Brokers, Load, brokers

LOAD = Load(pods=10_000)
EVENTS = 100_000


def main() -> int:
    with TemporaryDirectory(prefix="kubedelta-bench-") as folder, brokers(Path(folder), print) as shared:
        try:
            print(profile(Path(folder), shared, EVENTS))
        except CannotBuild as error:
            print(f"left out: {error}")
    return 0


def profile(folder: Path, shared: Brokers, events: int) -> str:
    """Raises CannotBuild."""
    contender, place = Bridge("kafka", flags=["--profile-stages"]), Around(folder, shared).place(LOAD)
    with place.server as server, running(contender, place, LOAD.objects + events) as run:
        run.arrive(LOAD.objects)
        server.go(events)
        run.arrive(LOAD.objects + events)
        run.child.stop()
        return run.child.output().rpartition("}\n")[2]


if __name__ == "__main__":
    sys.exit(main())
