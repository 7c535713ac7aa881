"""Where a sink sends which messages, for schemas and for documents about a configuration. Asks no destination.

The JSON Schemas (2020-12) of events are made from the types that encode them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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


class NoticeKind(NamedTuple):
    name: str
    types: Sequence[str]
    """Of its events."""
    data: type


NOTICE_KINDS = (
    NoticeKind("Gap", [GAP_TYPE], GapData),
    NoticeKind("Snapshot", [*SNAPSHOT_TYPES.values()], SnapshotData),
)
TERM_NOTICE = NoticeKind("Term", [TERM_TYPE], TermData)
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
    objects = _ObjectSchemas(definitions, options.form(cluster))
    notices = (SentMessage(kind.name, _notice_event(kind, definitions), None, STRUCTURED_JSON) for kind in NOTICE_KINDS)
    return SentMessage("Delta", objects.event(), None, STRUCTURED_JSON), *notices


def object_messages(
    options: EventOptions,
    cluster: str,
    definitions: Definitions,
    names: HeaderNames | None = None,
    more: JsonSchema | None = None,
) -> tuple[SentMessage, ...]:
    """The data of events about objects. ``names``: of their headers in the binary form; None without headers. ``more``:
    header → schema, of headers that some events have."""
    objects = _ObjectSchemas(definitions, options.form(cluster))
    headers = None if names is None else objects.headers(names, more or {})
    return (SentMessage("Delta", objects.data(), headers),)


def notice_messages(
    definitions: Definitions, names: HeaderNames, kinds: Sequence[NoticeKind] = NOTICE_KINDS
) -> tuple[SentMessage, ...]:
    """Notices in the binary form."""
    return tuple(
        SentMessage(kind.name, definitions.struct(kind.data), _notice_headers(kind, definitions, names))
        for kind in kinds
    )


# ── Schemas of events: references into the definitions ───────────────────────

_TERM = "With an election, the term of the leader."


class _ObjectSchemas:
    """The schemas of a stream whose objects have this ``form``; None for the object itself."""

    def __init__(self, definitions: Definitions, form: DeltaForm | None) -> None:
        self._definitions = definitions
        self._form = form
        name = "object" if form is None else form.name
        self._types = [f"kubedelta.{name}.{op}.v1" for op in Op]
        self._more: JsonSchema = {"datacontenttype": {"enum": [JSON, TEXT]}} if isinstance(form, MadeData) else {}

    def data(self) -> JsonSchema:
        return self._definitions.state() if self._form is None else self._form.schema(self._definitions)

    def event(self) -> JsonSchema:
        """The structured form."""
        return self._definitions.struct(DeltaEvent, type={"enum": self._types}, data=self.data(), **self._more)

    def headers(self, names: HeaderNames, more: JsonSchema) -> JsonSchema:
        """The headers in the binary form."""
        attributes = _properties(DeltaEvent) | {
            **self._more,
            "type": {"enum": self._types},
            "op": {"enum": [op.value for op in Op]},
            "evidence": {"type": "string"},
            "epoch": {"type": "string", "pattern": "^[0-9]+$", "description": "The period in which an id is unique."},
        }
        own = dict(zip(names.delta, map(attributes.__getitem__, DELTA_ATTRIBUTES), strict=True))
        return _headers("DeltaHeaders", own, more, attributes, self._definitions, names)


def _notice_event(kind: NoticeKind, definitions: Definitions) -> JsonSchema:
    """The structured form."""
    data = definitions.struct(kind.data)
    return definitions.struct(NoticeEvent, name=f"{kind.name}Event", type={"enum": kind.types}, data=data)


def _notice_headers(kind: NoticeKind, definitions: Definitions, names: HeaderNames) -> JsonSchema:
    """The headers in the binary form."""
    attributes = _properties(NoticeEvent) | {"type": {"enum": kind.types}}
    own = dict(zip(names.notice, map(attributes.__getitem__, NOTICE_ATTRIBUTES), strict=True))
    return _headers(f"{kind.name}Headers", own, {}, attributes, definitions, names)


def _headers(
    name: str,
    own: JsonSchema,
    more: JsonSchema,
    attributes: JsonSchema,
    definitions: Definitions,
    names: HeaderNames,
) -> JsonSchema:
    """``own``: the headers of every event; ``more``: those of some."""
    properties = {
        **own,
        **more,
        names.snapshot: attributes[SNAPSHOT_ATTRIBUTE],
        names.term: {"type": "string", "pattern": "^[0-9]+$", "description": _TERM},
        GAP_HEADER: {"type": "string", "description": "The id of the newest gap, in place of a notice."},
    }
    return definitions.add(name, {"type": "object", "properties": properties, "required": list(own)})


def _properties(struct: type) -> JsonSchema:
    schema: JsonSchema = msgspec.json.schema_components([struct])[1][struct.__name__]
    return dict(schema["properties"])
