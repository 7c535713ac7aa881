"""Makes JSON Schemas (2020-12) of events, from the types that encode them."""

from __future__ import annotations

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

NoticeKind: TypeAlias = tuple[str, list[str], type]
"""Name, types of events, and type of the data."""

NOTICE_KINDS: tuple[NoticeKind, ...] = (
    ("Gap", [GAP_TYPE], GapData),
    ("Snapshot", [*SNAPSHOT_TYPES.values()], SnapshotData),
)
TERM_NOTICE: NoticeKind = ("Term", [TERM_TYPE], TermData)
"""In streams with one writer, with an election."""


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
