"""Adds the content of records that a test hands to a sink itself, as the bridge does before each attempt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from bridge.model.formats.content import ContentRequest, Include, OptionExpression
from bridge.model.record import Record
from bridge.views.content_maker import content_makers
from bridge.views.language import Cel
from sinks.base import Receipt, Sink, SinkOptions


def with_content(record: Record, *expressions: OptionExpression, include: Sequence[Include] = ()) -> Any:
    """The record with the content that a single sink asks for."""
    request = ContentRequest(expressions, frozenset(include))
    makers = content_makers({"mine": request}, "prod", cache(Cel))
    return makers["mine"](record) if makers else record


class ContentSink:
    """A sink whose options ask for content, and which gets its records with it."""

    def __init__(self, sink: Sink, options: SinkOptions) -> None:
        self._sink = sink
        self._make = content_makers({"mine": options.content()}, "prod-eu1", cache(Cel))["mine"]

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        return await self._sink.deliver([self._make(record) for record in batch])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)
