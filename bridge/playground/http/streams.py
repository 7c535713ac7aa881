"""Sends the lines of one watch to its client, until its time is over, the client goes, or something breaks it."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import Iterable
from random import random

from aiohttp import web

from bridge.playground.http.watching import Watch
from bridge.playground.misbehaviour import Misbehaviour
from bridge.playground.objects.store import Forgotten
from bridge.playground.rules import CutLine

_BATCH = 256 * 1024
"""Bytes of lines that are written at once; so much waits in memory for a slow client."""

_LAST_BOOKMARK = 2.0
"""Seconds before the end of a watch at which it gets a bookmark, so that the next one begins close to it."""


class WatchStream:
    """One open watch. ``run`` returns when it is over; the other methods may be called meanwhile."""

    def __init__(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        watch: Watch,
        misbehave: Misbehaviour,
        compress: bool,
    ) -> None:
        self.resource = watch.kind.name
        self._request = request
        self._response = response
        self._watch = watch
        self._misbehave = misbehave
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
        """Tell news for ``timeout`` seconds, with a bookmark every ``bookmark_interval`` seconds."""
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
        while self._misbehave.silences(self.resource):
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
                return  # So ends the watch of a client that does not keep up, without a word.
            if self._bookmark_due and not self._over:
                # Before anything is awaited: later, it would speak for changes that came while the news were sent.
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
            if line and self._misbehave.take(CutLine, self.resource, "watch"):
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
        # One gzip member for each write, as Kubernetes 1.37 compresses watch lists.
        await self._response.write(gzip.compress(text, 1) if self._compress else text)

    async def _break_off(self) -> None:
        """Close the connection behind what was written: a reset would take the half line back."""
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
    """Seconds that a watch lasts: what the client asked for, else between ``shortest`` and twice as long."""
    return asked or shortest * (1 + random())
