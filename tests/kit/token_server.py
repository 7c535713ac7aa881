"""An authorization server on loopback: it gives tokens for client credentials, and keeps what it was asked."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from aiohttp import web

from tests.kit.webhook_receiver import Posted, WebhookReceiver


class TokenServer(WebhookReceiver):
    """Answers ``POST /token``."""

    def __init__(self, client_id: str = "me", secret: str = "hush") -> None:
        super().__init__(path="/token")
        self.client_id = client_id
        self.secret = secret
        self.lifetime: Any = 3600
        """``expires_in``; None to leave it out."""
        self.make_token: Callable[[], str] = lambda: f"token-{len(self.given) + 1}"
        self.given: list[str] = []
        """The tokens, in their order."""
        self.forms: list[dict[str, list[str]]] = []
        self.instead: Callable[[], web.StreamResponse] | None = None
        """Of a token."""

    def accepts(self, authorization: str) -> bool:
        """Whether the newest token is in the header."""
        return authorization == f"Bearer {self.given[-1]}"

    def options(self, **more: Any) -> dict[str, Any]:
        return {"token_url": self.url, "client_id": self.client_id, **more}

    async def _respond(self, request: web.Request, posted: Posted) -> web.StreamResponse:
        form = parse_qs(posted.body.decode(), strict_parsing=True)
        self.forms.append(form)
        if self.instead is not None:
            return self.instead()
        if self._client(posted, form) != (self.client_id, self.secret):
            return web.json_response({"error": "invalid_client"}, status=401)
        if form["grant_type"] != ["client_credentials"]:
            return web.json_response({"error": "unsupported_grant_type"}, status=400)
        self.given.append(self.make_token())
        end = {} if self.lifetime is None else {"expires_in": self.lifetime}
        return web.json_response({"access_token": self.given[-1], "token_type": "bearer", **end})

    def _client(self, posted: Posted, form: dict[str, list[str]]) -> tuple[str, ...]:
        """As RFC 6749 (2.3.1) has it."""
        header = posted.headers.get("authorization", "")
        if not header:
            return form["client_id"][0], form["client_secret"][0]
        pair = b64decode(header.removeprefix("Basic ")).decode()
        return tuple(unquote_plus(part) for part in pair.split(":"))
