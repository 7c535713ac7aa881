"""Who may look at the page, and who may change something. Every refusal is an HTTP answer with a reason.

With a token, who has it may do both, and nobody else anything. Without one the page changes nothing, and everybody may
look who reaches its loopback address: this machine's users, and whoever a proxy there lets through without saying so.

There are no cookies, so a foreign page cannot act for a viewer: only our script, on our origin, has the token. Requests
that a browser marks as another site's are refused all the same, and so is a foreign Host on loopback (DNS rebinding).

Our script sends the token as a header, from the tab's sessionStorage. A browser would send a cookie by itself, for
every other server on localhost too. The price: EventSource sends no header, so the script reads the event stream by
fetch.
"""

from __future__ import annotations

from aiohttp import web

from bridge.model.primitives.addresses import is_loopback
from bridge.web.access import TokenFile, TokenGate, expect_local_name, is_local

_OWN_SITE = ("", "same-origin", "none")
"""Values of Sec-Fetch-Site: of a client that is no browser, of our page, and of an address that a person entered."""
_READS = ("GET", "HEAD")


class Access:
    """Judges requests."""

    def __init__(self, host: str, token: TokenFile | None) -> None:
        """``host``: the address of the server."""
        self._host = host
        self._gate = None if token is None else TokenGate(token, "page.token_file")

    @property
    def has_token(self) -> bool:
        """Whether a token decides."""
        return self._gate is not None

    def expect_host(self, request: web.Request) -> None:
        """Raises HTTPMisdirectedRequest for a foreign Host on a loopback address."""
        expect_local_name(request, self._host)

    def expect_right(self, request: web.Request) -> None:
        """Raises HTTPForbidden, HTTPUnauthorized or HTTPTooManyRequests unless the client may have the answer to this
        request."""
        _expect_own_site(request)
        if self._gate is not None:
            self._gate.expect(request)
        elif request.method not in _READS:
            raise web.HTTPForbidden(text="the page is read-only: page.token_file is not set\n")
        elif not (is_loopback(self._host) and is_local(request)):
            raise web.HTTPForbidden(text="through a proxy the page needs page.token_file, which is not set\n")


def _expect_own_site(request: web.Request) -> None:
    """By comparison alone: a header that cannot be read is another site's."""
    host, origin = request.headers.get("Host", "").lower(), request.headers.get("Origin")
    foreign = origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}")
    if foreign or request.headers.get("Sec-Fetch-Site", "") not in _OWN_SITE:
        raise web.HTTPForbidden(text="requests of other sites are refused\n")
