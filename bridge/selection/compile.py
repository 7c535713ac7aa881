"""The texts of the configuration → a SinkSelection, with all mistakes at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from bridge.model.change import Op
from bridge.model.policies import OnError
from bridge.model.selector import LabelSelector, SelectorError
from bridge.selection.language.expression import Expression, ExpressionProblem, Language, Purpose
from bridge.selection.selector import EVERY_OP, Selector, SinkSelection


class WrongSelection(ValueError):
    """The message has a line for each mistake: the path of the option, the column, the found and the allowed text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorText:
    """An entry of ``select`` as it is written; see Selector. ``resource`` is a full name already."""

    resource: str
    namespaces: Collection[str] = ()
    label_selector: str = ""
    where: str | None = None
    operations: Collection[Op] = EVERY_OP
    when: str | None = None
    on_error: OnError = OnError.SELECT


def compile_selection(entries: Sequence[SelectorText], path: str, language: Callable[[], Language]) -> SinkSelection:
    """``path``: of the list, such as ``sinks.chat.select``. ``language`` is called only for an expression, since its
    library may not be installed. A language returns the same Expression for the same text, so that selections of
    several sinks evaluate it once. Raises WrongSelection."""
    compiler = _Compiler(language)
    selectors = [compiler.selector(entry, f"{path}[{index}]") for index, entry in enumerate(entries)]
    if compiler.problems:
        raise WrongSelection("\n".join(compiler.problems))
    return SinkSelection(tuple(selectors))


class _Compiler:
    def __init__(self, language: Callable[[], Language]) -> None:
        self._language = language
        self.problems: list[str] = []

    def selector(self, entry: SelectorText, path: str) -> Selector:
        return Selector(
            resource=entry.resource,
            namespaces=frozenset(entry.namespaces),
            labels=self._labels(entry.label_selector, path),
            where=self._expression(entry.where, Purpose.WHERE, f"{path}.where"),
            operations=frozenset(entry.operations),
            when=self._expression(entry.when, Purpose.WHEN, f"{path}.when"),
            on_error=entry.on_error,
        )

    def _labels(self, text: str, path: str) -> LabelSelector:
        try:
            return LabelSelector.parse(text)
        except SelectorError as error:
            self.problems.append(f"{path}.label_selector: {error}")
            return LabelSelector()

    def _expression(self, text: str | None, purpose: Purpose, path: str) -> Expression | None:
        if text is None:
            return None
        try:
            return self._language().compile(text, purpose)
        except ExpressionProblem as problem:
            self.problems.append(f"{path}: {problem}")
            return None
