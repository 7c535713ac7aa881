"""The event stream of a viewer: server-sent events over one HTTP answer, until the viewer leaves or time is up."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
from aiohttp import web

from bridge.page.tail import TailChoice
from bridge.page.viewers import TooManyViewers, Viewer, Viewers

LONGEST = 900.0
"""Seconds of a stream. The page opens another; a browser that nobody watches, and a stolen answer, end."""
_PAUSE = 0.2
"""Seconds between two writes: the events in between go together."""
_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}


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
    viewer.tell("hello", hello)
    viewer.tell("history", viewers.history.series())
    # A viewer that has left, or was cut because it reads nothing, is noticed at the next write, within a second.
    with suppress(ConnectionResetError, TimeoutError):
        async with asyncio.timeout(LONGEST):
            while not viewer.ended:
                await viewer.news.wait()
                viewer.news.clear()
                await response.write(viewer.take())
                await asyncio.sleep(_PAUSE)
    return response
