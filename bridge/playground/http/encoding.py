"""JSON as Go writes it: characters with a meaning in HTML and JavaScript are escaped (``encoding/json``,
SetEscapeHTML)."""

from __future__ import annotations

from typing import Any

import msgspec

_plain = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="sorted")

_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def encode(value: Any, *, sort: bool = False) -> bytes:
    """Compact JSON; with ``sort``, the members of every object are sorted by name, as Go writes maps."""
    text = (_sorted if sort else _plain).encode(value)
    # These bytes occur only inside of strings, so a plain replacement is safe.
    for found, escaped in _ESCAPES:
        if found in text:
            text = text.replace(found, escaped)
    return text


def decode(text: bytes) -> Any:
    """Raises msgspec.DecodeError."""
    return msgspec.json.decode(text)
