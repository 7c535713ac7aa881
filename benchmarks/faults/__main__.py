"""Runs the faults of a bridge with an election on real servers, and writes what was counted as JSON and Markdown.

    python -m benchmarks.faults [--only kill,freeze] [--rounds N] [--join]

The files are written anew after every fault. `--show` prints the published report without a run.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.build import CannotBuild
from benchmarks.commands import machine, names
from benchmarks.faults.catalogue import Fault, choose
from benchmarks.faults.goals import GOALS
from benchmarks.faults.report import markdown
from benchmarks.faults.results import Measured, Results
from benchmarks.faults.servers import servers, three_brokers
from benchmarks.faults.stage import staged
from tests.cluster.fixtures import fresh_name
from tests.cluster.servers import ServerFailed
from tests.kit.breakable import Breakable
from tests.kit.small_disk import CannotMount

HERE = Path(__file__).parents[1]


def main() -> int:
    """0 if all goals are met, 1 otherwise."""
    chosen = _arguments().parse_args()
    if chosen.show:
        print(markdown(Results.read(chosen.out / "faults.json")))
        return 0
    try:
        wanted = choose(chosen.only)
        results = _begun(chosen.note, chosen.out / "faults.json" if chosen.join or chosen.replace else None)
    except (LookupError, ValueError) as error:
        print(error.args[0], file=sys.stderr)
        return 64
    for fault in wanted if chosen.replace else ():
        results.faults.pop(fault.name, None)
    chosen.out.mkdir(parents=True, exist_ok=True)
    print(f"SEED={chosen.seed} chooses the same moments", flush=True)
    with TemporaryDirectory(prefix="kubedelta-faults-", dir=chosen.folder) as folder:
        asyncio.run(_run(wanted, results, chosen, Path(folder)))
    print(markdown(results))
    return 0 if all((value := goal.value(results)) is None or value <= goal.at_most for goal in GOALS) else 1


async def _run(wanted: Sequence[Fault], results: Results, chosen: argparse.Namespace, folder: Path) -> None:
    with servers(folder, print) as found:
        for fault in wanted:
            await _attempt(fault, results.of(fault.name), chosen, found, folder)
            results.write(chosen.out / "faults.json")
            (chosen.out / "faults.md").write_text(markdown(results))


async def _attempt(
    fault: Fault, measured: Measured, chosen: argparse.Namespace, found: Breakable, folder: Path
) -> None:
    """What fails is kept as a failure, and the others go on."""
    rounds, chance = chosen.rounds or fault.rounds, random.Random(f"{chosen.seed}/{fault.name}")
    name = fresh_name(fault.name)
    began = time.monotonic()
    try:
        async with AsyncExitStack() as stack:
            brokers = three_brokers(folder / f"{name}-kafka", _say) if fault.three_brokers else nullcontext(found.kafka)
            kafka = stack.enter_context(brokers)
            stage = await stack.enter_async_context(
                staged(
                    found,
                    kafka,
                    folder / name,
                    name,
                    _say,
                    lines=fault.lines,
                    disks=fault.disks,
                    judged=fault.judged,
                    reduced=fault.reduced,
                )
            )
            for number in range(rounds):
                await fault.work(stage, number, chance)
                await stage.compare()
                _say(f"{fault.name}: round {number + 1} of {rounds}, {time.monotonic() - began:.0f} s")
            counts = await stage.counts()
            if chosen.keep is not None:
                await asyncio.to_thread(stage.keep, chosen.keep / name)
    except* (CannotBuild, CannotMount, ServerFailed, TimeoutError, OSError, AssertionError) as group:
        for each in _leaves(group):
            _say(f"{fault.name} FAILED: {each!r}\n" + "\n".join(getattr(each, "__notes__", ())))
            measured.failures.append(f"{type(each).__name__}: {each}".replace(str(folder), "…"))
    else:
        measured.add(rounds, time.monotonic() - began, counts)
        for sink, found_there in counts.items():
            _say(f"{fault.name}: {sink}: {found_there}")


def _leaves(group: BaseExceptionGroup[Exception]) -> list[BaseException]:
    return [
        leaf
        for each in group.exceptions
        for leaf in (_leaves(each) if isinstance(each, BaseExceptionGroup) else [each])
    ]


def _say(text: str) -> None:
    print(text, flush=True)


def _begun(note: str, earlier: Path | None) -> Results:
    """Results to add to: those of an earlier run where there is one. Raises ValueError for those of another machine."""
    results = Results(_about() | ({"note": note} if note else {}))
    if earlier is None or not earlier.exists():
        return results
    found = Results.read(earlier)
    if _machine(found.about) != _machine(results.about):
        raise ValueError(f"{earlier} was measured with {found.about}, and this run is with {results.about}")
    results.faults = found.faults
    return results


def _machine(about: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if name not in ("day", "note")}


def _about() -> dict[str, Any]:
    return {"day": datetime.now(UTC).date().isoformat(), **machine()}


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.faults", description="Run the faults and write what was counted."
    )
    add = parser.add_argument
    add("--only", type=names, default=[], metavar="FAULTS", help="names of faults, with commas")
    add("--rounds", type=int, default=0, help="of each fault; by default 100 kills, and a few of the others")
    add("--seed", type=int, default=random.randrange(2**32), help="chooses the moments of the faults")
    add("--join", action="store_true", help="add the rounds to those of the report")
    add("--replace", action="store_true", help="like --join, and earlier rounds of the same faults go")
    add("--show", action="store_true", help="print the report that is there, and run nothing")
    add("--note", default="", help="a sentence about the circumstances, for the report")
    add("--out", type=Path, default=HERE / "results", help="where the report goes")
    add("--keep", type=Path, default=None, metavar="FOLDER", help="where logs and lists of all arrivals go")
    add("--folder", type=Path, default=None, help="on whose disk servers and states live")
    return parser


if __name__ == "__main__":
    sys.exit(main())
