"""Where a sink sends which messages, for schemas and for documents about a configuration. Asks no destination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bridge.model.formats.cloudevent import STRUCTURED_JSON, HeaderNames
from bridge.model.formats.content import JSON
from bridge.model.formats.definitions import Definitions, JsonSchema
from bridge.model.formats.schema import NOTICE_KINDS, EventSchemas, NoticeKind
from sinks.options import EventOptions


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A kind of message."""

    name: str
    payload: JsonSchema
    headers: JsonSchema | None = None
    """None for a message without headers of events."""
    content_type: str = JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A place for messages."""

    name: str
    """Unique within the sink."""
    address: str | None
    """A topic, a subject or a path, with the placeholders of a template; None if the address is a secret."""
    messages: tuple[SentMessage, ...]
    protocol: str = ""
    """Such as kafka or https; empty for a channel without a server."""
    host: str = ""
    """With its port."""
    key: JsonSchema | None = None
    """The schema of the key of a Kafka record."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Placeholders of the address, with their descriptions."""


def structured_messages(options: EventOptions, cluster: str, definitions: Definitions) -> tuple[SentMessage, ...]:
    """Events in the structured form, and the notices among them."""
    schemas = EventSchemas(definitions, options.form(cluster))
    notices = (SentMessage(kind[0], schemas.notice_event(kind), None, STRUCTURED_JSON) for kind in NOTICE_KINDS)
    return SentMessage("Delta", schemas.event(), None, STRUCTURED_JSON), *notices


def object_messages(
    options: EventOptions,
    cluster: str,
    definitions: Definitions,
    names: HeaderNames | None = None,
    more: JsonSchema | None = None,
) -> tuple[SentMessage, ...]:
    """The data of events about objects. ``names``: of their headers in the binary form; None without headers. ``more``:
    header → schema, of headers that some events have."""
    schemas = EventSchemas(definitions, options.form(cluster))
    headers = None if names is None else schemas.headers(names, more)
    return (SentMessage("Delta", schemas.data(), headers),)


def notice_messages(
    options: EventOptions,
    cluster: str,
    definitions: Definitions,
    names: HeaderNames,
    kinds: Sequence[NoticeKind] = NOTICE_KINDS,
) -> tuple[SentMessage, ...]:
    """Notices in the binary form."""
    schemas = EventSchemas(definitions, options.form(cluster))
    return tuple(SentMessage(kind[0], schemas.notice_data(kind), schemas.notice_headers(kind, names)) for kind in kinds)
