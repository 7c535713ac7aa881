"""Puts the sinks' selections into effect before the first informer runs.

A selection that changed since the last run moves objects in and out of it. Each such object gets a record of its own at
the end of the log, for this sink alone. So the backlog keeps its decisions, and the difference follows behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from bridge.facts import EvaluationsFailed, ExpressionFailed, Report, SelectionChanged, SelectorUnserved
from bridge.kube import Catalogue
from bridge.model.change import Evidence, Op
from bridge.outbox import EVERYTHING, LastState, Moved, Selections, StoredSelection
from bridge.pipelines.sink_feed import SinkFeed
from bridge.plan.plan import PlanRefused, SinkPlan
from bridge.resources.resolve import Resolution
from bridge.resources.selected_resources import resolve_entries, unwatched_entries
from bridge.selection import (
    Decisions,
    Failures,
    SelectorText,
    SinkSelection,
    Views,
    WrongSelection,
    compile_selection,
    decode_entries,
    encode_entries,
)
from bridge.selection.language import Cel, MissingLibrary

FAILURES_EVERY = 1.0
"""Seconds between two reports of failed evaluations."""

_decode_names = msgspec.json.Decoder(dict[str, str]).decode


class Selecting:
    """The selections of all sinks of the state, also of sinks that are not configured any more: their backlog goes on
    by the entries of the last run. ``feeds``: of the configured sinks."""

    def __init__(
        self,
        sinks: Sequence[SinkPlan],
        cluster: str,
        selections: Selections,
        feeds: Mapping[str, SinkFeed],
        report: Report,
    ) -> None:
        self._sinks = [sink for sink in sinks if sink.name in selections.stored]
        self._cluster = cluster
        self._selections = selections
        self._feeds = feeds
        self._report = report
        self._failures = Failures()

    async def prepare(self, catalogue: Catalogue, resolution: Resolution) -> None:
        """Compares the selections with those of the last run, exports the differences, and decides on every record from
        now on. A kill in the middle is repaired by the next call. Raises PlanRefused and Damaged."""
        stored = self._selections.stored
        if not stored:
            return
        for sink in self._sinks:
            await self._define(sink, catalogue, resolution)
        compiled = {name: self._compile(name, decode_entries(each.entries)) for name, each in stored.items()}
        begun = [stored[sink.name] for sink in self._sinks if stored[sink.name].pending]
        await self._export_difference({each.sink: compiled[each.sink] for each in begun})
        views = Views(compiled, self._cluster)
        self._failures = views.failures
        self._selections.decide_by(Decisions(views, {name: each.mask for name, each in stored.items()}))
        for each in begun:
            await self._feeds[each.sink].begin_selection(each.start)

    async def run(self) -> None:
        """Reports failed evaluations, until cancelled."""
        while self._selections.stored:
            await asyncio.sleep(FAILURES_EVERY)
            self._report_failures(self._failures)

    # ── The entries ──────────────────────────────────────────────────────────

    async def _define(self, sink: SinkPlan, catalogue: Catalogue, resolution: Resolution) -> None:
        """Saves the entries of a sink if they changed. Raises PlanRefused for an entry that can mean no watched
        resource, and reports an entry that means none now."""
        stored = self._selections.stored[sink.name]
        entries, names = EVERYTHING, "{}"
        if sink.select is not None:
            known = _decode_names(stored.names)
            resolved, meanings = resolve_entries(sink.select, resolution, catalogue, known)
            entries, names = encode_entries(resolved), msgspec.json.encode(meanings, order="sorted").decode()
            path = f"sinks.{sink.name}.select"
            for option, problem in unwatched_entries(resolved, path, resolution, known.values()):
                if problem.is_mistake:
                    raise PlanRefused(f"{option}: {problem}")
                self._report(SelectorUnserved(sink.name, option, problem.resource))
        if (entries, names) != (stored.entries, stored.names):
            changed = self._digest(sink.name, entries) != self._digest(sink.name, stored.entries)
            await self._selections.define(sink.name, entries, names, changed=changed)

    def _digest(self, sink: str, entries: str) -> bytes | None:
        try:
            return self._compile(sink, decode_entries(entries)).digest
        except PlanRefused:
            return None  # The entries of the last run, by a library that read other expressions.

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
        for part in await self._selections.objects():
            moved = [each for state in await self._selections.read(part) if (each := _moved(views, stored, state))]
            await self._selections.move(moved)
            for sink, op in (exported for each in moved for exported in each.exported):
                counts[sink][op] += 1
        self._report_failures(views.failures)
        for sink, ops in counts.items():
            self._report(SelectionChanged(sink, ops[Op.ADDED], ops[Op.DELETED], stored[sink].number))

    def _report_failures(self, failures: Failures) -> None:
        counts, first = failures.take()
        for each in first:
            self._report(ExpressionFailed(each.expression, each.resource, each.key, each.reason))
        if counts:
            self._report(EvaluationsFailed(sum(counts.values())))


def _moved(views: Views, stored: Mapping[str, StoredSelection], state: LastState) -> Moved | None:
    """An object that the changed selections begin or cease to contain; None for any other object."""
    held, here = state.held, views.of(state.resource)
    evaluation = here.evaluator.evaluation(held.key, state.body, state.body)
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
