"""Puts the sinks' selections into effect while no informer runs: at the start, and at a change of the configuration.

``meaning_of`` finds out which resources the entries of a ``select`` mean on this cluster. A selection that changed
moves objects in and out of it. Each such object gets a record of its own at the end of the log, for this sink alone. So
the backlog keeps its decisions, and the difference follows behind it.

A replay to a sink with a selection, and a new sink that begins with the earliest record, judge the records of the log
anew (``judge_anew``). The stored decisions would not do: they are those of an earlier selection, and of none before the
sink was there. The price: a replay reads and evaluates all records of its range, some 20 µs for each, while its sink
waits; and it is refused until the sink has the difference of its last change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import msgspec

from bridge.delivery.sink_pipeline import SinkPipeline
from bridge.kube import Catalogue
from bridge.model.admin import UnknownTarget
from bridge.model.change import Evidence, Op
from bridge.model.policies import StartPolicy
from bridge.outbox import EVERYTHING, Decide, JudgedRecords, LastState, Moved, Selections, StateError, StoredSelection
from bridge.plan.entries import Resolution, resolve_entries, unwatched_entries
from bridge.plan.plan import PlanRefused, SinkPlan
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.delivery import (
    EvaluationsFailed,
    ExpressionFailed,
    SelectionChanged,
    SelectionUnreadable,
    SelectorUnserved,
)
from bridge.views.decisions import Decisions, Views
from bridge.views.evaluation import Failures
from bridge.views.language import Cel, MissingLibrary
from bridge.views.selection import (
    SelectorText,
    SinkSelection,
    WrongSelection,
    compile_selection,
    decode_entries,
    encode_entries,
)

FAILURES_EVERY = 1.0
"""Seconds between two reports of failed evaluations."""
_decode_names = msgspec.json.Decoder(dict[str, str]).decode


@dataclass(frozen=True, slots=True)
class SelectMeaning:
    entries: str
    names: str
    """See StoredSelection, as ``entries``."""
    mistakes: list[str] = field(default_factory=list)
    """Paths and reasons of entries that can mean no watched resource."""
    unserved: dict[str, str] = field(default_factory=dict)
    """Paths of entries that mean no resource at this moment → the resource."""


def meaning_of(sink: SinkPlan, names: str, catalogue: Catalogue, resolution: Resolution) -> SelectMeaning:
    """``names``: the meanings that hold, as StoredSelection has them."""
    if sink.select is None:
        return SelectMeaning(EVERYTHING, "{}")
    known = _decode_names(names)
    resolved, meanings = resolve_entries(sink.select, resolution, catalogue, known)
    found = SelectMeaning(encode_entries(resolved), msgspec.json.encode(meanings, order="sorted").decode())
    for option, problem in unwatched_entries(resolved, f"sinks.{sink.name}.select", resolution, known.values()):
        if problem.is_mistake:
            found.mistakes.append(f"{option}: {problem}")
        else:
            found.unserved[option] = problem.resource
    return found


class Selecting:
    """The selections of all sinks of the state, also of sinks that are not configured any more: their backlog goes on
    by the entries that they had last."""

    def __init__(
        self, pipelines: Mapping[str, SinkPipeline], cluster: str, selections: Selections, report: Report
    ) -> None:
        """``pipelines``: those of the configured sinks at the moment of each call."""
        self._pipelines = pipelines
        self._cluster = cluster
        self._selections = selections
        self._report = report
        self._failures = Failures()
        self._decides = asyncio.Event()
        """Some sink has a selection."""

    async def prepare(self, catalogue: Catalogue, resolution: Resolution) -> None:
        """Compares the selections with those that hold, exports the differences, and decides on every record from now
        on. A kill in the middle is repaired by the next call. Raises PlanRefused and Damaged."""
        stored = self._selections.stored
        if not stored:
            return
        present = [name for name in self._pipelines if name in stored]
        meanings = {name: self._checked(self._pipelines[name].plan, catalogue, resolution) for name in present}
        for name in present:
            await self._define(name, meanings[name])
        compiled = {name: await self._stored_selection(name) for name in tuple(stored)}
        begun = [stored[name] for name in present if stored[name].pending]
        await self._export_difference({each.sink: compiled[each.sink] for each in begun})
        views = Views(compiled, self._cluster)
        self._failures = views.failures
        self._selections.decide_by(Decisions(views, {name: each.mask for name, each in stored.items()}))
        self._decides.set()
        for each in begun:
            await self._begin(each, compiled[each.sink])
        await self._selections.took_effect()

    async def _begin(self, each: StoredSelection, selection: SinkSelection) -> None:
        feed, judged = self._pipelines[each.sink].feed, None
        if each.start == StartPolicy.EARLIEST:
            decide = decide_alone(each.sink, selection, each.mask, self._cluster)
            judged = await self._selections.judge(each.sink, decide)
        await feed.begin_selection(each.start, judged)

    async def run(self) -> None:
        """Reports failed evaluations, until cancelled."""
        await self._decides.wait()
        while True:
            await asyncio.sleep(FAILURES_EVERY)
            report_failures(self._failures, self._report)

    # ── Before a change ──────────────────────────────────────────────────────

    def mistakes(self, sinks: Iterable[SinkPlan], catalogue: Catalogue, resolution: Resolution) -> list[str]:
        """The reasons for which ``prepare`` would refuse these plans, beside those that ``preflight`` finds."""
        selecting = [sink for sink in sinks if sink.select is not None]
        found = [mistake for sink in selecting for mistake in self._meaning(sink, catalogue, resolution).mistakes]
        try:
            self._selections.expect_room([sink.name for sink in selecting])
        except StateError as error:
            found.append(str(error))
        return found

    async def count_leaving(
        self, sinks: Iterable[SinkPlan], catalogue: Catalogue, resolution: Resolution
    ) -> Mapping[str, int]:
        """Sink → the objects that its selection in this plan does not contain any more, so that ``prepare`` would
        export them as deleted. The sinks have a cursor. Raises PlanRefused and Damaged."""
        stored, compiled = self._selections.stored, {}
        for sink in sinks:
            entries = self._meaning(sink, catalogue, resolution).entries
            selection, held = self._compile(sink.name, decode_entries(entries)), stored.get(sink.name)
            if held is None or (not held.start and selection.digest != self._digest(sink.name, held.entries)):
                compiled[sink.name] = selection
        counts = dict.fromkeys(compiled, 0)
        if compiled:
            views = Views(compiled, self._cluster)
            async for states in self._selections.states():
                for leaving in await self._selections.turns.map(partial(_leaving, views, stored), states):
                    for name in leaving:
                        counts[name] += 1
        return counts

    # ── The entries ──────────────────────────────────────────────────────────

    def _checked(self, sink: SinkPlan, catalogue: Catalogue, resolution: Resolution) -> SelectMeaning:
        """Raises PlanRefused for an entry that can mean no watched resource, and reports an entry that means none
        now."""
        meaning = self._meaning(sink, catalogue, resolution)
        # Before anything is saved: a mistake leaves the state as it was.
        self._compile(sink.name, decode_entries(meaning.entries))
        if meaning.mistakes:
            raise PlanRefused("\n".join(meaning.mistakes))
        for option, resource in meaning.unserved.items():
            self._report(SelectorUnserved(sink.name, option, resource))
        return meaning

    async def _define(self, sink: str, meaning: SelectMeaning) -> None:
        """Saves the entries of a sink if they changed."""
        stored = self._selections.stored[sink]
        if (meaning.entries, meaning.names) != (stored.entries, stored.names):
            changed = self._digest(sink, meaning.entries) != self._digest(sink, stored.entries)
            await self._selections.define(sink, meaning.entries, meaning.names, changed=changed)

    def _meaning(self, sink: SinkPlan, catalogue: Catalogue, resolution: Resolution) -> SelectMeaning:
        stored = self._selections.stored.get(sink.name)
        return meaning_of(sink, "{}" if stored is None else stored.names, catalogue, resolution)

    def _digest(self, sink: str, entries: str) -> bytes | None:
        try:
            return self._compile(sink, decode_entries(entries)).digest
        except PlanRefused:
            return None  # The entries of the last run, by a library that read other expressions.

    async def _stored_selection(self, sink: str) -> SinkSelection:
        """The selection by the stored entries. Those of a sink that is not configured may need a library that is not
        there any more, which must not end the start: without their expressions they contain all objects that they might
        contain, and the sink's return exports the difference."""
        stored = self._selections.stored[sink]
        entries = decode_entries(stored.entries)
        try:
            return self._compile(sink, entries)
        except PlanRefused as error:
            if sink in self._pipelines:
                raise
            self._report(SelectionUnreadable(sink, str(error)))
        wider = [replace(each, where=None, when=None) for each in entries]
        await self._selections.define(sink, encode_entries(wider), stored.names, changed=True)
        return self._compile(sink, wider)

    def _compile(self, sink: str, entries: Sequence[SelectorText]) -> SinkSelection:
        try:
            return compile_selection(entries, f"sinks.{sink}.select", lambda: self._language)
        except (WrongSelection, MissingLibrary) as error:
            raise PlanRefused(str(error)) from error

    @cached_property
    def _language(self) -> Cel:
        return Cel()

    # ── The difference ───────────────────────────────────────────────────────

    async def _export_difference(self, changed: Mapping[str, SinkSelection]) -> None:
        if not changed:
            return
        views, stored = Views(changed, self._cluster), self._selections.stored
        counts = {sink: dict.fromkeys((Op.ADDED, Op.DELETED), 0) for sink in changed}
        async for states in self._selections.states():
            found = await self._selections.turns.map(partial(_moved, views, stored), states)
            moved = [each for each in found if each is not None]
            await self._selections.move(moved)
            for sink, op in (exported for each in moved for exported in each.exported):
                counts[sink][op] += 1
        report_failures(views.failures, self._report)
        for sink, ops in counts.items():
            self._report(SelectionChanged(sink, ops[Op.ADDED], ops[Op.DELETED], stored[sink].number))


