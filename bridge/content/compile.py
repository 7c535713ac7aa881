"""The expressions in a sink's options → SinkContent, with all mistakes at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from bridge.model.formats.content import ContentRequest, Include, Makes
from bridge.selection.language import Expression, ExpressionProblem, Language, Purpose

_PURPOSES = {Makes.DATA: Purpose.DATA, Makes.TEXT: Purpose.TEXT}


class WrongContent(ValueError):
    """The message has a line for each mistake: the path of the option, the column, the found and the allowed text."""


@dataclass(frozen=True, slots=True)
class ContentPart:
    """A compiled expression of an option."""

    option: str
    """Its path in the sink's options."""
    makes: Makes
    expression: Expression


@dataclass(frozen=True, slots=True)
class SinkContent:
    """The content that a sink asks for."""

    parts: tuple[ContentPart, ...]
    include: frozenset[Include]


def compile_content(request: ContentRequest, path: str, language: Callable[[], Language]) -> SinkContent:
    """``path``: of the sink, such as ``sinks.chat``. A language returns the same Expression for the same text, so that
    the options of several sinks evaluate it once. Raises WrongContent, and the error of ``language`` if its library is
    not installed."""
    parts, problems = [], []
    for each in request.expressions:
        try:
            compiled = language().compile(each.text, _PURPOSES[each.makes])
        except ExpressionProblem as problem:
            if problem.line == 1:
                problem = dataclasses.replace(problem, column=problem.column + each.offset)
            problems.append(f"{path}.{each.option}: {problem}")
        else:
            parts.append(ContentPart(each.option, each.makes, compiled))
    if problems:
        raise WrongContent("\n".join(problems))
    return SinkContent(tuple(parts), request.include)
