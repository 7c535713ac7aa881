"""The entries of ``select``: whether each means a watched resource; and the values of all expressions of sinks on live
objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from bridge.check.findings import CheckResult, Finding
from bridge.check.tallies import ContentTally, Tally, selector_tallies
from bridge.content import WrongContent, compile_content
from bridge.informer.controller import Transform
from bridge.kube import Catalogue, KubeClient
from bridge.model.answers import ListerWatcher, ListRequest, Page
from bridge.model.primitives.printable import counted
from bridge.model.resource import Resource
from bridge.outbox import utc_now
from bridge.plan.plan import Plan
from bridge.plan.redaction_key_file import likely_redaction
from bridge.resources.resolve import Resolution, rules_for
from bridge.resources.selected_resources import resolve_entries, unwatched_entries
from bridge.selection import Evaluation, Evaluator, Failures, WrongSelection, compile_selection
from bridge.selection.language import CHANGED, TIME, Cel, MissingLibrary
from bridge.transform.transform import transform_for

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
        path, selection = f"sinks.{sink.name}.select", None
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
    redaction = likely_redaction(plan)
    for (_, scope), resource in resolution.desired.items():
        here = {index: count for index, each in enumerate(tallies) if (count := each.counter(resource)) is not None}
        if here:
            rules = rules_for(plan.wanted, resource, catalogue)
            lister = client.lister_watcher(resource, scope, managed_fields=False, shard=plan.shard)
            reader = _Reader(lister, resource, transform_for(resource, redaction.extended(rules)))
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
        request, seen = ListRequest(version="", limit=_PAGE), 0
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
