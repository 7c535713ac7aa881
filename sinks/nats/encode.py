"""Records as messages: subject, headers, payload. Hot."""

from __future__ import annotations

import re

import msgspec

from bridge.model.formats.cloudevent import JSON, CloudEvents, HeaderNames, percent_encoded
from bridge.model.record import Record
from sinks.nats.options import NatsOptions
from sinks.template import Template

MSG_ID = "Nats-Msg-Id"
EXPECTED_STREAM = "Nats-Expected-Stream"
EXPECTED_LAST_MSG_ID = "Nats-Expected-Last-Msg-Id"

LONGEST_SUBJECT = 2048
"""Bytes. The server ends a connection whose line of subject, reply and sizes is longer than 4096."""

# The binding wants ce-datacontenttype; several SDKs look for content-type, and one that does not begin with
# application/cloudevents says to both that the form is binary.
_NATS = HeaderNames.prefixed("ce-", datacontenttype="ce-datacontenttype")
_CONTENT_TYPE = "content-type"
_UNSAFE = re.compile(r"[^A-Za-z0-9:-]")
_PREAMBLE = len("NATS/1.0\r\n\r\n")
_PER_HEADER = len(": \r\n")


class Message(msgspec.Struct, frozen=True, gc=False):
    id: str
    """For ``Nats-Msg-Id``."""
    subject: str
    headers: dict[str, str]
    payload: bytes
    size: int
    """Bytes of headers and payload, which the server counts together against its max_payload."""

    def after(self, previous: str) -> tuple[dict[str, str], int]:
        """Headers and size of this message as one that is stored only behind the message of that id."""
        headers = self.headers | {EXPECTED_LAST_MSG_ID: previous}
        return headers, self.size + len(EXPECTED_LAST_MSG_ID) + len(previous) + _PER_HEADER

    def again(self, sequence: int) -> Message:
        """This message under an id that the stream does not know, where it knows this one and has lost the message
        with that sequence number. Made of both alone, so that a second attempt at it has the same id."""
        identity = f"{self.id}/again/{sequence}"
        size = self.size + len(identity) - len(self.id)
        return Message(identity, self.subject, self.headers | {MSG_ID: identity}, self.payload, size)


class MessageEncoder:
    def __init__(self, options: NatsOptions, cluster: str, events: CloudEvents | None = None) -> None:
        self._events = events or options.events(cluster)
        self._stream = options.stream
        self._subject = Template(options.subject, cluster, escaped)

    def message(self, record: Record) -> Message:
        """Raises ValueError for a record that has no such form."""
        subject = self._subject.render(record)
        if len(subject) > LONGEST_SUBJECT:
            raise ValueError(f"its subject would have {len(subject)} bytes; {LONGEST_SUBJECT} are the most")
        identity = percent_encoded(record.delivery_id)
        headers = self._events.encoded_headers(record, _NATS)
        headers |= {MSG_ID: identity, EXPECTED_STREAM: self._stream, _CONTENT_TYPE: JSON}
        payload = self._events.data(record)
        return Message(identity, subject, headers, payload, _size(headers) + len(payload))


def escaped(value: str) -> str:
    """A value as one token of a subject. No two values give the same, and none gives what a template writes for an
    empty one."""
    if value == ".":
        return "=2E"
    return _UNSAFE.sub(_escape, value)


def _escape(found: re.Match[str]) -> str:
    return "_" if found[0] == "." else "".join(f"={byte:02X}" for byte in found[0].encode())


def stream_subjects(options: NatsOptions, cluster: str) -> list[str]:
    """What a stream must take to store everything that this sink publishes."""
    subject = Template(options.subject, cluster, escaped).wildcard("*")
    return [".".join("*" if "*" in token else token for token in subject.split("."))]


def _size(headers: dict[str, str]) -> int:
    return _PREAMBLE + sum(map(len, headers)) + sum(map(len, headers.values())) + _PER_HEADER * len(headers)
