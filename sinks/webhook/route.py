"""Where a record is posted, and with which headers, if the options have expressions for that. Hot where they do."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.model.record import Delta, Record
from sinks.webhook.options import WebhookOptions
from sinks.webhook.template import HeaderTemplate, UrlTemplate, has_expressions


@dataclass(frozen=True, slots=True)
class Route:
    """Records with equal routes may be in the same request."""

    target: str = ""
    """Path and query; empty for those of ``url``."""
    headers: tuple[tuple[str, str], ...] = ()


SAME = Route()


class Router:
    """The route of each record."""

    def __init__(self, options: WebhookOptions) -> None:
        self._url = UrlTemplate(options.url) if has_expressions(options.url) else None
        self._headers = [
            HeaderTemplate(name, value) for name, value in options.headers.items() if has_expressions(value)
        ]
        self._is_needed = self._url is not None or bool(self._headers)

    def route(self, record: Record) -> Route:
        """Notices have no values, and go without headers that need some. Raises ValueError for a record whose values do
        not fit."""
        if not self._is_needed or not isinstance(record, Delta):
            return SAME
        texts = record.made.texts
        target = "" if self._url is None else self._url.render(texts)
        headers = ((each.name, each.render(texts)) for each in self._headers)
        return Route(target, tuple((name, value) for name, value in headers if value))
