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
from bridge.web.connections import Connections
from bridge.web.listener import HttpListener
from bridge.web.startable import Startable

EVENTS = f"{PREFIX}/events"
OFFERED = frozenset(
    {
        f"GET {EVENTS}",
        f"GET {PREFIX}/cursors",
        f"GET {PREFIX}/dead-letters",
        f"GET {PREFIX}/dead-letters/{{number}}/object",
        f"POST {PREFIX}/dead-letters/retry",
        f"POST {PREFIX}/replay",
        f"POST {PREFIX}/snapshots",
        f"POST {PREFIX}/snapshots/cancel",
        f"POST {PREFIX}/sinks/{{action}}",
    }
)
"""Reading the whole database, dropping records and reloading stay with the command line."""

_MOST_CONNECTIONS = 64
_MOST_COMMANDS = 2
"""At once: the body of a dead letter may have 16 MiB."""
_LARGEST_HEADER = 16 * 1024
"""Bytes: browsers send the cookies of other servers on localhost, too."""
_MOST_HEADERS = 64


class Hello(msgspec.Struct, frozen=True):
    """The first event of a stream."""

    cluster: str
    version: str
    has_token: bool
    """A token is configured."""
    may_change: bool
    """The viewer has sent the token."""
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
        app = web.Application(middlewares=[self._guard], client_max_size=LARGEST_REQUEST)
        AdminHandlers(admin, About()).add_routes(app.router)
        app.router.add_get(EVENTS, self._stream)
        self._files: set[str] = set()
        for asset in load_assets():
            app.router.add_get(asset.path, asset.answer)
            self._files.add(asset.path)
        self._listener = HttpListener(
            app,
            plan.host,
            plan.port,
            server=PAGE_SERVER,
            most=_MOST_CONNECTIONS,
            report=report,
            largest_line=_LARGEST_HEADER,
            most_headers=_MOST_HEADERS,
        )

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
        may_change = self._access.may_change(request)
        changes = sorted(each.removeprefix("POST ") for each in OFFERED if each.startswith("POST "))
        hello = Hello(self._cluster, version("kubedelta"), self._access.has_token, may_change, changes)
        return await stream(request, self.viewers, hello)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Judges the request first. Every answer has the page's headers, and ends its connection."""
        try:
            self._access.expect_host(request)
            # By the route, and not by the path, which can be written in several ways.
            resource = request.match_info.route.resource
            route = "" if resource is None else resource.canonical
            if route in self._files:
                response = await handler(request)
            else:
                self._access.expect_right(request)
                response = await self._answer(request, handler, route)
        except web.HTTPException as refusal:
            if isinstance(refusal, web.HTTPUnauthorized) and "Authorization" in request.headers:
                self._report(PageTokenRefused(request.remote or "unknown"))
            refusal.headers.update({**HEADERS, "Cache-Control": "no-store"})
            refusal.force_close()
            raise
        if not response.prepared:
            response.headers.update(HEADERS)
            response.headers.setdefault("Cache-Control", "no-store")
            response.force_close()
        return response

    async def _answer(self, request: web.Request, handler: Handler, route: str) -> web.StreamResponse:
        if f"{request.method} {route}" not in OFFERED:
            raise web.HTTPNotFound(text="the page does not offer this\n")
        if route == EVENTS:
            return await handler(request)
        # The whole request first: ``keep`` ends the deadline, and an answer may take any time.
        await request.read()
        async with self._commands:
            Connections.keep(request.transport)
            return await answered(request, handler, self._report_command)

    def _report_command(self, request: web.Request, why: str) -> None:
        """Reports changes. Looking is no command: an open page asks again and again."""
        if request.method == "POST":
            self._report(command_fact(request, why, client=request.remote or "unknown"))
