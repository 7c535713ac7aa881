"""Counts the values of expressions on live objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from bridge.check.findings import CheckResult, Finding
from bridge.content import ContentPart
from bridge.model.change import Evidence, Op
from bridge.model.formats.content import Makes
from bridge.model.primitives.printable import counted
from bridge.model.resource import Resource
from bridge.selection import Evaluation, Selector, SinkSelection
from bridge.selection.language import EvaluationFailed, Expression


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
