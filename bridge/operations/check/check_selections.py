"""Checks the selections and the content of sinks before a start: whether each entry of ``select`` means a watched
resource, and which values the expressions of all sinks have on live objects.

Each expression has a tally. The objects of a resource are listed once, page by page, redacted as the bridge would, and
counted by all tallies that are about them; then each tally makes its finding. After 10,000 objects of a resource in a
scope, or where a list fails, a further finding says how far the counts go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Protocol

from bridge.informer.controller import Transform
from bridge.kube import Catalogue, KubeClient
from bridge.model.answers import ListerWatcher, ListRequest, Page
from bridge.model.change import Evidence, Op
from bridge.model.formats.content import Makes
from bridge.model.primitives.printable import counted
from bridge.model.resource import Resource
from bridge.operations.check.findings import CheckResult, Finding
from bridge.outbox import utc_now
from bridge.plan.entries import Resolution, resolve_entries, unwatched_entries
from bridge.plan.keys import likely_transforms
from bridge.plan.plan import Plan
from bridge.views.content_maker import ContentPart, WrongContent, compile_content
from bridge.views.evaluation import Evaluation, Evaluator, Failures
from bridge.views.language import CHANGED, TIME, Cel, EvaluationFailed, Expression, MissingLibrary
from bridge.views.selector import Selector, SinkSelection, WrongSelection, compile_selection

MOST_EVALUATED = 10_000
"""Objects of a resource in a scope, on which expressions are evaluated."""
_PAGE = 500


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
                tallies += selector_tallies(path, selection.selectors)
            content = compile_content(sink.content, f"sinks.{sink.name}", language)
            tallies += [ContentTally(sink.name, part, selection) for part in content.parts]
    if not allowed or not tallies:
        return
    transform_of = likely_transforms(plan, catalogue)
    for (_, scope), resource in resolution.desired.items():
        here = {index: count for index, each in enumerate(tallies) if (count := each.counter(resource)) is not None}
        if here:
            lister = client.lister_watcher(resource, scope, managed_fields=False, shard=plan.shard)
            reader = _Reader(lister, resource, transform_of(resource))
            found = [tallies[index] for index in here]
            if problem_of_list := await reader.evaluate(found, list(here.values()), plan.cluster):
                yield Finding(f"resources: {resource}", CheckResult.NOTE, problem_of_list)
    for tally in tallies:
        yield tally.finding


@dataclass(frozen=True, slots=True)
class _Reader:
    """Lists the objects of a resource in a scope, page by page."""

    lister: ListerWatcher
    resource: Resource
    transform: Transform

    async def evaluate(
        self, tallies: Sequence[Tally], counters: Sequence[Callable[[Evaluation], None]], cluster: str
    ) -> str:
        """``counters``: of these tallies. Returns why not all objects were evaluated; empty if all were."""
        failures = Failures()
        expressions = {each.expression: None for each in tallies}
        expressions |= {condition: None for each in tallies for condition in each.conditions}
        evaluator = Evaluator(self.resource, cluster, expressions, failures, with_labels=True)
        request = ListRequest(version="", limit=_PAGE)
        seen = 0
        while True:
            answer = await self.lister.list(request)
            if not isinstance(answer, Page):
                return f"expressions were evaluated on {counted(seen, 'object')} only: {answer.reason}"
            for each in answer.objects:
                thing = self.transform(each)
                evaluation = evaluator.evaluation(thing.key, thing.body, thing.body, {TIME: utc_now(), CHANGED: []}.get)
                for count in counters:
                    count(evaluation)
            seen += len(answer.objects)
            _, first = failures.take()
            for failure in first:
                for tally in tallies:
                    if tally.expression.text == failure.expression:
                        tally.reason = tally.reason or failure.reason
            if answer.next_page is None:
                return ""
            if seen >= MOST_EVALUATED:
                return f"expressions were evaluated on the first {counted(seen, 'object')} only"
            request = ListRequest(version="", limit=_PAGE, next_page=answer.next_page)


# ── Counts of values ─────────────────────────────────────────────────────────


class Tally(Protocol):
    """An expression of a sink."""

    reason: str
    """Of the first failure; empty without any."""

    @property
    def expression(self) -> Expression: ...

    @property
    def conditions(self) -> Iterator[Expression]:
        """Further expressions that decide whether the bridge would evaluate it."""

    def counter(self, resource: Resource) -> Callable[[Evaluation], None] | None:
        """Counts an object of the resource; None if the expression is not about objects of it."""

    @property
    def finding(self) -> Finding: ...


@dataclass(slots=True)
class SelectorTally:
    """An expression of an entry of ``select``, and its values on the live objects that the entry's other conditions
    choose."""

    path: str
    selector: Selector
    expression: Expression
    is_step: bool
    """True for ``when``."""
    keys: dict[bool | None, list[str]] = field(default_factory=lambda: {True: [], False: [], None: []})
    """Value → objects; None where the expression fails."""
    reason: str = ""

    @property
    def conditions(self) -> Iterator[Expression]:
        if self.selector.where is not None:
            yield self.selector.where

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


@dataclass(slots=True)
class ContentTally:
    """An expression that makes content, and whether it has a value on the live objects that the sink gets."""

    sink: str
    part: ContentPart
    selection: SinkSelection | None
    """None if the sink gets all objects."""
    made: int = 0
    failed: list[str] = field(default_factory=list)
    """Objects."""
    reason: str = ""

    @property
    def expression(self) -> Expression:
        return self.part.expression

    @property
    def conditions(self) -> Iterator[Expression]:
        return iter(()) if self.selection is None else self.selection.expressions

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
        path = f"sinks.{self.sink}.{self.part.option}"
        if self.part.makes is Makes.TEXT:
            path += f" {{{self.expression.text}}}"
        if not self.failed:
            return Finding(path, CheckResult.RIGHT, f"it has a value on each of {here}")
        fails = f"{len(self.failed)} ({self.failed[0]}: {self.reason})"
        detail = f"of {here}, it has no value on {fails}: their records would become dead letters"
        return Finding(path, CheckResult.NOTE, detail)


def selector_tallies(path: str, selectors: Sequence[Selector]) -> Iterator[Tally]:
    """``path``: of the list of these entries."""
    for index, each in enumerate(selectors):
        if each.where is not None:
            yield SelectorTally(f"{path}[{index}].where", each, each.where, is_step=False)
        if each.when is not None:
            yield SelectorTally(f"{path}[{index}].when", each, each.when, is_step=True)
