"""Signs that a client and a server do not agree on HTTP or HTTPS. Pure."""

from __future__ import annotations

import ssl

_COMPLAINTS = (
    b"HTTP request to an HTTPS server",  # Go
    b"plain HTTP request was sent to HTTPS port",  # nginx
    b"speaking plain HTTP to an SSL-enabled server port",  # Apache
)
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
"""OpenSSL's reasons for a TLS handshake that is answered in plain HTTP."""
BEGINNING = 1024
"""Bytes: servers complain within the beginning of the answer."""


def wants_https(status: int, beginning: bytes) -> bool:
    """Whether an answer to plain HTTP comes from a server that speaks HTTPS on the port."""
    return status == 400 and any(words in beginning for words in _COMPLAINTS)


def wants_http(error: BaseException | None) -> bool:
    """Whether a TLS handshake failed because the server speaks plain HTTP on the port."""
    return isinstance(error, ssl.SSLError) and error.reason in _NO_TLS
