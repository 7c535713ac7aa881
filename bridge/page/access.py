"""Who may look at the page, and who may change something. Every refusal is an HTTP answer with a reason.

There are no cookies, so a foreign page cannot act for a viewer: only our script, on our origin, has the token. Requests
that a browser marks as another site's are refused all the same, and so is a foreign Host on loopback (DNS rebinding).
"""

from __future__ import annotations

from math import ceil
from time import monotonic
from urllib.parse import urlsplit

from aiohttp import web

from bridge.model.primitives.addresses import is_loopback
from bridge.web.access import TokenFile, host_of, is_local
from bridge.web.wrong_tokens import WrongTokens

_AUTHENTICATE = {"WWW-Authenticate": 'Bearer realm="kubedelta"'}
_OWN_SITE = ("", "same-origin", "none")
"""Values of Sec-Fetch-Site: of a client that is no browser, of our page, and of an address that a person entered."""
_READS = ("GET", "HEAD")


class Access:
    """Judges requests. On a loopback address, clients of this machine may look; others, and elsewhere all, need the
    token. A change always needs the token."""

    def __init__(self, host: str, token: TokenFile | None) -> None:
        """``host``: the address of the server."""
        self._is_here = is_loopback(host)
        self._token = token
        self._wrong = WrongTokens()

    def expect_host(self, request: web.Request) -> None:
        """Raises HTTPMisdirectedRequest for a foreign Host on a loopback address."""
        if self._is_here and not is_loopback(host_of(request)):
            raise web.HTTPMisdirectedRequest(text="this server answers to localhost alone\n")

    def expect_right(self, request: web.Request) -> None:
        """Raises HTTPForbidden, HTTPUnauthorized or HTTPTooManyRequests unless the client may have the answer to this
        request."""
        _expect_own_site(request)
        if "Authorization" in request.headers:
            self._expect_token(request)
        elif request.method not in _READS:
            if self._token is None:
                raise web.HTTPForbidden(text="the page is read-only: page.token_file is not set\n")
            raise web.HTTPUnauthorized(text="changes need the token of page.token_file\n", headers=_AUTHENTICATE)
        elif not (self._is_here and is_local(request)):
            raise web.HTTPUnauthorized(text="the token of page.token_file is needed\n", headers=_AUTHENTICATE)

    def _expect_token(self, request: web.Request) -> None:
        client, now = request.remote or "", monotonic()
        if wait := self._wrong.wait_of(client, now):
            again = {"Retry-After": str(ceil(wait))}
            raise web.HTTPTooManyRequests(text="too many wrong tokens: wait a minute\n", headers=again)
        if not self.may_change(request):
            self._wrong.add(client, now)
            raise web.HTTPUnauthorized(text="wrong token\n", headers=_AUTHENTICATE)

    def may_change(self, request: web.Request) -> bool:
        """Whether the request has the token."""
        return self._token is not None and self._token.opens(request.headers.get("Authorization", ""))

    @property
    def has_token(self) -> bool:
        """Whether someone can change something."""
        return self._token is not None


def _expect_own_site(request: web.Request) -> None:
    origin = request.headers.get("Origin")
    foreign = origin is not None and urlsplit(origin).netloc.lower() != request.host.lower()
    if foreign or request.headers.get("Sec-Fetch-Site", "") not in _OWN_SITE:
        raise web.HTTPForbidden(text="requests of other sites are refused\n")
