"""Runs the cases side by side, round after round, and writes what was measured as JSON, Markdown and a picture.

    python -m benchmarks [--only kafka,file] [--contenders kubedelta,kube-rs] [--rounds N] [--objects N] [--events N]

After every run the files are written anew, so that an interrupted benchmark leaves what it came to; with `--join` the
next one goes on from there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.build import CannotBuild
from benchmarks.cases import Case, Measure, Scale, cases
from benchmarks.commands import machine, names
from benchmarks.meter import Figures
from benchmarks.picture import cpu_picture
from benchmarks.processes import ChildFailed
from benchmarks.report import COLUMNS, markdown
from benchmarks.results import Measured, Results
from benchmarks.runs import Around, turned
from benchmarks.servers import Brokers, brokers
from tests.cluster.servers import ServerFailed

HERE = Path(__file__).parent


def main() -> int:
    chosen = _arguments().parse_args()
    scale = Scale(chosen.objects, chosen.events)
    try:
        wanted = choose(cases(scale), chosen.only, chosen.contenders)
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 64
    titles = {each.name: each.title for each in cases(scale)}
    try:
        joins = chosen.join or chosen.replace
        results = joined(_about(scale), titles, chosen.out / "results.json" if joins else None)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 64
    if chosen.replace:
        forget(results, wanted)
    results.notes |= dict.fromkeys([each.name for each in wanted], chosen.note) if chosen.note else {}
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(prefix="kubedelta-bench-", dir=chosen.folder) as folder,
        brokers(Path(folder), print) as shared,
    ):
        for number, case, name, measure in in_turns(wanted, chosen.rounds):
            attempt(results.of(case.name, name), measure, Path(folder), shared)
            print(f"round {number + 1}: {case.name}, {name}: {_in_words(results.of(case.name, name))}", flush=True)
            _write(results, chosen.out)
    print()
    print(markdown(results))
    return 0


def choose(all_cases: Sequence[Case], only: Sequence[str], contenders: Sequence[str]) -> list[Case]:
    """Cases and contenders by name; an empty choice is everything. Raises LookupError with what there is."""
    _all_known("case", only, [each.name for each in all_cases])
    _all_known("contender", contenders, sorted({name for each in all_cases for name in each.contenders}))
    found = []
    for case in all_cases:
        kept = {name: each for name, each in case.contenders.items() if not contenders or name in contenders}
        if kept and (not only or case.name in only):
            found.append(Case(case.name, case.title, kept))
    return found


def _all_known(what: str, chosen: Sequence[str], there_are: Sequence[str]) -> None:
    for name in chosen:
        if name not in there_are:
            raise LookupError(f"no {what} is called {name!r}; there are: {', '.join(there_are)}")


def joined(about: Mapping[str, object], titles: Mapping[str, str], earlier: Path | None) -> Results:
    """Results to add to: those of an earlier run where there is one. Raises ValueError for one of another scale, or on
    another machine: such rounds have no common median."""
    results = Results(dict(about), dict(titles))
    if earlier is None or not earlier.exists():
        return results
    found = Results.read(earlier)
    if found.about != results.about:
        raise ValueError(f"{earlier} was measured with {found.about}, and this run is with {results.about}")
    results.measured, results.notes = found.measured, found.notes
    return results


def forget(results: Results, wanted: Sequence[Case]) -> None:
    """Removes the rounds of these cases and contenders."""
    for case in wanted:
        for name in case.contenders:
            results.measured.get(case.name, {}).pop(name, None)
        results.notes.pop(case.name, None)


def in_turns(wanted: Sequence[Case], rounds: int) -> Iterator[tuple[int, Case, str, Measure]]:
    """Everything once a round, and within a case another contender first each time."""
    for number in range(rounds):
        for case in wanted:
            for name in turned(list(case.contenders), number):
                yield number, case, name, case.contenders[name]


def attempt(measured: Measured, measure: Callable[[Around], Figures], folder: Path, shared: Brokers) -> None:
    """One run. What fails is kept as a failure, and the others go on."""
    with TemporaryDirectory(prefix="run-", dir=folder) as own:
        try:
            measured.rounds.append(measure(Around(Path(own), shared)))
        except (CannotBuild, ChildFailed, ServerFailed) as error:
            measured.failures.append(str(error))


def _in_words(measured: Measured) -> str:
    if measured.failures:
        return f"FAILED: {measured.failures[-1]}"
    figures = measured.rounds[-1].items()
    return ", ".join(f"{COLUMNS[name].heading} {COLUMNS[name].show(value)}" for name, value in figures)


def _write(results: Results, out: Path) -> None:
    results.write(out / "results.json")
    (out / "results.md").write_text(markdown(results))
    if (drawn := cpu_picture(results)) is not None:
        (out / "cpu.svg").write_text(drawn)


def _about(scale: Scale) -> dict[str, object]:
    return {"objects": scale.objects, "events": scale.events, **machine()}


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Run the cases and write what was measured."
    )
    add = parser.add_argument
    add("--only", type=names, default=[], metavar="CASES", help="names of cases, with commas")
    add("--contenders", type=names, default=[], metavar="NAMES", help="who takes part, with commas")
    add("--rounds", type=int, default=5, help="5 by default; their median counts")
    add(
        "--objects", type=int, default=Scale().objects, help="10000 by default; large cases have up to 30 times as many"
    )
    add("--events", type=int, default=Scale().events, help="100000 by default; some cases have a part of them")
    add("--join", action="store_true", help="add the rounds to what the report has")
    add("--replace", action="store_true", help="like --join, and earlier rounds of the same cases and contenders go")
    add("--note", default="", help="a sentence about the circumstances, for the report of these cases")
    add("--out", type=Path, default=HERE / "results", help="where the report goes")
    add("--folder", type=Path, default=None, help="on whose disk brokers and states live")
    return parser


if __name__ == "__main__":
    sys.exit(main())
