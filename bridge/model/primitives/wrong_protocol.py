"""Signs that one side speaks HTTP and the other HTTPS. Pure."""

from __future__ import annotations

import ssl

_COMPLAINTS = (
    b"HTTP request to an HTTPS server",  # Go
    b"plain HTTP request was sent to HTTPS port",  # nginx
    b"speaking plain HTTP to an SSL-enabled server port",  # Apache
)
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
"""What OpenSSL calls an answer that begins like one of HTTP."""
BEGINNING = 1024
"""Bytes of an answer in which a server complains."""


def wants_https(status: int, beginning: bytes) -> bool:
    """An answer to plain HTTP, from a server that speaks HTTPS on this port."""
    return status == 400 and any(words in beginning for words in _COMPLAINTS)


def wants_http(error: BaseException | None) -> bool:
    """A handshake failed because the server speaks plain HTTP on this port."""
    return isinstance(error, ssl.SSLError) and error.reason in _NO_TLS