def _leaving(views: Views, stored: Mapping[str, StoredSelection], state: LastState) -> list[str]:
    """The sinks of ``views`` that have the object, and would get it as deleted."""
    held, here = state.held, views.of(state.resource)
    evaluation = here.evaluator.evaluation(held.key, held.body, held.body)
    return [
        sink
        for sink, selection in here.selections.items()
        if (sink not in stored or held.members & stored[sink].mask)
        and not selection.matches(evaluation)
        and selection.takes(evaluation, Op.DELETED, Evidence.UNSELECTED)
    ]


def _moved(views: Views, stored: Mapping[str, StoredSelection], state: LastState) -> Moved | None:
    """An object that the changed selections begin or cease to contain; None for any other object."""
    held, here = state.held, views.of(state.resource)
    evaluation = here.evaluator.evaluation(held.key, held.body, held.body)
    members, exported = held.members, []
    for sink, selection in here.selections.items():
        each = stored[sink]
        is_in = selection.matches(evaluation)
        if is_in is bool(members & each.mask):
            continue
        members ^= each.mask
        op, evidence = (Op.ADDED, Evidence.RELISTED) if is_in else (Op.DELETED, Evidence.UNSELECTED)
        # A new sink gets these objects as a snapshot, or none of them.
        if not each.start and selection.takes(evaluation, op, evidence):
            exported.append((sink, op))
    return None if members == held.members else Moved(state, members, exported)


