"""Decides who may have an answer of a server of the bridge: whoever has its token, or, without one, a client on this
machine.

The token decides first, so wrong tokens of somebody else lock nobody out. They are counted for each client, and beyond
ten in a minute the answer is 429 with the time to wait, so that nobody fills the log with them.

Nothing in a request proves that its client is on this machine: a proxy there connects from a loopback address, may add
no header that says so, and may write the name of the loopback into Host (nginx does, by default). So ``is_local`` opens
only what a server without a token shows; where a token is configured, it alone decides.
"""

from __future__ import annotations

import hmac
from math import ceil
from pathlib import Path
from time import monotonic

from aiohttp import web

from bridge.model.primitives.network import client_of, is_loopback

# ── By a token ───────────────────────────────────────────────────────────────

LARGEST_TOKEN = 4096
"""Bytes."""
_AUTHENTICATE = {"WWW-Authenticate": 'Bearer realm="kubedelta"'}


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


class TokenGate:
    """Lets in who has the token. It is compared first, in constant time: wrong tokens of somebody else behind the same
    address lock nobody out. They are counted, and beyond some the answer names the wait."""

    def __init__(self, token: TokenFile, option: str) -> None:
        """``option``: the path of the option with the file, for answers."""
        self._token = token
        self._option = option
        self._wrong = WrongTokens()

    def expect(self, request: web.Request) -> None:
        """Raises HTTPUnauthorized without the token, and HTTPTooManyRequests for one more wrong token."""
        given = request.headers.get("Authorization")
        if given is not None and self._token.opens(given):
            return
        client = client_of(request.remote or "")
        now = monotonic()
        if wait := self._wrong.wait_of(client, now):
            again = {"Retry-After": str(ceil(wait))}
            raise web.HTTPTooManyRequests(text="too many wrong tokens from this address\n", headers=again)
        if given is None:
            reason = f"the token of {self._option} is needed"
        else:
            reason = "wrong token"
            self._wrong.add(client, now)
        raise web.HTTPUnauthorized(text=f"{reason}\n", headers=_AUTHENTICATE)


MOST = 10
"""Wrong tokens of a client within ``WINDOW`` that are counted one by one."""
WINDOW = 60.0
"""Seconds."""
_MOST_CLIENTS = 1000


class WrongTokens:
    """Clients are addresses. Beyond a thousand of them, the client whose window began first is forgotten."""

    def __init__(self) -> None:
        self._clients: dict[str, tuple[float, int]] = {}
        """Client → the beginning of its window, and its wrong tokens since."""

    def wait_of(self, client: str, now: float) -> float:
        """Seconds until wrong tokens of the client are counted again; 0 for at once. ``now``: on a monotonic clock."""
        began, count = self._clients.get(client, (now, 0))
        return max(0.0, began + WINDOW - now) if count >= MOST else 0.0

    def add(self, client: str, now: float) -> None:
        """The client has sent a wrong token."""
        began, count = self._clients.get(client, (now, 0))
        if now - began >= WINDOW:
            began = now
            count = 0
            del self._clients[client]
        self._clients[client] = began, count + 1
        if len(self._clients) > _MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]


# ── From this machine ────────────────────────────────────────────────────────

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


def expect_local_name(request: web.Request, host: str) -> None:
    """Raises HTTPMisdirectedRequest for a foreign Host on a server that listens on a loopback address ``host``: a web
    page could read it through a name that points at 127.0.0.1 (DNS rebinding)."""
    if is_loopback(host) and not is_loopback(host_of(request)):
        raise web.HTTPMisdirectedRequest(text="this server answers to localhost alone\n")


def is_local(request: web.Request) -> bool:
    """Whether nothing says that the client is on another machine: neither its address, nor Host, nor a proxy's
    header."""
    forwarded = any(name in request.headers for name in _FORWARDED)
    return not forwarded and is_loopback(request.remote or "") and is_loopback(host_of(request))


def host_of(request: web.Request) -> str:
    """The host of the Host header, without the port; empty without one."""
    # Not ``request.host``, which asks DNS for this machine's name where the header is missing.
    given = request.headers.get("Host", "")
    host, _, port = given.rpartition(":")
    return host if port.isdecimal() else given
