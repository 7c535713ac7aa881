"""The entries of ``select``: whether each means a watched resource, and the values of expressions on live objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from bridge.check.findings import CheckResult, Finding
from bridge.informer.controller import Transform
from bridge.kube import Catalogue, KubeClient
from bridge.model.answers import ListRequest, Page
from bridge.model.change import Evidence, Op
from bridge.model.primitives.printable import counted
from bridge.model.resource import Resource, Scope
from bridge.plan.plan import Plan
from bridge.plan.redaction_key_file import likely_redaction
from bridge.resources.resolve import Resolution, rules_for
from bridge.resources.selected_resources import resolve_entries, unwatched_entries
from bridge.selection import Evaluation, Evaluator, Failures, Selector, WrongSelection, compile_selection
from bridge.selection.language import Cel, Expression, MissingLibrary
from bridge.transform.transform import transform_for

MOST_EVALUATED = 10_000
"""Objects of a resource in a scope, on which expressions are evaluated."""
_PAGE = 500


@dataclass(slots=True)
class _Tally:
    """An expression of an entry, and its values on the live objects that the entry's other conditions choose."""

    path: str
    selector: Selector
    expression: Expression
    is_step: bool
    """True for ``when``."""
    keys: dict[bool | None, list[str]] = field(default_factory=lambda: {True: [], False: [], None: []})
    """Value → objects; None where the expression fails."""
    reason: str = ""
    """Of the first failure."""

    def count(self, evaluation: Evaluation) -> None:
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


async def check_selections(
    plan: Plan, client: KubeClient, catalogue: Catalogue, resolution: Resolution, *, allowed: bool
) -> AsyncIterator[Finding]:
    """Yields a finding for each entry without a watched resource, and, if all resources may be listed (``allowed``),
    for each expression. Mistakes in expressions are for ``preflight``."""
    tallies: list[_Tally] = []
    language = cache(Cel)
    for sink in plan.sinks:
        path = f"sinks.{sink.name}.select"
        entries, _ = resolve_entries(sink.select or (), resolution, catalogue, {})
        for option, problem in unwatched_entries(entries, path, resolution):
            yield Finding(option, CheckResult.WRONG if problem.is_mistake else CheckResult.NOTE, str(problem))
        try:
            tallies += _tallies(path, compile_selection(entries, path, language).selectors)
        except (WrongSelection, MissingLibrary):
            continue
    if not allowed or not tallies:
        return
    redaction = likely_redaction(plan)
    for (_, scope), resource in resolution.desired.items():
        here = [each for each in tallies if each.selector.covers(resource)]
        if here:
            rules = rules_for(plan.wanted, resource, catalogue)
            reader = _Reader(client, resource, scope, transform_for(resource, redaction.extended(rules)))
            if problem_of_list := await reader.evaluate(here, plan.cluster):
                yield Finding(f"resources: {resource}", CheckResult.NOTE, problem_of_list)
    for tally in tallies:
        yield tally.finding


def _tallies(path: str, selectors: Sequence[Selector]) -> list[_Tally]:
    found = []
    for index, each in enumerate(selectors):
        if each.where is not None:
            found.append(_Tally(f"{path}[{index}].where", each, each.where, is_step=False))
        if each.when is not None:
            found.append(_Tally(f"{path}[{index}].when", each, each.when, is_step=True))
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Lists the objects of a resource in a scope, page by page."""

    client: KubeClient
    resource: Resource
    scope: Scope
    transform: Transform

    async def evaluate(self, tallies: Sequence[_Tally], cluster: str) -> str:
        """Returns why not all objects were evaluated; empty if all were."""
        failures = Failures()
        expressions = {each.expression: None for each in tallies}
        # An entry's own ``where`` is a condition of its ``when``.
        expressions |= {each.selector.where: None for each in tallies if each.selector.where is not None}
        evaluator = Evaluator(self.resource, cluster, expressions, failures, with_labels=True)
        lister = self.client.lister_watcher(self.resource, self.scope, managed_fields=False)
        request, seen = ListRequest(version="", limit=_PAGE), 0
        while True:
            answer = await lister.list(request)
            if not isinstance(answer, Page):
                return f"expressions were evaluated on {counted(seen, 'object')} only: {answer.reason}"
            for each in answer.objects:
                thing = self.transform(each)
                evaluation = evaluator.evaluation(thing.key, thing.body, thing.body)
                for tally in tallies:
                    tally.count(evaluation)
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