def report_failures(failures: Failures, report: Report) -> None:
    """Reports the failed evaluations since the last report."""
    counts, first = failures.take()
    for each in first:
        report(ExpressionFailed(each.expression, each.resource, each.key, each.reason))
    if counts:
        report(EvaluationsFailed(sum(counts.values())))


# ── Judging records anew ─────────────────────────────────────────────────────


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
    """Judges the records from ``start`` (a sequence number, or an RFC 3339 time) through ``through``, of a kind and
    namespace if given, by the newest selection of the sink. The sink must have received the difference of its last
    change: before, its consumer has the objects of an earlier selection, and would keep those that the backlog deletes
    only there. Raises UnknownTarget."""
    expect_effective(selections, sink, through)
    stored = selections.stored[sink]
    try:
        selection = compile_selection(decode_entries(stored.entries), f"sinks.{sink}.select", Cel)
    except (WrongSelection, MissingLibrary) as error:
        raise UnknownTarget(f"the selection of sink {sink} cannot be evaluated: {error}") from error
    decide = decide_alone(sink, selection, stored.mask, cluster)
    return await selections.judge(sink, decide, start=start, through=through, kind=kind, namespace=namespace)


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


def decide_alone(sink: str, selection: SinkSelection, mask: int, cluster: str) -> Decide:
    """Decides for this sink alone."""
    return Decisions(Views({sink: selection}, cluster), {sink: mask})
