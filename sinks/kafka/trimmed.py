"""Makes smaller forms of a record that is too large for its topic (option ``too_large``)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridge.model.formats.cloudevent import GAP_HEADER
from bridge.model.formats.content import Content
from bridge.model.object import bare_body
from bridge.model.record import Delta, Record
from sinks.kafka.encode import TRIMMED, KafkaMessage

_INCLUDED = "include"
_ANNOTATIONS = "metadata.annotations"
_STATUS = "status"
_BARE = "object"

_read = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode
_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class TrimmedForms:
    """The forms of a record, each smaller than the one before: without what the option ``include`` adds, without
    annotations, without the status, and the bare object. Parts that a record lacks anyway make no form."""

    def __init__(self, encode: Callable[[Record], KafkaMessage], *, includes: bool) -> None:
        """``includes``: records have what ``include`` adds."""
        self._encode = encode
        self._parts = ([_INCLUDED] if includes else []) + [_ANNOTATIONS, _STATUS, _BARE]

    def next(self, record: Record, message: KafkaMessage) -> KafkaMessage | None:
        """The form after ``message``, which is the record as it was encoded, or a form of it; both name the same gap.
        None behind the bare object, and for a notice. Raises ValueError as ``encode`` does."""
        if not isinstance(record, Delta):
            return None
        had = message.headers.get(TRIMMED, b"").decode().split(",")
        gone = [part for part in had if part]
        if _BARE in gone:
            return None
        trimmed = record
        for part in self._parts:
            smaller = _without(trimmed, part)
            if part not in gone and smaller is not trimmed:
                again = self._encode(smaller)
                again.headers[TRIMMED] = ",".join([*gone, part]).encode()
                if gap := message.headers.get(GAP_HEADER):
                    again.headers[GAP_HEADER] = gap
                return again
            trimmed = smaller
        return None


def _without(delta: Delta, part: str) -> Delta:
    """The same delta if it lacks the part."""
    if part in (_INCLUDED, _BARE):
        if part == _INCLUDED and delta.before is None:
            return delta
        body = bare_body(delta.resource, delta.key, delta.uid, delta.resource_version) if part == _BARE else delta.body
        return msgspec.structs.replace(delta, body=body, before=None, content=delta.content and Content())
    smaller = _body_without(delta.body, part)
    return delta if smaller is None else msgspec.structs.replace(delta, body=smaller)


def _body_without(body: bytes, part: str) -> bytes | None:
    """None if the object lacks the part, or cannot be read. Every other member keeps its bytes."""
    *parents, member = part.split(".")
    try:
        found = _read(body)
        if parents:
            inner = _body_without(bytes(found[parents[0]]), member)
            return None if inner is None else _write(found | {parents[0]: msgspec.Raw(inner)})
        return None if found.pop(member, None) is None else _write(found)
    except (KeyError, *_UNREADABLE):
        return None
