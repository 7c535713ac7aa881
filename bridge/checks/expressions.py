"""Checks the selections and the content of sinks before a start: whether each entry of ``select`` means a watched
resource, and which values the expressions of all sinks have on live objects.

Each expression has a tally. The objects of a resource are listed once, page by page, redacted as the bridge would, and
counted by all tallies that are about them; then each tally makes its finding. After 10,000 objects of a resource in a
scope, or where a list fails, a further finding says how far the counts go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial

from bridge.checks.findings import CheckResult, Finding
from bridge.informer.controller import Transform
from bridge.kube import Catalogue, KubeClient
from bridge.model.answers import ListerWatcher, Page
from bridge.model.change import Evidence, Op
from bridge.model.formats.content import Makes
from bridge.model.primitives.printable import counted
from bridge.model.resource import Resource
from bridge.outbox import utc_now
from bridge.plan.cluster_view import pages
from bridge.plan.entries import Resolution, resolve_entries, unwatched_entries
from bridge.plan.keys import likely_transform
from bridge.plan.plan import Plan
from bridge.views.content_maker import SinkContent, WrongContent, compile_content
from bridge.views.evaluation import Evaluation, Evaluator, Failures
from bridge.views.language import CHANGED, TIME, Cel, EvaluationFailed, Expression, MissingLibrary
from bridge.views.selection import Selector, SinkSelection, WrongSelection, compile_selection

MOST_EVALUATED = 10_000
"""Objects of a resource in a scope, on which expressions are evaluated."""


async def check_selections(
    plan: Plan, client: KubeClient, catalogue: Catalogue, resolution: Resolution, *, allowed: bool
) -> AsyncIterator[Finding]:
    """Yields a finding for each entry without a watched resource, and, if all resources may be listed (``allowed``),
    for each expression. Mistakes in expressions are for ``preflight``."""
    tallies: list[Tally] = []
    language = cache(Cel)
    for sink in plan.sinks:
        path = f"sinks.{sink.name}.select"
        selection = None
        entries, _ = resolve_entries(sink.select or (), resolution, catalogue, {})
        for option, problem in unwatched_entries(entries, path, resolution):
            yield Finding(option, CheckResult.WRONG if problem.is_mistake else CheckResult.NOTE, str(problem))
        with suppress(WrongSelection, WrongContent, MissingLibrary):
            if sink.select is not None:
                selection = compile_selection(entries, path, language)
                tallies += _of_selection(path, selection)
            tallies += _of_content(sink.name, selection, compile_content(sink.content, f"sinks.{sink.name}", language))
    if not allowed or not tallies:
        return
    for (_, scope), resource in resolution.desired.items():
        here = [(each, count) for each in tallies if (count := each.counter(resource)) is not None]
        if here:
            lister = client.lister_watcher(resource, scope, managed_fields=False, shard=plan.shard)
            transform = likely_transform(plan, catalogue, resource)
            if problem_of_list := await _evaluate(resource, lister, transform, here, plan.cluster):
                yield Finding(f"resources: {resource}", CheckResult.NOTE, problem_of_list)
    for tally in tallies:
        yield tally.finding


async def _evaluate(
    resource: Resource,
    lister: ListerWatcher,
    transform: Transform,
    counters: Sequence[tuple[Tally, Callable[[Evaluation], None]]],
    cluster: str,
) -> str:
    """Lists the objects of a resource in a scope. ``counters``: each with its tally. Returns why not all objects were
    evaluated; empty if all were."""
    failures = Failures()
    expressions = {tally.expression: None for tally, _ in counters}
    expressions |= {condition: None for tally, _ in counters for condition in tally.conditions}
    evaluator = Evaluator(resource, cluster, expressions, failures, with_labels=True)
    seen = 0
    async for answer in pages(lister):
        if not isinstance(answer, Page):
            return f"expressions were evaluated on {counted(seen, 'object')} only: {answer.reason}"
        for each in answer.objects:
            thing = transform(each)
            evaluation = evaluator.evaluation(thing.key, thing.body, thing.body, {TIME: utc_now(), CHANGED: []}.get)
            for _, count in counters:
                count(evaluation)
        seen += len(answer.objects)
        _, first = failures.take()
        for failure in first:
            for tally, _ in counters:
                if tally.expression.text == failure.expression:
                    tally.reason = tally.reason or failure.reason
        if seen >= MOST_EVALUATED and answer.next_page is not None:
            return f"expressions were evaluated on the first {counted(seen, 'object')} only"
    return ""


# ── Counts of values ─────────────────────────────────────────────────────────


@dataclass(slots=True, kw_only=True)
class Tally(ABC):
    """An expression of a sink, and its values on the live objects of which the bridge would evaluate it."""

    path: str
    expression: Expression
    conditions: Sequence[Expression]
    """Further expressions that decide whether the bridge would evaluate it."""
    reason: str = ""
    """Of the first failure; empty without any."""

    @abstractmethod
    def counter(self, resource: Resource) -> Callable[[Evaluation], None] | None:
        """Counts an object of the resource; None if the expression is not about objects of it."""

    @property
    @abstractmethod
    def finding(self) -> Finding: ...


@dataclass(slots=True, kw_only=True)
class SelectorTally(Tally):
    """An expression of an entry of ``select``, on the objects that the entry's other conditions choose."""

    selector: Selector
    is_step: bool
    """True for ``when``."""
    keys: dict[bool | None, list[str]] = field(default_factory=lambda: {True: [], False: [], None: []})
    """Value → objects; None where the expression fails."""

    def counter(self, resource: Resource) -> Callable[[Evaluation], None] | None:
        return self._count if self.selector.covers(resource) else None

    def _count(self, evaluation: Evaluation) -> None:
        # The conditions beside the expression decide whether the bridge would evaluate it.
        if not (self.selector if self.is_step else replace(self.selector, where=None)).matches(evaluation):
            return
        if self.is_step:
            value = evaluation.of_step(self.expression, Op.UPDATED, Evidence.WATCHED)
        else:
            value = evaluation.of_object(self.expression)
        self.keys[value].append(evaluation.key)

    @property
    def finding(self) -> Finding:
        here = sum(map(len, self.keys.values()))
        example = {value: f" ({keys[0]})" if keys else "" for value, keys in self.keys.items()}
        fails = f" ({self.keys[None][0]}: {self.reason})" if self.keys[None] else ""
        of = "an update without a change of " if self.is_step else ""
        detail = (
            f"of {counted(here, 'live object')}, it is true for {of}{len(self.keys[True])}{example[True]}, "
            f"false for {len(self.keys[False])}{example[False]}, and fails on {len(self.keys[None])}{fails}"
        )
        return Finding(self.path, CheckResult.NOTE if self.keys[None] else CheckResult.RIGHT, detail)


