"""The event stream of a viewer: server-sent events over one HTTP answer, until the viewer leaves or time is up."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
from aiohttp import web

from bridge.page.assets import HEADERS
from bridge.page.tail import TailChoice
from bridge.page.viewers import TooManyViewers, Viewer, Viewers
from bridge.web.connections import Connections

LONGEST = 900.0
"""Seconds of a stream. The page opens another; a browser that nobody watches, and a stolen answer, end."""
_WRITE_SECONDS = 20.0
"""For a viewer to read what waits for it."""
_PAUSE = 0.2
"""Seconds between two writes: the events in between go together."""
_HEADERS = HEADERS | {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


def choice_of(request: web.Request) -> TailChoice | None:
    """The viewer's choice of records. None without a ``sink``. Raises HTTPBadRequest."""
    if "sink" not in request.query:
        return None
    try:
        return msgspec.convert(dict(request.query), TailChoice)
    except msgspec.ValidationError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from None


async def stream(request: web.Request, viewers: Viewers, hello: object) -> web.StreamResponse:
    """Sends ``hello`` and the history, then the viewer's events. The connection closes behind it. Raises HTTPException
    before the first byte."""
    choice = choice_of(request)
    try:
        with viewers.looking(choice) as viewer:
            return await _serve(request, viewers, viewer, hello)
    except TooManyViewers as error:
        raise web.HTTPServiceUnavailable(text=f"{error}\n", headers={"Retry-After": "10"}) from None


async def _serve(request: web.Request, viewers: Viewers, viewer: Viewer, hello: object) -> web.StreamResponse:
    response = web.StreamResponse(headers=_HEADERS)
    response.force_close()
    await response.prepare(request)
    Connections.keep(request.transport)  # It has a deadline for each write, and one for all.
    viewer.tell("hello", hello)
    viewer.tell("history", viewers.history.series())
    # A viewer that has left is noticed at the next write, which is within a second.
    with suppress(ConnectionResetError, TimeoutError):
        async with asyncio.timeout(LONGEST):
            while not viewer.ended:
                await viewer.news.wait()
                viewer.news.clear()
                try:
                    async with asyncio.timeout(_WRITE_SECONDS):
                        await response.write(viewer.take())
                except TimeoutError:
                    if request.transport is not None:
                        request.transport.abort()
                    break
                await asyncio.sleep(_PAUSE)
    return response
