"""Who may read the details of ``/readyz?verbose``: this machine, and whoever has the token."""

from __future__ import annotations

import hmac
import ipaddress
from pathlib import Path

from aiohttp import web
from yarl import URL

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
"""What proxies add, those included that connect from 127.0.0.6 as the sidecar of a service mesh does."""


class TokenFile:
    """A bearer token in a file, read at each request that brings one: it may be rotated."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str:
        """Raises ValueError, with the reason, where the file holds no token."""
        try:
            with self._path.open("rb") as file:
                text = file.read(LARGEST_TOKEN + 1).decode("ascii").strip()
        except UnicodeDecodeError:
            raise ValueError(f"{self._path} holds more than ASCII text; one token is expected") from None
        except OSError as error:
            raise ValueError(f"cannot read {self._path}: {error.strerror}") from error
        if not text or len(text) > LARGEST_TOKEN or not text.isprintable() or " " in text:
            raise ValueError(
                f"{self._path} must hold one token of at most {LARGEST_TOKEN} characters, and nothing else"
            )
        return text

    def opens(self, authorization: str) -> bool:
        """Whether this ``Authorization`` header carries the token."""
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return False
        try:
            token = self.read()
        except ValueError:
            return False
        return hmac.compare_digest(given.strip().encode(errors="replace"), token.encode())


def is_local(request: web.Request) -> bool:
    """Whether somebody on this machine asks, for themselves. A proxy's address is not its client's; and a web page
    reaches this machine under a name of its own (DNS rebinding)."""
    forwarded = any(name in request.headers for name in _FORWARDED)
    return not forwarded and is_loopback(request.remote or "") and is_loopback(host_of(request))


def host_of(request: web.Request) -> str:
    """Of the Host header, without the port."""
    try:
        return URL(f"http://{request.host}").host or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
