"""Records as the headers and the body of an HTTP request. Hot."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from bridge.model.formats.cloudevent import (
    STRUCTURED_JSON,
    STRUCTURED_JSON_BATCH,
    CloudEvents,
    HeaderNames,
    percent_encoded,
)
from bridge.model.record import Record
from sinks.options import Format

_HTTP = HeaderNames.prefixed("ce-", datacontenttype="content-type")


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """A request. Every retry sends the same id, headers and body."""

    id: str
    """For ``webhook-id``."""
    headers: dict[str, str]
    body: bytes


class WebhookEncoder:
    """CloudEvents in the structured form; envelopes as the data of a CloudEvent in the binary form."""

    def __init__(self, events: CloudEvents, form: Format) -> None:
        self._events = events
        self._structured = form is Format.CLOUDEVENTS

    def encode(self, record: Record) -> WebhookMessage:
        """Raises ValueError for a record that has no such form."""
        if self._structured:
            return WebhookMessage(
                _webhook_id(record), {"content-type": STRUCTURED_JSON}, self._events.structured(record)
            )
        headers = self._events.encoded_headers(record, _HTTP)
        return WebhookMessage(_webhook_id(record), headers, self._events.data(record))


def batch_of(messages: Sequence[WebhookMessage]) -> WebhookMessage:
    """Several structured messages as a single request, in their order. The id is a hash of their ids."""
    ids = hashlib.sha256("\n".join(message.id for message in messages).encode())
    body = b"[" + b",".join(message.body for message in messages) + b"]"
    return WebhookMessage(f"batch/{ids.hexdigest()[:32]}", {"content-type": STRUCTURED_JSON_BATCH}, body)


def _webhook_id(record: Record) -> str:
    # The signed text is id.timestamp.body: a dot in the id would make it ambiguous.
    return percent_encoded(record.unique_id).replace(".", "%2E")
