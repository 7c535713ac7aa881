"""The page's HTTP server: files, one event stream, and the operator's commands that the page offers.

The commands are those of the admin socket, with the same paths and bodies; a further one is offered by its line in
``OFFERED``. Answers with data need the rights that ``access`` asks for; the files have no data.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import version

import msgspec
from aiohttp import web

from bridge.admin.answering import Handler, answered, command_fact
from bridge.admin.handlers import AdminHandlers
from bridge.admin.protocol import LARGEST_REQUEST, PREFIX
from bridge.facts import PAGE_SERVER, PageOpened, PageTokenRefused, Report, discard
from bridge.model.admin import About, AdminOperations
from bridge.model.primitives.addresses import host_and_port
from bridge.page.access import Access
from bridge.page.assets import HEADERS, load_assets
from bridge.page.stream import stream
from bridge.page.viewers import MOST_VIEWERS, PageSources, Viewers
from bridge.plan.plan import PagePlan
from bridge.web.access import TokenFile
from bridge.web.connections import Bounds
from bridge.web.listener import Limits, Listener
from bridge.web.startable import Startable

EVENTS = f"{PREFIX}/events"
_OBJECT = f"{PREFIX}/dead-letters/{{number}}/object"
OFFERED = frozenset(
    {
        f"GET {EVENTS}",
        f"GET {PREFIX}/cursors",
        f"GET {PREFIX}/dead-letters",
        f"GET {PREFIX}/dead-letters/chains",
        f"GET {_OBJECT}",
        f"POST {PREFIX}/dead-letters/retry",
        f"POST {PREFIX}/replay",
        f"POST {PREFIX}/snapshots",
        f"POST {PREFIX}/snapshots/cancel",
        f"POST {PREFIX}/sinks/{{action}}",
    }
)
"""Reading the whole database, dropping records and reloading stay with the command line."""

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


class PageServer(Startable):
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
        self._plan = plan
        self._report = report
        self._cluster = cluster
        token = None if plan.token_file is None else TokenFile(plan.token_file)
        self._access = Access(plan.host, token)
        self._commands = asyncio.Semaphore(_MOST_COMMANDS)
        self.viewers = Viewers(sources, report, most=most_viewers)
        self._listener = Listener(
            PAGE_SERVER,
            plan.host,
            plan.port,
            limits=_LIMITS,
            report=report,
            judge=self._judge,
            answer=self._answer,
            headers=_HEADERS,
        )
        AdminHandlers(admin, About()).add_routes(self._listener.router)
        self._listener.router.add_get(EVENTS, self._stream)
        self._files: set[str] = set()
        for asset in load_assets():
            self._listener.router.add_get(asset.path, asset.answer)
            self._files.add(asset.path)

    @property
    def port(self) -> int:
        return self._listener.port

    async def start(self) -> None:
        """Raises OSError if the server cannot listen on the address."""
        await self._listener.start()
        self._report(PageOpened(host_and_port(self._plan.host, self.port), self._access.has_token))

    async def run(self) -> None:
        """Feeds the viewers until cancelled."""
        await self.viewers.run()

    async def stop(self) -> None:
        """Ends the streams."""
        self.viewers.end()
        await self._listener.stop()

    # ── Answers ──────────────────────────────────────────────────────────────

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        changes = sorted(each.removeprefix("POST ") for each in OFFERED if each.startswith("POST "))
        hello = Hello(self._cluster, version("kubedelta"), self._access.has_token, changes)
        return await stream(request, self.viewers, hello)

    def _judge(self, request: web.Request) -> None:
        self._access.expect_host(request)
        route = _route_of(request)
        if route in self._files:
            return
        try:
            self._access.expect_right(request)
        except web.HTTPUnauthorized:
            if "Authorization" in request.headers:
                self._report(PageTokenRefused(request.remote or "unknown"))
            raise
        if f"{request.method} {route}" not in OFFERED:
            raise web.HTTPNotFound(text="the page does not offer this\n")

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
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
