"""Records as the headers and the body of a request. Hot."""

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
from sinks.base import Format

_HTTP = HeaderNames.prefixed("ce-", datacontenttype="content-type")


@dataclass(frozen=True, slots=True)
class Message:
    """What is posted. It is the same however often it is posted."""

    id: str
    """For ``webhook-id``."""
    headers: dict[str, str]
    body: bytes


class MessageEncoder:
    def __init__(self, events: CloudEvents, form: Format) -> None:
        self._events = events
        self._structured = form is Format.CLOUDEVENTS

    def single(self, record: Record) -> Message:
        """Raises ValueError for a record that has no such form."""
        if self._structured:
            return Message(_webhook_id(record), {"content-type": STRUCTURED_JSON}, self._events.structured(record))
        headers = self._events.encoded_headers(record, _HTTP)
        return Message(_webhook_id(record), headers, self._events.data(record))


def batch_of(messages: Sequence[Message]) -> Message:
    """Several structured messages as one, in their order. Its id is made of theirs."""
    ids = hashlib.sha256("\n".join(message.id for message in messages).encode())
    body = b"[" + b",".join(message.body for message in messages) + b"]"
    return Message(f"batch/{ids.hexdigest()[:32]}", {"content-type": STRUCTURED_JSON_BATCH}, body)


def _webhook_id(record: Record) -> str:
    # A dot divides the id from the timestamp in what is signed, so an id must not have one.
    return percent_encoded(record.unique_id).replace(".", "%2E")
