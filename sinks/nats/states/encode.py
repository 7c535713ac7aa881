"""The newest record of an object, as an entry of a bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bridge.model.change import Op
from bridge.model.primitives.election import TermBegan
from bridge.model.record import Delta, Record
from sinks.channels import Channel, SentMessage
from sinks.nats.encode import (
    EXPECTED_STREAM,
    MAX_SUBJECT,
    MSG_ID,
    NatsMessage,
    escaped,
    headers_size,
)
from sinks.nats.options import NatsOptions
from sinks.template import Template

KEY = "{cluster}.{group}.{resource}.{namespace}.{name}"
_MARKER = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
"""What clients of key-value buckets send to purge a key."""
_EXPIRY = {"Nats-TTL": "24h"}
"""A reader that was away for longer compares the keys."""


class EntryEncoder:
    """The payload and the CloudEvents headers are those of the history. A deleted object has a purge marker, which
    replaces all values of its key."""

    def __init__(
        self,
        options: NatsOptions,
        cluster: str,
        encode: Callable[[Record], NatsMessage],
        term: Callable[[TermBegan], NatsMessage],
    ) -> None:
        """``encode``: a record as a message of the history. ``term``: the notice that begins a term there."""
        self._encode_history, self._term_of_history = encode, term
        self._stream = options.state_stream
        self._subject = Template(f"$KV.{options.state}.{KEY}", cluster, key_part)

    def encode(self, record: Record, *, expires: bool) -> NatsMessage:
        """``expires``: the bucket may remove markers. Raises ValueError as the encoder of the history does, and when
        the key would be too long."""
        message = self._encode_history(record)
        subject = self._subject.render(record)
        if len(subject) > MAX_SUBJECT:
            raise ValueError(f"its key would have {len(subject)} bytes; {MAX_SUBJECT} are the most")
        if isinstance(record, Delta) and record.op is Op.DELETED:
            return self._marker(message, subject, expires)
        return self._entry(message, subject, message.payload, {})

    def term(self, began: TermBegan, *, expires: bool) -> NatsMessage:
        """A marker under the key of notices, which no object has: readers of the bucket take it for a deleted key."""
        return self._marker(self._term_of_history(began), self._subject.of_notices(), expires)

    def _marker(self, message: NatsMessage, subject: str, expires: bool) -> NatsMessage:
        return self._entry(message, subject, b"", _MARKER | (_EXPIRY if expires else {}))

    def _entry(self, message: NatsMessage, subject: str, payload: bytes, further: dict[str, str]) -> NatsMessage:
        headers = {name: value for name, value in message.headers.items() if name != MSG_ID}
        headers |= {EXPECTED_STREAM: self._stream} | further
        return NatsMessage(message.id, subject, headers, payload, headers_size(headers) + len(payload))


def key_part(value: str) -> str:
    """A value as one part of a key: like a token of a subject, and a colon, which keys may not have, becomes =3A."""
    return escaped(value).replace(":", "=3A")


def channel_of_state(
    options: NatsOptions, cluster: str, objects: Sequence[SentMessage], protocol: str, host: str
) -> Iterator[Channel]:
    """The bucket, if the options name one."""
    if options.state is not None:
        template = Template(f"$KV.{options.state}.{KEY}", cluster, key_part)
        gone = "A purge marker: the object is gone."
        begun = f" Under {template.of_notices()}: a leader begins its term." if options.fences else ""
        marker = {"type": "string", "maxLength": 0, "description": gone + begun}
        yield Channel(
            name="state",
            address=template.of_cluster(),
            messages=(*objects, SentMessage("Purge", marker, objects[0].headers)),
            protocol=protocol,
            host=host,
            parameters=template.parameters(),
        )
