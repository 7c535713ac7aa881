"""Where a sink sends which messages, for schemas and for documents about a configuration. Asks no destination.

The JSON Schemas (2020-12) of events are made from the types that encode them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from bridge.model.change import Op
from bridge.model.formats.cloudevent import (
    DELTA_ATTRIBUTES,
    GAP_HEADER,
    GAP_TYPE,
    NOTICE_ATTRIBUTES,
    SNAPSHOT_ATTRIBUTE,
    SNAPSHOT_TYPES,
    STRUCTURED_JSON,
    TERM_TYPE,
    DeltaEvent,
    DeltaForm,
    GapData,
    HeaderNames,
    MadeData,
    NoticeEvent,
    SnapshotData,
    TermData,
)
from bridge.model.formats.content import JSON, TEXT
from bridge.model.formats.definitions import Definitions, JsonSchema
from sinks.options import EventOptions

NoticeKind: TypeAlias = tuple[str, list[str], type]
"""Name, types of events, and type of the data."""

NOTICE_KINDS: tuple[NoticeKind, ...] = (
    ("Gap", [GAP_TYPE], GapData),
    ("Snapshot", [*SNAPSHOT_TYPES.values()], SnapshotData),
)
TERM_NOTICE: NoticeKind = ("Term", [TERM_TYPE], TermData)
"""In streams with one writer, with an election."""


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


# ── Schemas of events ────────────────────────────────────────────────────────

_TERM = "With an election, the term of the leader."


class EventSchemas:
    """The schemas of a stream whose objects have this ``form`` (None: the object itself). The methods return
    references into ``definitions``."""

    def __init__(self, definitions: Definitions, form: DeltaForm | None) -> None:
        self._definitions = definitions
        self._form = form
        name = "object" if form is None else form.name
        self._types = [f"kubedelta.{name}.{op}.v1" for op in Op]
        self._more: JsonSchema = {"datacontenttype": {"enum": [JSON, TEXT]}} if isinstance(form, MadeData) else {}

    def data(self) -> JsonSchema:
        """The data of an object's event."""
        return self._definitions.state() if self._form is None else self._form.schema(self._definitions)

    def event(self) -> JsonSchema:
        """The structured form of an object's event."""
        return self._definitions.struct(DeltaEvent, type={"enum": self._types}, data=self.data(), **self._more)

    def headers(self, names: HeaderNames, more: JsonSchema | None = None) -> JsonSchema:
        """The headers of an object's event in the binary form. ``more``: header → schema, of headers that some events
        have."""
        attributes = _properties(DeltaEvent) | {
            **self._more,
            "type": {"enum": self._types},
            "op": {"enum": [op.value for op in Op]},
            "evidence": {"type": "string"},
            "epoch": {"type": "string", "pattern": "^[0-9]+$", "description": "The period in which an id is unique."},
        }
        return self._headers("DeltaHeaders", DELTA_ATTRIBUTES, names.delta, attributes, names, more or {})

    def notice_data(self, notice: NoticeKind) -> JsonSchema:
        return self._definitions.struct(notice[2])

    def notice_event(self, notice: NoticeKind) -> JsonSchema:
        """The structured form of a notice."""
        name, types, data = notice
        reference = self._definitions.struct(data)
        return self._definitions.struct(NoticeEvent, name=f"{name}Event", type={"enum": types}, data=reference)

    def notice_headers(self, notice: NoticeKind, names: HeaderNames) -> JsonSchema:
        """The headers of a notice in the binary form."""
        name, types, _ = notice
        attributes = _properties(NoticeEvent) | {"type": {"enum": types}}
        return self._headers(f"{name}Headers", NOTICE_ATTRIBUTES, names.notice, attributes, names, {})

    def _headers(
        self,
        name: str,
        attributes: tuple[str, ...],
        headers: tuple[str, ...],
        properties: JsonSchema,
        names: HeaderNames,
        more: JsonSchema,
    ) -> JsonSchema:
        shown = {header: properties[attribute] for attribute, header in zip(attributes, headers, strict=True)} | more
        shown[names.snapshot] = properties[SNAPSHOT_ATTRIBUTE]
        shown[names.term] = {"type": "string", "pattern": "^[0-9]+$", "description": _TERM}
        shown[GAP_HEADER] = {"type": "string", "description": "The id of the newest gap, in place of a notice."}
        return self._definitions.add(name, {"type": "object", "properties": shown, "required": list(headers)})


def _properties(struct: type) -> JsonSchema:
    schema: JsonSchema = msgspec.json.schema_components([struct])[1][struct.__name__]
    return dict(schema["properties"])