@dataclass(slots=True, kw_only=True)
class ContentTally(Tally):
    """An expression that makes content, on the objects that the sink gets."""

    selection: SinkSelection | None
    """None if the sink gets all objects."""
    made: int = 0
    failed: list[str] = field(default_factory=list)
    """Objects."""

    def counter(self, resource: Resource) -> Callable[[Evaluation], None] | None:
        if self.selection is None:
            return self._count
        here = self.selection.of(resource)
        if not here.selectors:
            return None
        return lambda evaluation: self._count(evaluation) if here.matches(evaluation) else None

    def _count(self, evaluation: Evaluation) -> None:
        try:
            evaluation.value_of_step(self.expression, Op.UPDATED, Evidence.WATCHED)
            self.made += 1
        except EvaluationFailed as error:
            self.failed.append(evaluation.key)
            self.reason = self.reason or self.expression.why_failed(error)

    @property
    def finding(self) -> Finding:
        here = counted(self.made + len(self.failed), "live object")
        if not self.failed:
            return Finding(self.path, CheckResult.RIGHT, f"it has a value on each of {here}")
        fails = f"{len(self.failed)} ({self.failed[0]}: {self.reason})"
        detail = f"of {here}, it has no value on {fails}: their records would become dead letters"
        return Finding(self.path, CheckResult.NOTE, detail)


def _of_selection(path: str, selection: SinkSelection) -> Iterator[Tally]:
    """``path``: of the list of its entries."""
    for index, each in enumerate(selection.selectors):
        where = () if each.where is None else (each.where,)
        of_entry = partial(SelectorTally, conditions=where, selector=each)
        if each.where is not None:
            yield of_entry(path=f"{path}[{index}].where", expression=each.where, is_step=False)
        if each.when is not None:
            yield of_entry(path=f"{path}[{index}].when", expression=each.when, is_step=True)


def _of_content(sink: str, selection: SinkSelection | None, content: SinkContent) -> Iterator[Tally]:
    conditions = () if selection is None else tuple(selection.expressions)
    for part in content.parts:
        path = f"sinks.{sink}.{part.option}"
        if part.makes is Makes.TEXT:
            path += f" {{{part.expression.text}}}"
        yield ContentTally(path=path, expression=part.expression, conditions=conditions, selection=selection)
