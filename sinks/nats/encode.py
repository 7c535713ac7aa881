"""Makes records messages: subject, headers, payload. This is on the hot path: it runs for every record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from bridge.model.formats.cloudevent import TERM_TYPE, CloudEvents, HeaderNames, TermData, percent_encoded
from bridge.model.formats.definitions import Definitions
from bridge.model.record import Record, TermBegan
from bridge.model.versions import number_of
from sinks.channels import NOTICE_KINDS, TERM_NOTICE, Channel, SentMessage, notice_messages, object_messages
from sinks.nats.options import NatsOptions
from sinks.template import Template

MSG_ID = "Nats-Msg-Id"
EXPECTED_STREAM = "Nats-Expected-Stream"
EXPECTED_LAST_SEQUENCE = "Nats-Expected-Last-Sequence"
_KEY = "{cluster}.{group}.{resource}.{namespace}.{name}"
"""Of an object in the bucket."""
_DIGITS = len(str(2**64))
ROOM_FOR_SEQUENCE = len(EXPECTED_LAST_SEQUENCE) + _DIGITS + len(": \r\n")
"""Bytes that ``behind`` adds, whatever the number: a size that fits once fits always."""

MAX_SUBJECT = 2048
"""Bytes. The server closes a connection whose line of subject, reply and sizes is longer than 4096."""

# The NATS binding of CloudEvents wants ce-datacontenttype, several SDKs look for content-type. Both recognise the
# binary form by a content type that does not begin with application/cloudevents.
_DATA_TYPE = "ce-datacontenttype"
NATS_NAMES = HeaderNames.prefixed("ce-", datacontenttype=_DATA_TYPE)
_CONTENT_TYPE = "content-type"
_ID = "ce-id"
_TYPE = "ce-type"
_UNSAFE = re.compile(r"[^A-Za-z0-9:-]")
_PREAMBLE = len("NATS/1.0\r\n\r\n")
_PER_HEADER = len(": \r\n")


# gc=False: the collector would otherwise look at thousands of short-lived messages.
class NatsMessage(msgspec.Struct, frozen=True, gc=False):
    """A record as a message: subject, headers and payload."""

    id: str
    """For ``Nats-Msg-Id``."""
    subject: str
    headers: dict[str, str]
    payload: bytes
    size: int
    """Bytes of headers and payload: the server compares their sum with its max_payload."""

    def behind(self, sequence: int) -> tuple[dict[str, str], int]:
        """Headers and size of this message with the number of the stream's last message: the stream stores the message
        only if that is still its last."""
        headers = self.headers | {EXPECTED_LAST_SEQUENCE: str(sequence).zfill(_DIGITS)}
        return headers, self.size + ROOM_FOR_SEQUENCE

    def again(self, sequence: int) -> NatsMessage:
        """This message with a new id, for a stream that knows the id but has lost the message with this number. The new
        id is made of both alone, so that another attempt uses the same id."""
        identity = f"{self.id}/again/{sequence}"
        size = self.size + len(identity) - len(self.id)
        return NatsMessage(identity, self.subject, self.headers | {MSG_ID: identity}, self.payload, size)

    def within(self, max_payload: int, room: int) -> NatsMessage:
        """This message. ``room``: bytes that it must leave. Raises ValueError if it is too large: the server would
        close the connection because of it, each time it is sent."""
        if self.size + room > max_payload:
            left = f", and {room} for the number of the message before it" if room else ""
            raise ValueError(f"{self.size} bytes with its headers{left}; the server takes {max_payload}")
        return self


class NatsEncoder:
    """The binary form of CloudEvents for NATS: the object is the payload, the attributes are headers."""

    def __init__(self, options: NatsOptions, cluster: str, events: CloudEvents | None = None) -> None:
        self._events = events or options.events(cluster)
        self._stream = options.stream
        self._subject = Template(options.subject, cluster, escaped)

    def encode(self, record: Record) -> NatsMessage:
        """Raises ValueError when the subject would have more than 2048 bytes."""
        subject = self._subject.render(record)
        if len(subject) > MAX_SUBJECT:
            raise ValueError(f"its subject would have {len(subject)} bytes; {MAX_SUBJECT} are the most")
        return self._message(record, record.delivery_id, subject)

    def term(self, began: TermBegan) -> NatsMessage:
        """The message that begins a term."""
        return self._message(began, began.id, self._subject.of_notices())

    def before_term(self, began: TermBegan, former: int, number: int) -> NatsMessage:
        """One of the notices in front of that which begins a term. The leader of the term writes it, and it says that
        records of the ``former`` term may come; 0: of any term."""
        notice = self.term(replace(began, term=former))
        identity = f"{began.id}/{number}"
        own = {_ID: identity, MSG_ID: identity, NATS_NAMES.term: str(began.term)}
        headers = notice.headers | own
        return NatsMessage(
            identity, notice.subject, headers, notice.payload, headers_size(headers) + len(notice.payload)
        )

    def _message(self, record: Record | TermBegan, delivery_id: str, subject: str) -> NatsMessage:
        identity = percent_encoded(delivery_id)
        headers = self._events.encoded_headers(record, NATS_NAMES)
        headers |= {MSG_ID: identity, _CONTENT_TYPE: headers[_DATA_TYPE]}
        if self._stream is not None:
            headers[EXPECTED_STREAM] = self._stream
        payload = self._events.data(record)
        return NatsMessage(identity, subject, headers, payload, headers_size(headers) + len(payload))


@dataclass(frozen=True, slots=True)
class LastTerm:
    """The term of a message in the stream."""

    term: int
    """0 for a message without one."""
    began: bool = True
    """False for a notice in front of that which begins the term."""


def term_of(headers: Mapping[str, object], payload: bytes) -> LastTerm | None:
    """None if the term is no number."""
    said = str(headers.get(NATS_NAMES.term, ""))  # nats-py gives bytes beyond ASCII as another type.
    term = number_of(said) if said else 0
    if term is None or headers.get(_TYPE) != TERM_TYPE or not payload:
        return None if term is None else LastTerm(term)
    try:
        return LastTerm(term, began=msgspec.json.decode(payload, type=TermData).term == term)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def escaped(value: str) -> str:
    """A value as one token of a subject. Two different values give two different tokens, and no value gives ``_``,
    which stands for an absent value."""
    if value == ".":
        return "=2E"
    return _UNSAFE.sub(_escape, value)


def _escape(found: re.Match[str]) -> str:
    return "_" if found[0] == "." else "".join(f"={byte:02X}" for byte in found[0].encode())


def _key_part(value: str) -> str:
    """A value as one part of a key: like a token of a subject, and a colon, which keys may not have, becomes =3A."""
    return escaped(value).replace(":", "=3A")


def key_subject(options: NatsOptions, cluster: str) -> Template:
    """The subject of an object's key in the bucket."""
    return Template(f"$KV.{options.state}.{_KEY}", cluster, _key_part)


