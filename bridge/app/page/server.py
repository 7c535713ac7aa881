"""Serves the page: its files, one event stream, and the operator's commands that the page offers. Every refusal is an
HTTP answer with a reason.

**Access.** Answers with data need a right; the files have no data. With a token, who has it may look and change, and
nobody else anything. Without one the page changes nothing, and everybody may look who reaches its loopback address:
this machine's users, and whoever a proxy there lets through without saying so. There are no cookies, so a foreign page
cannot act for a viewer: only our script, on our origin, has the token. Requests that a browser marks as another site's
are refused all the same, and so is a foreign Host on loopback (DNS rebinding). Our script sends the token as a header,
from the tab's sessionStorage. A browser would send a cookie by itself, for every other server on localhost too. The
price: EventSource sends no header, so the script reads the event stream by fetch.

**Commands.** They are those of the admin socket, with the same paths and bodies, as far as their declarations in
``app.admin.commands`` say ``on_page``.

**Files.** The page is written by hand and has no build step: modules of plain JavaScript, and a vendored file for the
chart. A framework would bring a bundler, a second lock file and a second world of releases for one page; the price is
that our own code keeps and updates rows and nodes. The files are in memory, with the headers of their answers.
"""

from __future__ import annotations

import asyncio
import hashlib
from importlib.metadata import version
from importlib.resources import files

import msgspec
from aiohttp import web

from bridge.app.admin.commands import COMMANDS, LARGEST_REQUEST, PREFIX, AdminOperations
from bridge.app.admin.server import add_commands, answered, command_fact
from bridge.app.operators import PageSources
from bridge.app.page.viewers import MOST_VIEWERS, Viewers, stream
from bridge.http.access import TokenFile, TokenGate, expect_local_name, is_local
from bridge.http.listener import Bounds, Handler, Limits, Listener
from bridge.model.primitives.network import host_and_port, is_loopback
from bridge.plan.plan import PagePlan
from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.process import PAGE_SERVER, PageOpened, PageTokenRefused

EVENTS = f"{PREFIX}/events"
_OBJECT = COMMANDS["dead_letter_body"].route
OFFERED = frozenset({f"GET {EVENTS}", *(f"{each.method} {each.route}" for each in COMMANDS.values() if each.on_page)})
"""Reading the whole database, dropping records and reloading stay with the command line."""
CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # Text that a tenant chose cannot become markup: the browser refuses innerHTML.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer of the page."""
_LIMITS = Limits(
    connections=Bounds(all=64, of_a_client=32),
    # Browsers send the cookies of other servers on localhost, too.
    line=16 * 1024,
    headers=64,
    body=LARGEST_REQUEST,
)
_MOST_COMMANDS = 2
"""At once: the body of a dead letter may have 16 MiB."""
_LARGEST_BODY = 256 * 1024
"""Bytes of a dead letter's body in an answer. Answers that nobody reads stay in memory for a while."""
_HEADERS = {**HEADERS, "Cache-Control": "no-store"}


class Hello(msgspec.Struct, frozen=True):
    """The first event of a stream."""

    cluster: str
    version: str
    may_change: bool
    """A token is configured, which the viewer has sent."""
    commands: list[str]
    """Offered changes."""


