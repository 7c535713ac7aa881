"""Reads the wire format of Protocol Buffers, without a schema: the caller knows the numbers of fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

Message: TypeAlias = Mapping[int, list[int | bytes]]
"""Field number → values in their order: integers, or the bytes of a text, a message or a fixed-width number."""

_FIXED_WIDTHS = {1: 8, 5: 4}
"""Wire type → bytes."""
_LONGEST_VARINT = 10
"""Bytes of 64 bits. A client may write as many as a body holds, each of which would take the time of all before it."""


class MalformedMessage(ValueError):
    """The bytes are no message."""


def message(serialized: bytes) -> Message:
    """Raises MalformedMessage."""
    fields: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(serialized):
        tag, at = _varint(serialized, at)
        value: int | bytes
        match tag & 7:
            case 0:
                value, at = _varint(serialized, at)
            case 2:
                size, at = _varint(serialized, at)
                value, at = serialized[at : at + size], at + size
            case wire if wire in _FIXED_WIDTHS:
                value, at = serialized[at : at + _FIXED_WIDTHS[wire]], at + _FIXED_WIDTHS[wire]
            case wire:
                raise MalformedMessage(f"the wire type {wire}")
        fields.setdefault(tag >> 3, []).append(value)
    if at > len(serialized):
        raise MalformedMessage("the message is cut short")
    return fields


def number_in(fields: Message, number: int) -> int:
    # Of a field that occurs several times, the last value counts; an absent field is its default.
    value = fields.get(number, [0])[-1]
    return value if isinstance(value, int) else 0


def bytes_in(fields: Message, number: int) -> bytes:
    value = fields.get(number, [b""])[-1]
    return value if isinstance(value, bytes) else b""


def all_bytes(fields: Message, number: int) -> Iterable[bytes]:
    return (value for value in fields.get(number, []) if isinstance(value, bytes))


def text_in(fields: Message, number: int) -> str:
    """Raises UnicodeDecodeError."""
    return bytes_in(fields, number).decode()


def _varint(serialized: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _LONGEST_VARINT * 7, 7):
        if at >= len(serialized):
            raise MalformedMessage("the message is cut short")
        byte = serialized[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise MalformedMessage("a number has more than 64 bits")
