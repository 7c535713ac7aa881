"""An authorization server on loopback: it gives tokens for client credentials, and keeps what it was asked."""

from __future__ import annotations

import json
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import parse_qs, unquote_plus

from aiohttp import web


def unsigned_jwt(subject: str = "kubedelta", lifetime: float = 3600) -> str:
    """A token that says of itself that nobody signed it. ``lifetime``: seconds from now, negative for an ended one."""
    now = time.time()
    claims = {"sub": subject, "iat": now + min(0, 2 * lifetime), "exp": now + lifetime}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return "".join(f"{urlsafe_b64encode(part).decode().rstrip('=')}." for part in parts)


class TokenServer:
    """Answers ``POST /token``. A test may replace ``answer``."""

    def __init__(self, client_id: str = "me", secret: str = "hush") -> None:
        self.client_id = client_id
        self.secret = secret
        self.lifetime: Any = 3600
        """``expires_in``; None to leave it out."""
        self.make_token: Callable[[], str] = lambda: f"token-{len(self.given) + 1}"
        self.given: list[str] = []
        """The tokens, in their order."""
        self.forms: list[dict[str, list[str]]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[], web.StreamResponse] | None = None
        """In place of a token."""
        self._port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/token"

    def accepts(self, authorization: str) -> bool:
        """Whether the newest token is in the header."""
        return authorization == f"Bearer {self.given[-1]}"

    def options(self, **more: Any) -> dict[str, Any]:
        return {"token_url": self.url, "client_id": self.client_id, **more}

    async def start(self) -> Self:
        app = web.Application()
        app.router.add_post("/token", self._token)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _token(self, request: web.Request) -> web.StreamResponse:
        form = parse_qs(await request.text(), strict_parsing=True)
        self.forms.append(form)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.answer is not None:
            return self.answer()
        if self._client(request, form) != (self.client_id, self.secret):
            return web.json_response({"error": "invalid_client"}, status=401)
        if form["grant_type"] != ["client_credentials"]:
            return web.json_response({"error": "unsupported_grant_type"}, status=400)
        self.given.append(self.make_token())
        end = {} if self.lifetime is None else {"expires_in": self.lifetime}
        return web.json_response({"access_token": self.given[-1], "token_type": "bearer", **end})

    def _client(self, request: web.Request, form: dict[str, list[str]]) -> tuple[str, ...]:
        """As RFC 6749 (2.3.1) has it."""
        header = request.headers.get("authorization", "")
        if not header:
            return form["client_id"][0], form["client_secret"][0]
        pair = b64decode(header.removeprefix("Basic ")).decode()
        return tuple(unquote_plus(part) for part in pair.split(":"))
