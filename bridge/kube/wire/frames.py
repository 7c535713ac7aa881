"""Turns the bytes of a watch into answers. Pure. The hottest file of the room, which reads every byte. Hot.

A line is ``{"type":"MODIFIED","object":{…}}``: Go writes it compact, with these members in this order. Type and
metadata are decoded in a single pass, and the object is sliced out of the line. Other lines take the slower way of
``slow_lines``, to the same answers.
"""

from __future__ import annotations

import msgspec

from bridge.kube.wire.bounds import LONGEST_NAME
from bridge.kube.wire.nesting import deeper_than
from bridge.kube.wire.objects import DEEPEST, UNREADABLE, Head, is_utf8, may_be_deep, names_a_secret
from bridge.kube.wire.slow_lines import TYPES, Event, SlowLines
from bridge.model.answers import Announced, ErrorAnswer, EventType, Unreadable, WatchAnswer
from bridge.model.object import ApiObject, cut, object_key
from bridge.model.resource import Resource

LONGEST_LINE = 16 << 20
"""Bytes, as for an object in a list. Only the identity of an object in a longer line is kept."""

_PREFIXES = {each.value: b'{"type":"%b","object":' % each.value.encode() for each in EventType}


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
