"""Turns the bytes of a watch into answers. It reads every byte of every watch: the hottest part of the hot path.

A line is ``{"type":"MODIFIED","object":{…}}``: Go writes it compact, with these members in this order. Type and
metadata are decoded in a single pass, and the object is sliced out of the line (``Frames``). Bookmarks, errors, and
lines in another format than Go's take the slower way of ``SlowLines``, to the same answers.

For a bridge with a shard, most lines are about objects of other shards. kube-apiserver writes the identity of its own
kinds in front of everything else. So a line of another shard is known by its beginning, and is neither decoded nor
copied (``ShardFrames``).
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec

from bridge.kube.wire.objects import (
    DEEPEST,
    LONGEST_NAME,
    UNREADABLE,
    Head,
    LeftBare,
    Version,
    bare,
    deeper_than,
    is_utf8,
    may_be_deep,
    members,
    names_a_secret,
    read_object,
    text_at,
    too_deep,
)
from bridge.kube.wire.status import error_answer, read_status, shortened
from bridge.model.answers import Announced, Bookmark, ErrorAnswer, EventType, Failed, Unreadable, WatchAnswer
from bridge.model.object import ApiObject, cut, object_key
from bridge.model.primitives.shard import Shard
from bridge.model.resource import Resource

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a WatchList's initial events (KEP-3157)."""

LONGEST_LINE = 16 << 20
"""Bytes, as for an object in a list. Only the identity of an object in a longer line is kept."""

TYPES = {each.value: each for each in EventType}

_PREFIXES = {each.value: b'{"type":"%b","object":' % each.value.encode() for each in EventType}

Event: TypeAlias = tuple[EventType, ApiObject]


# ── Lines in Go's format ──────────────────────────────────────────────────────


