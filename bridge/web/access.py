"""Access to a server of the bridge: for clients on this machine, and for holders of its token."""

from __future__ import annotations

import hmac
from pathlib import Path

from aiohttp import web
from yarl import URL

from bridge.model.primitives.addresses import is_loopback

LARGEST_TOKEN = 4096
"""Bytes."""
_FORWARDED = (
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Forwarded-Host",
    "X-Real-IP",
    "X-Request-Id",
    "Via",
)
"""Headers that proxies add, the sidecar of a service mesh included, which connects from 127.0.0.6."""


class TokenFile:
    """A bearer token in a file. The file is read at each request with a token, so the token may be rotated."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str:
        """Returns the token. Raises ValueError with the reason if the file has none."""
        try:
            with self._path.open("rb") as file:
                text = file.read(LARGEST_TOKEN + 1).decode("ascii").strip()
        except UnicodeDecodeError:
            raise ValueError(f"{self._path} holds more than ASCII text; a token is expected") from None
        except OSError as error:
            raise ValueError(f"cannot read {self._path}: {error.strerror}") from error
        if not text or len(text) > LARGEST_TOKEN or not text.isprintable() or " " in text:
            raise ValueError(f"{self._path} must hold a single token of at most {LARGEST_TOKEN} characters")
        return text

    def opens(self, authorization: str) -> bool:
        """Whether this ``Authorization`` header has the token."""
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return False
        try:
            token = self.read()
        except ValueError:
            return False
        # compare_digest refuses text beyond ASCII, and a header may hold any bytes (as surrogates).
        return hmac.compare_digest(given.strip().encode(errors="replace"), token.encode())


def is_local(request: web.Request) -> bool:
    """Whether the client itself is on this machine. Requests with a proxy's headers are not local, since the proxy's
    address hides the client's; nor are requests with a foreign Host, which a web page can send (DNS rebinding)."""
    forwarded = any(name in request.headers for name in _FORWARDED)
    return not forwarded and is_loopback(request.remote or "") and is_loopback(host_of(request))


def host_of(request: web.Request) -> str:
    """The host of the Host header, without the port; empty for an invalid header."""
    try:
        return URL(f"http://{request.host}").host or ""
    except ValueError:
        return ""