class PageServer(Listener):
    """Serves between ``start`` and ``stop``, while ``run`` feeds the viewers."""

    def __init__(
        self,
        plan: PagePlan,
        admin: AdminOperations,
        sources: PageSources,
        report: Report = discard,
        *,
        cluster: str = "",
        most_viewers: int = MOST_VIEWERS,
    ) -> None:
        """``cluster``: its configured name."""
        super().__init__(
            PAGE_SERVER,
            plan.host,
            plan.port,
            limits=_LIMITS,
            report=report,
            judge=self._expect_offered,
            answer=self._answer_command,
            headers=_HEADERS,
        )
        self._cluster = cluster
        self._gate = None if plan.token_file is None else TokenGate(TokenFile(plan.token_file), "page.token_file")
        self._commands = asyncio.Semaphore(_MOST_COMMANDS)
        self.viewers = Viewers(sources, report, most=most_viewers)
        add_commands(self.router, admin)
        self.router.add_get(EVENTS, self._stream)
        self._files: set[str] = set()
        for asset in load_assets():
            self.router.add_get(asset.path, asset.answer)
            self._files.add(asset.path)

    async def start(self) -> None:
        """Raises OSError if the server cannot listen on the address."""
        await super().start()
        self._report(PageOpened(host_and_port(self._host, self.port), self._gate is not None))

    async def run(self) -> None:
        """Feeds the viewers until cancelled."""
        await self.viewers.run()

    async def stop(self) -> None:
        """Ends the streams."""
        self.viewers.end()
        await super().stop()

    # ── Answers ──────────────────────────────────────────────────────────────

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        changes = sorted(each.removeprefix("POST ") for each in OFFERED if each.startswith("POST "))
        hello = Hello(self._cluster, version("kubedelta"), self._gate is not None, changes)
        return await stream(request, self.viewers, hello)

    def _expect_offered(self, request: web.Request) -> None:
        expect_local_name(request, self._host)
        route = _route_of(request)
        if route in self._files:
            return
        try:
            self._expect_right(request)
        except web.HTTPUnauthorized:
            if "Authorization" in request.headers:
                self._report(PageTokenRefused(request.remote or "unknown"))
            raise
        if f"{request.method} {route}" not in OFFERED:
            raise web.HTTPNotFound(text="the page does not offer this\n")

    def _expect_right(self, request: web.Request) -> None:
        """Raises HTTPForbidden, HTTPUnauthorized or HTTPTooManyRequests unless the client may have the answer to this
        request."""
        _expect_own_site(request)
        if self._gate is not None:
            self._gate.expect(request)
        elif request.method not in _READS:
            raise web.HTTPForbidden(text="the page is read-only: page.token_file is not set\n")
        elif not (is_loopback(self._host) and is_local(request)):
            raise web.HTTPForbidden(text="through a proxy the page needs page.token_file, which is not set\n")

    async def _answer_command(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        route = _route_of(request)
        if route == EVENTS or route in self._files:
            return await handler(request)
        async with self._commands:
            response = await answered(request, handler, self._report_command)
        if route == _OBJECT and isinstance(response, web.Response) and isinstance(response.body, bytes):
            response.body = response.body[:_LARGEST_BODY]
        return response

    def _report_command(self, request: web.Request, why: str) -> None:
        """Reports changes. Looking is no command: an open page asks again and again."""
        if request.method == "POST":
            self._report(command_fact(request, why, client=request.remote or "unknown"))


def _route_of(request: web.Request) -> str:
    """By the route, and not by the path, which can be written in several ways."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


# ── Access ───────────────────────────────────────────────────────────────────

_OWN_SITE = ("", "same-origin", "none")
"""Values of Sec-Fetch-Site: of a client that is no browser, of our page, and of an address that a person entered."""
_READS = ("GET", "HEAD")


def _expect_own_site(request: web.Request) -> None:
    """By comparison alone: a header that cannot be read is another site's."""
    host = request.headers.get("Host", "").lower()
    origin = request.headers.get("Origin")
    foreign = origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}")
    if foreign or request.headers.get("Sec-Fetch-Site", "") not in _OWN_SITE:
        raise web.HTTPForbidden(text="requests of other sites are refused\n")


# ── Files ────────────────────────────────────────────────────────────────────

_INDEX = "index.html"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_ASK_AGAIN = "no-cache"
"""The browser asks whether its copy is current, so an upgraded bridge gets its own script."""
_FOR_EVER = "max-age=31536000, immutable"
_VERSIONED = "uplot-"
"""Begin of the names that have a version."""


class Asset:
    """A file of the page."""

    def __init__(self, name: str, body: bytes) -> None:
        self.path = "/" if name == _INDEX else f"/{name}"
        suffix = name[name.rindex(".") :]
        self._body = body
        self._tag = hashlib.sha256(body).hexdigest()[:16]
        self._headers = {
            "Content-Type": f"{_TYPES[suffix]}; charset=utf-8",
            "Cache-Control": _FOR_EVER if name.startswith(_VERSIONED) else _ASK_AGAIN,
            "ETag": f'"{self._tag}"',
        }

    async def answer(self, request: web.Request) -> web.Response:
        """304 for a client that has this content."""
        known = request.if_none_match or ()
        if any(each.value in (self._tag, "*") for each in known):
            return web.Response(status=304, headers=self._headers)
        return web.Response(body=self._body, headers=self._headers)


def load_assets() -> list[Asset]:
    """Reads the package's files; blocks for a moment."""
    folder = files("bridge.app.page") / "static"
    known = [each for each in folder.iterdir() if each.name.endswith(tuple(_TYPES))]
    return [Asset(each.name, each.read_bytes()) for each in sorted(known, key=lambda each: each.name)]
