"""Adds the content to the records of a sink. Pure. Hot where options of a sink have expressions.

Content is made of what others wrote into objects. So no failure of it is a failure of the bridge: what the content of a
record raises is the reason for which that record alone is rejected.

The expression of ``data`` is evaluated before each attempt, on the record as it leaves. Its failure is a rejection by
the sink, so nothing is lost, order is kept, the reason is stored, and a retry after a correction delivers. The object
in place of the data would break the receiver, and leak members that the expression leaves out; to skip the record would
lose it silently. The price: an expression that forgets about a missing member fills the dead letters until somebody
looks. ``kubedelta check`` evaluates it on every live object before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from bridge.content.compile import SinkContent, compile_content
from bridge.content.recent import RecentValues
from bridge.model.formats.content import DIFFERENCES, Content, ContentRequest, Include, Makes
from bridge.model.record import Delta, Record
from bridge.selection.language import EvaluationFailed, Language

_encode = msgspec.json.Encoder().encode


def content_makers(
    sinks: Mapping[str, ContentRequest], cluster: str, language: Callable[[], Language]
) -> dict[str, ContentMaker]:
    """Name of a sink → its maker, of the sinks whose content must be made. Raises WrongContent, and the error of
    ``language``."""
    contents = {
        name: compile_content(request, f"sinks.{name}", language) for name, request in sinks.items() if request.is_made
    }
    expressions = [part.expression for content in contents.values() for part in content.parts]
    include = frozenset(each for content in contents.values() for each in content.include)
    recent = RecentValues(cluster, expressions, include, shared=len(contents) > 1)
    return {name: ContentMaker(content, recent) for name, content in contents.items()}


class ContentMaker:
    """A function from the record that a sink gets to the same record with its content. Notices stay. Never raises: a
    failure is in the content. All makers share values, so that one runs at a time."""

    def __init__(self, content: SinkContent, recent: RecentValues) -> None:
        self._parts = content.parts
        self._include = content.include
        self._recent = recent

    def __call__(self, record: Record) -> Record:
        return replace(record, content=self._content(record)) if isinstance(record, Delta) else record

    def _content(self, delta: Delta) -> Content:
        include = self._include
        data: Any = None
        texts: dict[str, str] = {}
        option = "include"
        try:
            values = self._recent.of(delta)
            found = None if DIFFERENCES.isdisjoint(include) else values.differences
            managers = values.managers if Include.MANAGERS in include else None
            for part in self._parts:
                option = part.option
                value = values.evaluation.value_of_step(part.expression, delta.op, delta.evidence)
                if part.makes is Makes.DATA:
                    data = value
                else:
                    texts[part.expression.text] = _text(value)
        except EvaluationFailed as error:
            return Content(failure=f"{option}: {part.expression.why_failed(error)}")
        except Exception as error:
            # A bug, or no memory: for this record alone. The error's own text may have values of the object.
            return Content(failure=f"{option}: the content cannot be made: {type(error).__name__}")
        if found is None:
            return Content(data, texts, managers=managers)
        changed = None if found.changed is None else _encode(found.changed)
        return Content(data, texts, found.patch, found.json_patch, changed, managers, uncompared=found.uncompared)


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
