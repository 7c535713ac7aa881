"""Makes a record an HTTP request: the route by the expressions of the options, then headers and body. All of it is on
the hot path, and runs for every record.

A replayed record keeps its ``webhook-id``. The consumer of a webhook remembers ids itself, and has had the event; the
window of a stream belongs to the transport, and would drop messages that its consumer asked for. A receiver that wants
a replay in spite of its memory forgets the ids first.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bridge.model.formats.cloudevent import (
    GAP_HEADER,
    STRUCTURED_JSON,
    STRUCTURED_JSON_BATCH,
    CloudEvents,
    HeaderNames,
    percent_encoded,
)
from bridge.model.formats.content import JSON, TEXT
from bridge.model.formats.definitions import Definitions, JsonSchema
from bridge.model.record import Delta, Record
from sinks.channels import Channel, SentMessage, notice_messages, object_messages, structured_messages
from sinks.options import Format
from sinks.webhook.options import HeaderTemplate, UrlTemplate, WebhookOptions, has_expressions


@dataclass(frozen=True, slots=True)
class Route:
    """Records with equal routes may be in the same request."""

    target: str = ""
    """Path and query; empty for those of ``url``."""
    headers: tuple[tuple[str, str], ...] = ()


SAME = Route()


_GZIP_LEVEL = 6
"""On objects, higher levels save little more and take twice the time."""
_POSTED_WITH_NOTICES = (Format.CLOUDEVENTS, Format.ENVELOPE)
_HTTP = HeaderNames.prefixed("ce-", datacontenttype="content-type")
_CONTENT_TYPE = "content-type"
_LINES = re.compile(
    r"text/.*|application/(?:(?:x-)?(?:ndjson|jsonl|jsonlines|json-lines)|stream\+json)(?:;.*)?", re.IGNORECASE
)
"""Media types of lines."""
_BATCHED = {STRUCTURED_JSON: STRUCTURED_JSON_BATCH, TEXT: JSON}
"""Media type of a message → that of a JSON array of such messages, if it is another."""
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """A request. Every retry sends the same id, headers and body."""

    id: str
    """For ``webhook-id``."""
    headers: dict[str, str]
    body: bytes
    route: Route = SAME
    """Its headers are among ``headers``."""


class WebhookEncoder:
    """CloudEvents in the structured form; envelopes, rows, objects and their data as the data of CloudEvents in the
    binary form."""

    def __init__(self, events: CloudEvents, options: WebhookOptions) -> None:
        self._events = events
        self._structured = options.format is Format.CLOUDEVENTS
        self._posts_notices = options.format in _POSTED_WITH_NOTICES
        self._content_type = options.content_type
        self._body = _body_of(events, options)
        self._url = UrlTemplate(options.url) if has_expressions(options.url) else None
        self._headers = [
            HeaderTemplate(name, value) for name, value in options.headers.items() if has_expressions(value)
        ]
        self._has_routes = self._url is not None or bool(self._headers)

    def encode(self, record: Record) -> WebhookMessage | None:
        """None for a notice in a format whose endpoints know objects only: a header of every later request names the
        gap. Raises ValueError for a record that has no such form, and for a record without a route."""
        if not self._posts_notices and not isinstance(record, Delta):
            return None
        if self._structured:
            headers = {_CONTENT_TYPE: STRUCTURED_JSON}
        else:
            headers = self._events.encoded_headers(record, _HTTP)
            if self._content_type is not None:
                headers[_CONTENT_TYPE] = self._content_type
        if (route := self._route(record)) is not SAME:
            headers |= route.headers
        return WebhookMessage(_webhook_id(record), headers, self._body(record), route)

    def _route(self, record: Record) -> Route:
        """Notices have no values, and go without headers that need some. Raises ValueError for a record whose values do
        not fit."""
        if not self._has_routes or not isinstance(record, Delta):
            return SAME
        texts = record.made.texts
        target = "" if self._url is None else self._url.render(texts)
        headers = ((each.name, each.render(texts)) for each in self._headers)
        return Route(target, tuple((name, value) for name, value in headers if value))


def _body_of(events: CloudEvents, options: WebhookOptions) -> Callable[[Record], bytes]:
    if options.format is Format.CLOUDEVENTS:
        return events.structured
    if options.content_type is not None and _LINES.fullmatch(options.content_type):
        return partial(_lines, events)
    return events.json_data if options.batch > 1 else events.data


def _lines(events: CloudEvents, record: Record) -> bytes:
    """A line, or a line for each item of a list in ``data``."""
    content = record.content if isinstance(record, Delta) else None
    if content is None or not isinstance(content.data, list):
        return _line(events.data(record))
    return b"".join(_line(each.encode() if isinstance(each, str) else _encode(each)) for each in content.data)


def _line(text: bytes) -> bytes:
    return text if text.endswith(b"\n") else text + b"\n"


def batch_of(messages: Sequence[WebhookMessage], options: WebhookOptions) -> WebhookMessage:
    """Several messages of the same route in one request: lines one after another, and structured messages, rows or data
    as a JSON array, in their order, which ``wrap`` may stand around. The id is a hash of their ids."""
    ids = hashlib.sha256("\n".join(message.id for message in messages).encode())
    first = messages[0]
    content_type = first.headers[_CONTENT_TYPE]
    if _LINES.fullmatch(content_type):
        body = b"".join(message.body for message in messages)
    else:
        before, behind = options.around_batch
        body = before + b",".join(message.body for message in messages) + behind
        content_type = _BATCHED.get(content_type, content_type)
    headers = {_CONTENT_TYPE: content_type, **dict(first.route.headers)}
    if GAP_HEADER in first.headers:
        headers[GAP_HEADER] = first.headers[GAP_HEADER]
    return WebhookMessage(f"batch/{ids.hexdigest()[:32]}", headers, body, first.route)


def compressed(message: WebhookMessage) -> WebhookMessage:
    """The message with its body in gzip. Equal messages give equal bytes. Blocks: some 10 ms for each MiB."""
    # mtime=0: a retry sends the same bytes.
    body = gzip.compress(message.body, _GZIP_LEVEL, mtime=0)
    return replace(message, headers=message.headers | {"content-encoding": "gzip"}, body=body)


def _webhook_id(record: Record) -> str:
    # The signed text is id.timestamp.body: a dot in the id would make it ambiguous.
    return percent_encoded(record.unique_id).replace(".", "%2E")


def _schema_around(records: JsonSchema, document: Any) -> JsonSchema:
    """Of the document, with the records in its empty list."""
    if document == []:
        return records
    if not isinstance(document, dict):
        return {"const": document}
    members = {name: _schema_around(records, each) for name, each in document.items()}
    return {"type": "object", "properties": members, "required": list(members)}


def channels(options: WebhookOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    """The endpoint. Its path may be a credential, so only the host is shown."""
    if options.format is Format.CLOUDEVENTS:
        messages = structured_messages(options, cluster, definitions)
    else:
        messages = object_messages(options, cluster, definitions, _HTTP)
        if options.content_type is not None:
            messages = tuple(replace(message, content_type=options.content_type) for message in messages)
        if options.format in _POSTED_WITH_NOTICES:
            messages += notice_messages(definitions, _HTTP)
    if options.batch > 1 and not _LINES.fullmatch(messages[0].content_type):
        content_type = _BATCHED.get(messages[0].content_type, messages[0].content_type)
        items = {"anyOf": [message.payload for message in messages]}
        payload = _schema_around({"type": "array", "items": items}, json.loads(options.wrap or "[]"))
        messages = (SentMessage("Batch", payload, None, content_type),)
    url = urlsplit(options.url)
    return [Channel(name="endpoint", address=None, messages=messages, protocol=url.scheme, host=url.netloc)]