class _GoLine(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A line in Go's format. Further members would be sliced into the object, so they are an error here, and the line
    takes the slower way."""

    type: str
    object: Head


_decode_line = msgspec.json.Decoder(_GoLine).decode


class Frames:
    """Reads the stream of a watch. Used by a single task."""

    def __init__(
        self,
        resource: Resource,
        *,
        initial_events: bool = False,
        managed_fields: bool = True,
        longest_line: int = LONGEST_LINE,
    ) -> None:
        """``longest_line`` is in bytes. ``initial_events`` marks a WatchList. If ``managed_fields`` is False, they are
        cut out."""
        self._may_be_deep = may_be_deep(resource)
        self._managed_fields = managed_fields
        self._longest_line = longest_line
        self._slow = SlowLines(
            resource, initial_events=initial_events, managed_fields=managed_fields, longest_line=longest_line
        )
        self._unfinished: list[bytes] = []
        self._unfinished_size = 0
        self._beyond: Event | Unreadable | None = None
        """The answer for a line that is too long, until its end; the rest of the line is dropped."""
        self.left_bare = self._slow.left_bare
        """Objects reduced to their identity: name and reason. The reader of this list may clear it."""
        self.ended = False
        """The last answer ended the stream. Later bytes are ignored."""

    @property
    def mid_line(self) -> bool:
        """The bytes so far end within a line. At the end of a stream, that line is lost."""
        return self._unfinished_size > 0 or self._beyond is not None

    def feed(self, chunk: bytes) -> list[WatchAnswer]:
        """The answers in the lines that ``chunk`` completes, in order; neighbouring events share an Announced. The cuts
        between chunks have no other effect. Answers hold copies, so they do not keep the chunk in memory."""
        if self.ended:
            return []
        # Only \n ends a line: U+0085 and U+2028 are ordinary characters inside of JSON strings.
        if self._beyond is not None:
            return self._pass_over(self._beyond, chunk)
        end = chunk.rfind(b"\n") + 1
        if not end:
            return self._keep(chunk)
        whole = chunk
        if self._unfinished:
            whole = b"".join((*self._unfinished, chunk[:end]))
            self._forget_unfinished()
        answers = self._read(whole, end if whole is chunk else len(whole))
        if end < len(chunk) and not self.ended:
            answers += self._keep(chunk[end:])
        return answers

    def _keep(self, part: bytes) -> list[WatchAnswer]:
        # Joined once, at the end of the line: joining at every chunk would be quadratic.
        self._unfinished.append(part)
        self._unfinished_size += len(part)
        if self._unfinished_size > self._longest_line:
            self._beyond = self._slow.too_long(b"".join(self._unfinished))
            self._forget_unfinished()
        return []

    def _pass_over(self, beyond: Event | Unreadable, chunk: bytes) -> list[WatchAnswer]:
        end = chunk.find(b"\n")
        if end < 0:
            return []
        self._beyond = None
        answer: WatchAnswer = Announced([beyond]) if isinstance(beyond, tuple) else beyond
        return [answer, *self.feed(chunk[end + 1 :])]

    def _read(self, lines: bytes, end: int) -> list[WatchAnswer]:
        answers: list[WatchAnswer] = []
        events: list[Event] = []
        view = memoryview(lines)  # The decoder reads each line without a copy.
        start = 0
        while start < end:
            stop = lines.index(b"\n", start)
            answer = self._event(lines, view, start, stop) or self._unusual(view[start:stop])
            if isinstance(answer, tuple):
                events.append(answer)
            elif answer is not None:
                if events:
                    answers.append(Announced(events))
                    events = []
                answers.append(answer)
                if self.ended:
                    return answers
            start = stop + 1
        if events:
            answers.append(Announced(events))
        return answers

    def _event(self, lines: bytes, view: memoryview, start: int, stop: int) -> Event | None:
        """The event of a line in Go's format; None for all other lines."""
        if stop - start > self._longest_line:
            return None
        try:
            line = _decode_line(view[start:stop])
        except UNREADABLE:
            return None
        head = line.object
        metadata = head.metadata
        prefix = _PREFIXES.get(line.type)
        if (
            prefix is None
            or metadata is None
            or not (head.kind and head.api_version and metadata.name and metadata.uid and metadata.resource_version)
            or head.kind == "Table"
            or len(metadata.name) > LONGEST_NAME
            or not lines.startswith(prefix, start)
            or not lines.endswith(b"}}", start, stop)
        ):
            return None
        start += len(prefix)
        stop -= 1
        if self._managed_fields:
            body, stripped = lines[start:stop], False
        else:
            body, stripped = cut(lines, start, stop, bytes(metadata.managed_fields), bytes(metadata.annotations))
        if not (body.isascii() or is_utf8(body)) or (self._may_be_deep and deeper_than(body, DEEPEST)):
            return None
        key = object_key(metadata.namespace, metadata.name)
        is_secret = head.kind == "Secret" and names_a_secret(head)
        thing = ApiObject(key, metadata.uid, metadata.resource_version, body, stripped, is_secret)
        return TYPES[line.type], thing

    def _unusual(self, line: memoryview) -> Event | WatchAnswer | None:
        answer = self._slow.too_long(line) if len(line) > self._longest_line else self._slow.read(bytes(line))
        if isinstance(answer, ErrorAnswer):
            self.ended = True
            self._forget_unfinished()
        return answer

    def _forget_unfinished(self) -> None:
        self._unfinished.clear()
        self._unfinished_size = 0


# ── Other lines ───────────────────────────────────────────────────────────────


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
        """Objects reduced to their identity: name and reason."""

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


# ── Lines of a shard ──────────────────────────────────────────────────────────

# Names in printable ASCII, without escapes. [ -~] without " and \\.
_BEGINNING = re.compile(
    rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":\{"kind":"\w{1,100}","apiVersion":"[\w./-]{1,300}","metadata":\{'
    rb'"name":"([ !#-\[\]-~]{1,300})",(?:"generateName":"[ !#-\[\]-~]{1,300}",)?(?:"namespace":"([\w.-]{1,300})",)?'
    rb'"uid":"([\w-]{1,100})","resourceVersion":"([0-9]{1,20})"'
)


class ShardFrames(Frames):
    """Reads the stream of a watch. Objects of other shards may have no body; whoever takes the answers drops them."""

    def __init__(
        self, resource: Resource, shard: Shard, *, initial_events: bool = False, managed_fields: bool = True
    ) -> None:
        super().__init__(resource, initial_events=initial_events, managed_fields=managed_fields)
        self._shard = shard

    def _event(self, lines: bytes, view: memoryview, start: int, stop: int) -> Event | None:
        if (found := _BEGINNING.match(lines, start, stop)) is not None:
            kind, name, namespace, uid, version = (each.decode() if each else "" for each in found.groups())
            key = object_key(namespace, name)
            if not self._shard.contains(uid, key):
                return TYPES[kind], ApiObject(key, uid, version, b"")
        return super()._event(lines, view, start, stop)
