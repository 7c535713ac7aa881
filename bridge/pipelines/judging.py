"""Judges records of the log anew, by a sink's present selection: for replays, and for new sinks that begin with the
earliest record.

The stored decisions would not do: they are those of an earlier selection, and of none before the sink was there. The
price of judging anew: a replay reads and evaluates all records of its range, some 20 µs for each, while its sink waits;
and it is refused until the sink has the difference of its last change (``judge_anew``).
"""

from __future__ import annotations

from typing import Protocol

from bridge.facts import EvaluationsFailed, ExpressionFailed, Report
from bridge.model.admin import UnknownTarget
from bridge.outbox import Decide, JudgedRecords, Selections
from bridge.selection import (
    Decisions,
    Failures,
    SinkSelection,
    Views,
    WrongSelection,
    compile_selection,
    decode_entries,
)
from bridge.selection.language import Cel, MissingLibrary


class Judge(Protocol):
    """Judges the records from ``start`` (a sequence number, or an RFC 3339 time) through ``through``, of a kind and
    namespace if given. Raises UnknownTarget while that is impossible."""

    async def __call__(
        self, *, start: int | str, through: int, kind: int | None, namespace: str | None
    ) -> JudgedRecords: ...


def report_failures(failures: Failures, report: Report) -> None:
    """Reports the failed evaluations since the last report."""
    counts, first = failures.take()
    for each in first:
        report(ExpressionFailed(each.expression, each.resource, each.key, each.reason))
    if counts:
        report(EvaluationsFailed(sum(counts.values())))


def decide_alone(sink: str, selection: SinkSelection, mask: int, cluster: str) -> Decide:
    """Decides for this sink alone."""
    return Decisions(Views({sink: selection}, cluster), {sink: mask})


def expect_effective(selections: Selections, sink: str, through: int) -> None:
    """Raises UnknownTarget if a sink that has received the records ``through`` lacks the difference of its present
    selection."""
    stored = selections.stored[sink]
    if stored.pending:
        raise UnknownTarget(f"the selection of sink {sink} changed, and is not in effect yet: ask again later")
    if through < stored.effective:
        raise UnknownTarget(
            f"sink {sink} has received the records through {through}, and its selection changed with record "
            f"{stored.effective}: ask again when it has that"
        )


async def judge_anew(
    selections: Selections,
    sink: str,
    cluster: str,
    *,
    start: int | str,
    through: int,
    kind: int | None,
    namespace: str | None,
) -> JudgedRecords:
    """See Judge. The sink must have received the difference of its last change: before, its consumer has the objects of
    an earlier selection, and would keep those that the backlog deletes only there."""
    expect_effective(selections, sink, through)
    stored = selections.stored[sink]
    try:
        selection = compile_selection(decode_entries(stored.entries), f"sinks.{sink}.select", Cel)
    except (WrongSelection, MissingLibrary) as error:
        raise UnknownTarget(f"the selection of sink {sink} cannot be evaluated: {error}") from error
    decide = decide_alone(sink, selection, stored.mask, cluster)
    return await selections.judge(sink, decide, start=start, through=through, kind=kind, namespace=namespace)
