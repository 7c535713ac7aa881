"""Gathers the bytes of watches: bytes that arrive soon after others wait in the kernel, and are read together.

A process that sleeps between two events pays for each with cold caches and several turns of the event loop. So after
bytes were passed on, a window begins for all watches of the server. Bytes that come within the window are passed on at
its end, and by all watches in the same turn, so that everything behind them (comparison, commit, distribution,
delivery) happens once for the whole window. While windows have bytes, they are twice as long: half as many wake-ups,
and the mean wait is ``latency``. Bytes that come after a pause are passed on at once, and so are many bytes: at full
speed there is no window to speak of.

A batch costs 1.8 ms of CPU at 500 changes a second, and each change in it 0.08 ms, so the number of batches decides:
windows of 20 ms in place of 10 ms save three tenths. ``latency`` itself stays at 10 ms, for a change that follows a
lone change. A window that began with the first change of a batch would delay every lone change by the whole window;
windows of the writer and of the Kafka producer, in place of this one, would come one after another. The price: a second
change within the window waits for its end.
"""

from __future__ import annotations

import asyncio

import aiohttp

CHUNK = 128 * 1024
"""Bytes of a chunk of a body at most: some 16 events of a busy stream. Larger chunks measured no faster."""
MUCH = 64 * 1024
"""Bytes that are passed on at once. A socket's receive buffer holds as much, so a stream at full speed never waits."""


class IdleTooLong(Exception):
    """The idle timeout of a watch passed without a byte."""


class NotEnded(Exception):
    """The server did not end a watch in time."""


class Gathering:
    """The window of all watches of a server. ``latency`` is in seconds; with 0 there is no window. Bytes wait for
    ``latency`` at most, and for twice as long behind a window that had bytes."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._loop = asyncio.get_running_loop()
        self._ends = 0.0
        self._waiting: list[tuple[asyncio.ReadTransport | None, asyncio.Future[None]]] = []

    def begin(self, *, full: bool = False) -> bool:
        """Begins a window with bytes that are passed on now. Returns False within a window. ``full``: the bytes come
        out of a window, so that the next window is twice as long."""
        now = self._loop.time()
        if now < self._ends:
            return False
        self._ends = now + self._latency * (2 if full else 1)
        return True

    async def wait(self, transport: asyncio.ReadTransport | None) -> None:
        """Returns at the end of the window. Until then, the transport reads no bytes; when this returns, it has read
        the bytes that waited in the kernel."""
        if not self._waiting:
            self._loop.call_at(self._ends, self._end)
        if transport is not None:
            transport.pause_reading()
        ended = self._loop.create_future()
        self._waiting.append((transport, ended))
        await ended

    def _end(self) -> None:
        self._ends = 0.0  # A timer may be early by the clock's resolution.
        waiting, self._waiting = self._waiting, []
        for transport, _ in waiting:
            if transport is not None:
                transport.resume_reading()
        # The next turn of the loop reads the sockets behind this call, and the watches go on in the turn after that.
        self._loop.call_soon(_wake, [ended for _, ended in waiting])


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    for ended in waiting:
        if not ended.done():  # Else the watch was cancelled meanwhile.
            ended.set_result(None)


class WatchBody:
    """The body of a watch's response, in chunks. Used by a single task; ``close`` ends it.

    ``gathering`` has the window in which bytes wait for others; None without one. ``at_once`` passes bytes on as they
    come, until ``gather``: the first objects of a WatchList must not wait. ``idle_timeout`` bounds the wait for bytes,
    ``longest`` the time of the watch from now on, both in seconds. A single timer follows both, instead of a timer for
    each chunk."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        gathering: Gathering | None,
        *,
        at_once: bool,
        idle_timeout: float,
        longest: float,
    ) -> None:
        self._window = gathering
        self._gathering = None if at_once else gathering
        self._stream = response.content
        self._transport = _raw_transport(response)
        self._gathered = False
        """The last chunk came out of a window, so more bytes are likely to come within the next."""
        self._idle_timeout = idle_timeout
        self._loop = asyncio.get_running_loop()
        self._latest_end = self._loop.time() + longest
        self._waiting_since: float | None = None
        self._timer = self._loop.call_at(min(self._latest_end, self._loop.time() + idle_timeout), self._check_time)

    def gather(self) -> None:
        """From now on, bytes may wait for others."""
        self._gathering = self._window

    async def read(self) -> bytes:
        """The next bytes; empty at the end. Raises IdleTooLong, NotEnded, and aiohttp's errors."""
        stream, gathering = self._stream, self._gathering
        if chunk := stream.read_nowait(CHUNK):
            return chunk  # The rest of a full chunk.
        if self._gathered and gathering is not None and not stream.is_eof() and not gathering.begin():
            await gathering.wait(self._transport)
            if chunk := stream.read_nowait(CHUNK):
                self._gathered = len(chunk) < MUCH
                gathering.begin(full=True)
                return chunk
        self._waiting_since = now = self._loop.time()
        if now >= self._latest_end:
            raise NotEnded
        try:
            chunk = await stream.read(CHUNK)
        finally:
            self._waiting_since = None
        if gathering is None:
            return chunk
        # At its end, the response has given its connection back, perhaps to another request.
        self._gathered = not gathering.begin() and len(chunk) < MUCH and not stream.is_eof()
        if self._gathered:
            await gathering.wait(self._transport)
            gathering.begin(full=True)
            if stream.exception() is None:  # Else the next call raises it: these bytes came before.
                chunk += stream.read_nowait(CHUNK)
        return chunk

    def close(self) -> None:
        self._timer.cancel()

    def _check_time(self) -> None:
        now, since = self._loop.time(), self._waiting_since
        idle_at = (now if since is None else since) + self._idle_timeout
        if since is not None and now >= self._latest_end:
            self._stream.set_exception(NotEnded())
        elif now >= idle_at:
            self._stream.set_exception(IdleTooLong())
        else:
            due = min(idle_at, self._latest_end) if now < self._latest_end else idle_at
            self._timer = self._loop.call_at(due, self._check_time)


def _raw_transport(response: aiohttp.ClientResponse) -> asyncio.ReadTransport | None:
    """The socket's transport. asyncio's TLS transport goes on reading and decrypting while it is paused, so the
    transport below is found; it has no public name."""
    connection = response.connection
    transport = None if connection is None else connection.transport
    below: asyncio.Transport | None = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
    return below or transport
