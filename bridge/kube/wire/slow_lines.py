"""Reads the lines of a watch that ``frames`` leaves: bookmarks, errors, and lines in another format than Go's. Pure."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from bridge.kube.wire.bounds import Version
from bridge.kube.wire.nesting import members
from bridge.kube.wire.objects import UNREADABLE, LeftBare, bare, read_object, text_at, too_deep
from bridge.kube.wire.status import error_answer, read_status, shortened
from bridge.model.answers import Bookmark, ErrorAnswer, EventType, Failed, Unreadable, WatchAnswer
from bridge.model.object import ApiObject
from bridge.model.resource import Resource

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a WatchList's initial events (KEP-3157)."""

TYPES = {each.value: each for each in EventType}

Event: TypeAlias = tuple[EventType, ApiObject]


class _AnyLine(msgspec.Struct, gc=False):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw()
    kind: str = ""


class _BookmarkMetadata(msgspec.Struct):
    resource_version: Version = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, Any] | None = None


class _BookmarkObject(msgspec.Struct):
    metadata: _BookmarkMetadata


_decode_any_line = msgspec.json.Decoder(_AnyLine).decode
_decode_bookmark = msgspec.json.Decoder(_BookmarkObject).decode


class SlowLines:
    """Used by a single task. The parameters are those of ``Frames``."""

    def __init__(self, resource: Resource, *, initial_events: bool, managed_fields: bool, longest_line: int) -> None:
        self._resource = resource
        self._initial_events = initial_events
        self._managed_fields = managed_fields
        self._longest_line = longest_line
        self.left_bare: list[str] = []
        """See ``Frames.left_bare``."""

    def read(self, raw: bytes) -> Event | WatchAnswer | None:
        """The answer in a line; None for a blank line, and for an object that is left out. An ErrorAnswer ends the
        stream."""
        if not raw.strip():
            return None
        try:
            found = _decode_any_line(raw)
        except RecursionError:
            return self._bare(raw, too_deep(raw))
        except UNREADABLE as error:
            return Unreadable(shortened(f"a line of {len(raw)} bytes is not a watch event: {error}"))
        if found.kind == "Status":  # Without an event around it: the server failed after it had said 200.
            return self._status(raw)
        if bytes(found.object) in {b"", b"null"}:
            return Unreadable(f"a line of {len(raw)} bytes is not a watch event: it has no object")
        match found.type:
            case "BOOKMARK":
                return _bookmark(found.object)
            case "ERROR":
                return self._status(found.object)
            case EventType.ADDED | EventType.MODIFIED | EventType.DELETED:
                thing = read_object(found.object, self._resource, managed_fields=self._managed_fields)
                return self._event_of(found.type, thing)
            case _:
                return Unreadable(shortened(f"an event of unknown type {found.type!r}"))

    def too_long(self, line: bytes | memoryview) -> Event | Unreadable:
        """The event of a line that is longer than ``longest_line``, from its first bytes."""
        reason = f"it is longer than {self._longest_line} bytes"
        return self._bare(bytes(line[: self._longest_line]), reason) or Unreadable(f"a line is left out: {reason}")

    def _status(self, body: bytes | msgspec.Raw) -> ErrorAnswer:
        status = read_status(body)
        if status is None:
            return Failed("an ERROR event without a Status")
        return error_answer(status.code, status, unusual=self._initial_events)

    def _event_of(self, kind: str, thing: ApiObject | LeftBare | str) -> Event | Unreadable | None:
        if isinstance(thing, str):
            return Unreadable(shortened(f"{kind}: {thing}"))
        if isinstance(thing, LeftBare):
            self.left_bare.append(shortened(thing.reason))
            if thing.object is None:
                return None
            thing = thing.object
        return TYPES[kind], thing

    def _bare(self, line: bytes, reason: str) -> Event | Unreadable | None:
        """The event of a line that no decoder can read, with the object's identity. The line may be cut off. None for
        an object that is left out."""
        kind, start = "", -1
        for key, begin, end in members(line, len(line) - len(line.lstrip())):
            if key == b'"type"':
                kind = text_at(line, begin, end)
            elif key == b'"object"':
                start = begin
        if kind not in TYPES or start < 0:
            return Unreadable(shortened(f"a line is not a watch event that can be read: {reason}"))
        return self._event_of(kind, bare(line, self._resource, reason, at=start))


def _bookmark(body: msgspec.Raw) -> Bookmark | Unreadable:
    try:
        metadata = _decode_bookmark(body).metadata
    except UNREADABLE as error:
        return Unreadable(shortened(f"BOOKMARK: {error}"))
    if not metadata.resource_version:
        return Unreadable("BOOKMARK: no metadata.resourceVersion")
    return Bookmark(metadata.resource_version, (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true")
