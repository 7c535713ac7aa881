"""Sends the lines of a watch to its client, until its timeout, the client's end, or a fault."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import Iterable
from random import random

from aiohttp import web

from bridge.playground.http.faults import Faults
from bridge.playground.http.watching import Watch
from bridge.playground.objects.store import Forgotten

_BATCH = 256 * 1024
"""Bytes of lines that are written at once, and that wait in memory for a slow client."""

_LAST_BOOKMARK = 2.0
"""Seconds before the end of a watch at which it sends a bookmark, so that the next watch can begin close to its end."""


class WatchStream:
    """An open watch. ``run`` returns at its end; the other methods may be called while it runs."""

    def __init__(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        watch: Watch,
        faults: Faults,
        compress: bool,
    ) -> None:
        self.resource = watch.kind.name
        self._request = request
        self._response = response
        self._watch = watch
        self._faults = faults
        self._compress = compress
        self._woken = asyncio.Event()
        self._injected: list[bytes] = []
        self._over = False
        self._bookmark_due = False

    def hang_up(self) -> None:
        self._over = True
        self.wake()

    def reset(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    def inject(self, raw: bytes) -> None:
        self._injected.append(raw)
        self.wake()

    def wake(self) -> None:
        self._woken.set()

    async def run(self, timeout: float, bookmark_interval: float) -> None:
        """Sends events for ``timeout`` seconds, and a bookmark every ``bookmark_interval`` seconds."""
        with contextlib.ExitStack() as ending:
            self._watch.collection.listeners.add(self.wake)
            ending.callback(self._watch.collection.listeners.discard, self.wake)
            self._schedule(ending, timeout, bookmark_interval)
            try:
                await self._audible()
                await self._send(self._watch.opening)
                self.wake()  # The history may have news already.
                await self._follow()
            except ConnectionResetError:
                return
            await self._response.write_eof()

    async def _audible(self) -> None:
        while self._faults.is_silent(self.resource):
            await self._woken.wait()
            self._woken.clear()

    async def _follow(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self._audible()
            try:
                lines = self._watch.news()
            except Forgotten:
                return  # The real server also ends the watch of a slow client without an ERROR event.
            if self._bookmark_due and not self._over:
                # Made before the first await: a later bookmark would cover changes that arrive during the sending.
                lines.append(self._watch.bookmark())
                self._bookmark_due = False
            await self._send(lines)
            raw, self._injected = self._injected, []
            await self._write(b"".join(raw))
            if self._over or self._watch.collection.ended:
                return

    async def _send(self, lines: Iterable[bytes]) -> None:
        batch: list[bytes] = []
        size = 0
        for line in lines:
            if line and self._faults.cuts_line(self.resource):
                await self._write(b"".join(batch) + line[: len(line) // 2])
                await self._break_off()
            batch.append(line)
            size += len(line)
            if size >= _BATCH:
                await self._write(b"".join(batch))
                batch, size = [], 0
        await self._write(b"".join(batch))

    async def _write(self, text: bytes) -> None:
        if not text:
            return
        # A gzip member for each write, as Kubernetes 1.37 compresses watch lists.
        await self._response.write(gzip.compress(text, 1) if self._compress else text)

    async def _break_off(self) -> None:
        """Closes the connection after the written bytes are sent: a reset would drop the half line."""
        if self._request.transport is not None:
            self._request.transport.close()
        raise ConnectionResetError("cut in the middle of a line")

    def _schedule(self, ending: contextlib.ExitStack, timeout: float, bookmark_interval: float) -> None:
        loop = asyncio.get_running_loop()

        ending.callback(loop.call_later(timeout, self.hang_up).cancel)
        if not self._watch.bookmarks:
            return
        timers: dict[str, asyncio.TimerHandle] = {}

        def bookmark(again: float | None = None) -> None:
            self._bookmark_due = True
            self.wake()
            if again is not None:
                timers["regular"] = loop.call_later(again, bookmark, again)

        timers["regular"] = loop.call_later(bookmark_interval, bookmark, bookmark_interval)
        if timeout > _LAST_BOOKMARK:
            timers["last"] = loop.call_later(timeout - _LAST_BOOKMARK, bookmark)

        def cancel_all() -> None:
            for timer in timers.values():
                timer.cancel()

        ending.callback(cancel_all)


def watch_timeout(asked: int, shortest: float) -> float:
    """Seconds that a watch lasts: the client's timeoutSeconds, else a random time from ``shortest`` to twice that."""
    return asked or shortest * (1 + random())
