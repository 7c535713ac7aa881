"""The counts as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.faults.catalogue import FAULTS
from benchmarks.faults.counting import Counts
from benchmarks.faults.destinations import FENCED
from benchmarks.faults.goals import GOALS, percentile, silences
from benchmarks.faults.results import Measured, Results
from benchmarks.report import lines

_COLUMNS = [
    "rounds",
    "steps",
    "lost",
    "unseen",
    "disordered",
    "repeated, equal ids",
    "other ids",
    "oldest repeated s",
    "stale where fenced",
    "stale elsewhere",
    "s without deliveries, p50",
    "p99",
    "longest",
]

INTRODUCTION = """\
Two replicas of a bridge, with the default election (15 s, 10 s, 2 s), run beside their servers: kube-apiserver with
etcd, Kafka, NATS (JetStream) and a webhook. The leader delivers to four sinks at once: Kafka, Kafka with
`exactly_once`, NATS with `sole_writer`, and the webhook. Each fault happens while some 22 objects a second change. The
truth is etcd's history: every version of every object. Kafka is one broker, except where one of three is killed: each
of these is a controller, too, topics have three copies, and `min.insync.replicas` is 2. After each round, all tables of
the follower are compared with the leader's, row by row, at the same commit: a difference is a failure of the fault.

- **steps**: versions that happened, counted for each sink. **lost**: those that a sink did not receive, or received by
  a list alone. **unseen**: those of objects that came and went while the API server was down or forgetful, and of which
  nobody promises a trace ([Steps that no watch announced](../../docs/guarantees.md#steps-that-no-watch-announced)), or
  in a backlog that was compacted.
- **disordered**: records behind a newer one of their object, also among repetitions, or with another content than what
  happened.
- **repeated**: delivered again with an equal id. **other ids**: the same version with another id. **oldest repeated**:
  how long before the fault a leader had settled the oldest of them: all records of its term up to that one had arrived.
  If leaders are killed later in the round, it is the time before that kill. "–": nothing that was settled came again.
- **stale**: records of a former leader behind the first record of a later one. NATS with `sole_writer` and Kafka with
  `exactly_once` are fenced, Kafka without it and the webhook are not.
- **without deliveries**: of each round and sink, the longest time between two arrivals, from the fault until everything
  is delivered. Arrivals have the time of the broker's log, of the stream, and of the receiver; topics are read with
  `read_committed`.
"""


def markdown(results: Results) -> str:
    """The whole report."""
    parts = ["# Faults", "", *(f"- {name}: {value}" for name, value in results.about.items()), "", INTRODUCTION]
    parts += ["## Goals", "", *_goals(results), "", "## Faults", "", *_all(results)]
    for fault in FAULTS:
        if (measured := results.faults.get(fault.name)) is None:
            continue
        parts += ["", f"## {fault.title[0].upper()}{fault.title[1:]}", "", *_each(measured)]
        parts += [f"\n{measured.rounds} rounds in {measured.seconds / 60:.0f} minutes of load."]
        parts += [f"\nA round failed: {failure.splitlines()[0]}" for failure in measured.failures]
    return "\n".join(parts) + "\n"


def _goals(results: Results) -> list[str]:
    rows = []
    for goal in GOALS:
        value = goal.value(results)
        verdict = "not measured" if value is None else "met" if value <= goal.at_most else "**missed**"
        shown = "–" if value is None else f"{value:,.2f} {goal.unit}" if goal.unit else f"{value:,.0f}"
        rows.append([goal.what, f"{goal.at_most:g} {goal.unit}".strip(), shown, verdict])
    return lines(["", "at most", "measured", ""], rows)


def _all(results: Results) -> list[str]:
    """Sums over the sinks of each fault; times over all rounds and sinks."""
    rows = [
        [fault.title, str(measured.rounds), *_cells(measured.sinks)]
        for fault in FAULTS
        if (measured := results.faults.get(fault.name)) is not None
    ]
    return lines(["", *_COLUMNS], rows)


def _each(measured: Measured) -> list[str]:
    rows = [[name, str(measured.rounds), *_cells({name: counts})] for name, counts in measured.sinks.items()]
    return lines(["", *_COLUMNS], rows)


def _cells(sinks: dict[str, Counts]) -> list[str]:
    all_ = sinks.values()
    numbers = [
        sum(each.steps for each in all_),
        sum(each.lost for each in all_),
        sum(each.unseen for each in all_),
        sum(each.disordered + each.untrue for each in all_),
        sum(each.repeated for each in all_),
        sum(each.renamed for each in all_),
    ]
    ages = [age for each in all_ for age in each.ages]
    times = silences(all_)
    return [
        *(f"{number:,}" for number in numbers),
        _seconds(percentile(ages, 1)),
        _stale([each for name, each in sinks.items() if name in FENCED]),
        _stale([each for name, each in sinks.items() if name not in FENCED]),
        *(_seconds(percentile(times, share)) for share in (0.5, 0.99, 1)),
    ]


def _stale(counts: Sequence[Counts]) -> str:
    return f"{sum(each.stale for each in counts):,}" if counts else "–"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
