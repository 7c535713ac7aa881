"""Records as the headers and the body of an HTTP request. Hot."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from bridge.model.formats.cloudevent import (
    GAP_HEADER,
    JSON,
    STRUCTURED_JSON,
    STRUCTURED_JSON_BATCH,
    CloudEvents,
    HeaderNames,
    percent_encoded,
)
from bridge.model.formats.definitions import Definitions
from bridge.model.record import Delta, Record
from sinks.channels import Channel, SentMessage, notice_messages, object_messages, structured_messages
from sinks.options import Format
from sinks.webhook.options import WebhookOptions

_GZIP_LEVEL = 6
"""On objects, higher levels save little more and take twice the time."""
_POSTED_WITH_NOTICES = (Format.CLOUDEVENTS, Format.ENVELOPE)
_HTTP = HeaderNames.prefixed("ce-", datacontenttype="content-type")


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """A request. Every retry sends the same id, headers and body."""

    id: str
    """For ``webhook-id``."""
    headers: dict[str, str]
    body: bytes


class WebhookEncoder:
    """CloudEvents in the structured form; envelopes, rows and objects as the data of CloudEvents in the binary form."""

    def __init__(self, events: CloudEvents, form: Format) -> None:
        self._events = events
        self._structured = form is Format.CLOUDEVENTS
        self._posts_notices = form in _POSTED_WITH_NOTICES

    def encode(self, record: Record) -> WebhookMessage | None:
        """None for a notice in a format whose endpoints know objects only: a header of every later request names the
        gap. Raises ValueError for a record that has no such form."""
        if not self._posts_notices and not isinstance(record, Delta):
            return None
        if self._structured:
            return WebhookMessage(
                _webhook_id(record), {"content-type": STRUCTURED_JSON}, self._events.structured(record)
            )
        headers = self._events.encoded_headers(record, _HTTP)
        return WebhookMessage(_webhook_id(record), headers, self._events.data(record))


def batch_of(messages: Sequence[WebhookMessage]) -> WebhookMessage:
    """Several structured messages, or several rows, as a single request with a JSON array, in their order. The id is a
    hash of their ids."""
    ids = hashlib.sha256("\n".join(message.id for message in messages).encode())
    body = b"[" + b",".join(message.body for message in messages) + b"]"
    first = messages[0].headers
    events = first["content-type"] == STRUCTURED_JSON
    headers = {"content-type": STRUCTURED_JSON_BATCH if events else JSON}
    if GAP_HEADER in first:
        headers[GAP_HEADER] = first[GAP_HEADER]
    return WebhookMessage(f"batch/{ids.hexdigest()[:32]}", headers, body)


def compressed(message: WebhookMessage) -> WebhookMessage:
    """The message with its body in gzip. Equal messages give equal bytes. Blocks: some 10 ms for each MiB."""
    # mtime=0: a retry sends the same bytes.
    body = gzip.compress(message.body, _GZIP_LEVEL, mtime=0)
    return replace(message, headers=message.headers | {"content-encoding": "gzip"}, body=body)


def _webhook_id(record: Record) -> str:
    # The signed text is id.timestamp.body: a dot in the id would make it ambiguous.
    return percent_encoded(record.unique_id).replace(".", "%2E")


def channels(options: WebhookOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    """The endpoint. Its path may be a credential, so only the host is shown."""
    if options.format is Format.CLOUDEVENTS:
        messages = structured_messages(options, cluster, definitions)
    else:
        messages = object_messages(options, cluster, definitions, _HTTP)
        if options.format in _POSTED_WITH_NOTICES:
            messages += notice_messages(options, cluster, definitions, _HTTP)
    if options.batch > 1:
        content_type = STRUCTURED_JSON_BATCH if options.format is Format.CLOUDEVENTS else JSON
        items = {"anyOf": [message.payload for message in messages]}
        messages = (SentMessage("Batch", {"type": "array", "items": items}, None, content_type),)
    url = urlsplit(options.url)
    return [Channel(name="endpoint", address=None, messages=messages, protocol=url.scheme, host=url.netloc)]
