"""Adds the content to the records of a sink. Pure. Hot where options of a sink have expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from bridge.content.compile import SinkContent, compile_content
from bridge.content.recent import RecentValues
from bridge.model.formats.content import Content, ContentRequest, Include, Makes
from bridge.model.record import Delta, Record
from bridge.selection.language import EvaluationFailed, Language


def content_makers(
    sinks: Mapping[str, ContentRequest], cluster: str, language: Callable[[], Language]
) -> dict[str, ContentMaker]:
    """Name of a sink → its maker, of the sinks whose content must be made. Raises WrongContent, and the error of
    ``language``."""
    contents = {
        name: compile_content(request, f"sinks.{name}", language) for name, request in sinks.items() if request.is_made
    }
    found = (part.expression for content in contents.values() for part in content.parts)
    recent = RecentValues(cluster, found, shared=len(contents) > 1)
    return {name: ContentMaker(content, recent) for name, content in contents.items()}


class ContentMaker:
    """A function from the record that a sink gets to the same record with its content. Notices stay. Never raises: a
    failure is in the content."""

    def __init__(self, content: SinkContent, recent: RecentValues) -> None:
        self._parts = content.parts
        self._include = content.include
        self._recent = recent

    def __call__(self, record: Record) -> Record:
        return replace(record, content=self._content(record)) if isinstance(record, Delta) else record

    def _content(self, delta: Delta) -> Content:
        values = self._recent.of(delta)
        include = self._include
        data: Any = None
        texts: dict[str, str] = {}
        option = "include"
        try:
            patch = values.patch if Include.PATCH in include else None
            operations = values.json_patch if Include.JSON_PATCH in include else None
            changed = values.changed if Include.CHANGED in include else None
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
        except ValueError as error:
            return Content(failure=f"{option}: {error}")
        return Content(data, texts, patch, operations, changed, managers)


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