def stream_subjects(options: NatsOptions, cluster: str) -> list[str]:
    """The subjects that the stream must take, so that it stores every message of this sink."""
    subject = Template(options.subject, cluster, escaped).wildcard("*")
    return [".".join("*" if "*" in token else token for token in subject.split("."))]


def headers_size(headers: dict[str, str]) -> int:
    """Bytes of the headers in a message."""
    # As the server counts: the preamble, and a separator and a line break for each header.
    return _PREAMBLE + sum(map(len, headers)) + sum(map(len, headers.values())) + _PER_HEADER * len(headers)


# ── For schemas and documents ────────────────────────────────────────────────


def channels(options: NatsOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    """The subjects of objects, the subject of notices, and the bucket."""
    template = Template(options.subject, cluster, escaped)
    server = urlsplit(options.servers[0])
    host = server.netloc.rpartition("@")[2]
    kinds = (*NOTICE_KINDS, TERM_NOTICE) if options.fences else NOTICE_KINDS
    objects = object_messages(options, cluster, definitions, NATS_NAMES)
    return [
        Channel(
            name="objects",
            address=template.of_cluster(),
            messages=objects,
            protocol=server.scheme,
            host=host,
            parameters=template.parameters(),
        ),
        Channel(
            name="notices",
            address=template.of_notices(),
            messages=notice_messages(definitions, NATS_NAMES, kinds),
            protocol=server.scheme,
            host=host,
        ),
        *_channel_of_state(options, cluster, objects, server.scheme, host),
    ]


def _channel_of_state(
    options: NatsOptions, cluster: str, objects: Sequence[SentMessage], protocol: str, host: str
) -> Iterator[Channel]:
    """The bucket, if the options name one."""
    if options.state is not None:
        template = key_subject(options, cluster)
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
