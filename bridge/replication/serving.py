"""The leader's side: it sends its commits to the followers, and says which transactions count as done.

A ``Replicator`` stands between the outbox's writer and everybody who waits for a transaction (``outbox.commits.
Replicas``). A commit goes into the log of frames; a task for each follower sends what it lacks, in order; and what the
followers acknowledge lets the waiting transactions finish (``in_sync``). The newest frames are in memory, bounded in
bytes. Whoever needs an older one, or has another history, gets a base copy first: one at a time, at a bounded rate,
made by SQLite's backup API from one moment of the database while the writer goes on.

Another list in the Lease is written by ``publish``, which the election gives; until it is written, deliveries wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO, TypeAlias

from aiohttp import web

from bridge.http.listener import Bounds, Limits, Listener
from bridge.outbox import BaseCopy, StateError
from bridge.outbox.commits import CommitHistory, Frame, FrameLog, Point
from bridge.outbox.storage import schema
from bridge.replication import wire
from bridge.replication.identity import ReplicaSettings, ServerIdentity, SharedSecret
from bridge.replication.in_sync import REST, InSync, Lag
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.election import BaseCopySent
from bridge.telemetry.facts.process import REPLICATION_SERVER

Publish: TypeAlias = Callable[[frozenset[str]], Awaitable[str]]
"""Writes a list of runs into the Lease. Returns the resourceVersion of the Lease that has it; never, where the Lease is
lost."""

FRAMES = 64 << 20
"""Bytes of frames in memory."""
_RATE = 64 << 20
"""Bytes a second of a base copy: the disk belongs to deliveries."""
_SILENCE = 15.0
"""Seconds in which a follower reads nothing, until its connection ends."""
_HEARTBEAT = 5.0
_FIRST_WORDS = 10.0
_INSTALLING = 600.0
"""Seconds in which a follower puts a base copy in its place."""
_MOST_FOLLOWERS = 8
_LIMITS = Limits(connections=Bounds(all=16, of_a_client=12))


class Replicator:
    """Of a term. ``committed`` is called from the moment on in which the state is open."""

    def __init__(self, patience: float, *, rest: float = REST, frames: int = FRAMES) -> None:
        """``patience``: seconds without an acknowledgement after which a follower is taken off the list. ``rest``: see
        InSync. ``frames``: bytes of them in memory."""
        self.frames = FrameLog(frames)
        self.in_sync = InSync(patience, newest=0, rest=rest)
        self.version = ""
        """The resourceVersion of the Lease with the newest list."""
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._now = asyncio.get_running_loop().time
        self._news: asyncio.Event = asyncio.Event()
        self._look = asyncio.Event()

    def committed(self, frame: Frame | None, finish: Callable[[], None]) -> None:
        """See Replicas."""
        if frame is not None:
            self.frames.add(frame)
            self.in_sync.committed(frame.commit, self._now())
            self.announce()
        self._waiting.append((self.in_sync.newest, finish))
        self.release()

    def release(self) -> None:
        """Finishes the transactions that count as done now."""
        replicated = self.in_sync.replicated
        while self._waiting and self._waiting[0][0] <= replicated:
            self._waiting.popleft()[1]()
        if self.in_sync.must_write:
            self._look.set()

    def announce(self) -> None:
        """Wakes all who wait in ``news``."""
        self._news.set()
        self._news = asyncio.Event()

    @property
    def news(self) -> asyncio.Event:
        """Set when there is another frame, or another list, than now."""
        return self._news

    async def run(self, publish: Publish) -> None:
        """Keeps the Lease's list up to date until cancelled."""
        while True:
            now = self._now()
            self._look.clear()
            self.in_sync.look(now)
            if self.in_sync.must_write:
                runs = self.in_sync.writing()
                self.version = await publish(runs)
                self.in_sync.written(runs)
                self.release()
                self.announce()
                continue
            until = self.in_sync.next_look(now)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until if until < float("inf") else None):
                    await self._look.wait()

    async def drained(self) -> None:
        """Returns when everybody in sync has everything."""
        done = asyncio.Event()
        self._waiting.append((self.in_sync.newest, done.set))
        self.release()
        await done.wait()

    def names(self, run: str) -> bool:
        """Whether the Lease names this follower, and is to go on."""
        lag = self.lags().get(run)
        return lag is not None and lag.in_sync

    def lags(self) -> dict[str, Lag]:
        """Run → how far it is behind."""
        return self.in_sync.lags(self._now())


@dataclass(slots=True)
class _Connection:
    """A follower that said who it is."""

    hello: wire.FollowerHello
    socket: web.WebSocketResponse
    at: int
    """The newest commit that was sent."""
    knows: bool = False
    """That the Lease names it: it was sent ``Named``."""
    has: int = -1
    """The newest commit that it acknowledged in this connection."""
    heard: asyncio.Event = field(default_factory=asyncio.Event)


class ReplicationServer:
    """Serves followers between ``start`` and ``stop``."""

    def __init__(
        self,
        me: ReplicaSettings,
        history: CommitHistory,
        replicator: Replicator,
        identity: ServerIdentity,
        host: str,
        report: Report,
    ) -> None:
        """``history``: of the state, as it was when the term's first frame was made: the term is its last one.
        ``host``: to listen on."""
        self._me = me
        self._history = history
        self._replicator = replicator
        self._secret = SharedSecret(me.keys, me.bridge, identity.fingerprint)
        self._report = report
        self._connections: dict[str, _Connection] = {}
        self._copying = asyncio.Lock()
        self._listener = Listener(
            REPLICATION_SERVER,
            host,
            me.election.port,
            limits=_LIMITS,
            report=report,
            judge=self._judge,
            tls=identity.context,
        )
        self._listener.router.add_get(wire.PATH, self._serve)

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def followers(self) -> dict[str, str]:
        """Run → name, of those that are connected."""
        return {run: each.hello.name for run, each in self._connections.items()}

    async def start(self) -> None:
        """Raises OSError."""
        await self._listener.start()

    async def stop(self) -> None:
        """Ends all connections."""
        for each in [*self._connections.values()]:
            with suppress(ConnectionError, RuntimeError):
                await each.socket.close(message=b"the term is over")
        await self._listener.stop()

    # ── A connection ─────────────────────────────────────────────────────────

    def _judge(self, request: web.Request) -> None:
        if not self._secret.opens(request.headers.get("Authorization", "")):
            raise web.HTTPUnauthorized(text="only a replica with a redaction key of the leader's may follow\n")

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        nonce = request.headers.get(wire.NONCE, "")
        if not 16 <= len(nonce) <= 64:
            raise web.HTTPBadRequest(text=f"{wire.NONCE}: 16 to 64 characters\n")
        if len(self._connections) >= _MOST_FOLLOWERS:
            raise web.HTTPServiceUnavailable(text=f"{_MOST_FOLLOWERS} replicas follow already\n")
        socket = web.WebSocketResponse(heartbeat=_HEARTBEAT, compress=False, max_msg_size=wire.MOST)
        await socket.prepare(request)
        with suppress(ConnectionError, TimeoutError, wire.ProtocolBroken):
            await self._say(socket, wire.Welcome(self._secret.proof(nonce)))
            async with asyncio.timeout(_FIRST_WORDS):
                hello = await wire.heard(socket)
            if not isinstance(hello, wire.FollowerHello) or not 1 <= len(hello.run) <= wire.LONGEST_RUN:
                raise wire.ProtocolBroken("a follower begins with hello")
            if reason := self._refusal(hello):
                await self._say(socket, wire.FollowerRefused(reason))
            else:
                await self._follow(hello, socket)
        await socket.close()
        return socket

    def _refusal(self, hello: wire.FollowerHello) -> str:
        """Why this replica cannot follow; empty if it can."""
        me = self._me
        if hello.cluster != me.cluster:
            return f"this is a bridge of the cluster {me.cluster!r}, and not of {hello.cluster!r}"
        if hello.shard != me.shard_name:
            return f"this is the shard {me.shard_name or 'of all objects'}, and not {hello.shard or 'of all objects'}"
        if hello.newest_format < schema.FORMAT:
            return (
                f"the leader's state has format {schema.FORMAT}, and this version of kubedelta has "
                f"{hello.newest_format}: run the leader's version"
            )
        return ""

    async def _follow(self, hello: wire.FollowerHello, socket: web.WebSocketResponse) -> None:
        if (before := self._connections.get(hello.run)) is not None:  # A half-open connection of the same process.
            await before.socket.close()
        connection = self._connections[hello.run] = _Connection(hello, socket, hello.commit)
        try:
            async with asyncio.TaskGroup() as tasks:
                hearing = tasks.create_task(self._hear(connection), name="follower's words")
                sending = tasks.create_task(self._send(connection), name="follower's frames")
                await asyncio.wait([hearing, sending], return_when=asyncio.FIRST_COMPLETED)
                for each in (hearing, sending):
                    each.cancel()
        except* (ConnectionError, TimeoutError, wire.ProtocolBroken, OSError, StateError):
            pass
        finally:
            if self._connections.get(hello.run) is connection:
                del self._connections[hello.run]
                self._replicator.in_sync.disconnected(hello.run)
                self._replicator.release()

    async def _hear(self, connection: _Connection) -> None:
        """Returns when the follower has ended the connection."""
        run, replicator = connection.hello.run, self._replicator
        while (message := await wire.heard(connection.socket)) is not None:
            if not isinstance(message, wire.CommitAcknowledged):
                raise wire.ProtocolBroken("a follower says hello once")
            if message.commit > connection.at:
                raise wire.ProtocolBroken("a follower cannot have what was not sent")
            connection.has = message.commit
            connection.heard.set()
            replicator.in_sync.acknowledged(run, message.commit, asyncio.get_running_loop().time())
            replicator.release()

    async def _send(self, connection: _Connection) -> None:
        hello, replicator = connection.hello, self._replicator
        history = CommitHistory(self._history.terms, replicator.frames.newest)
        point = Point(hello.term, hello.mark, hello.commit)
        if hello.format != schema.FORMAT or not history.contains(point):
            connection.at = -1
        elif replicator.frames.behind(connection.at) is not None or connection.at == replicator.frames.newest:
            self._joined(connection)
        while True:
            news = replicator.news
            if (frame := replicator.frames.behind(connection.at)) is not None:
                await self._send_frame(connection, frame)
            elif connection.at != replicator.frames.newest:
                replicator.in_sync.disconnected(hello.run)
                replicator.release()
                await self._send_copy(connection)
                self._joined(connection)
            elif connection.knows is not (is_named := replicator.names(hello.run)):
                connection.knows = is_named
                if is_named:
                    await self._say(connection.socket, wire.Named(self._history.terms[-1].term, replicator.version))
            else:
                await news.wait()

    def _joined(self, connection: _Connection) -> None:
        connection.knows = False
        now = asyncio.get_running_loop().time()
        self._replicator.in_sync.connected(connection.hello.run, connection.at, now)
        self._replicator.release()

    async def _send_frame(self, connection: _Connection, frame: Frame) -> None:
        connection.at, patchset = frame.commit, frame.patchset
        if isinstance(patchset, bytes) and len(patchset) <= wire.PART:
            await self._say(connection.socket, wire.Commit(frame.commit, len(patchset), patchset))
            return
        size = len(patchset) if isinstance(patchset, bytes) else patchset.size
        await self._say(connection.socket, wire.Commit(frame.commit, size))
        for start in range(0, size, wire.PART):
            if isinstance(patchset, bytes):
                part = patchset[start : start + wire.PART]
            else:
                part = await asyncio.to_thread(patchset.part, start, wire.PART)
            await self._say(connection.socket, wire.NextPart(part))

    async def _send_copy(self, connection: _Connection) -> None:
        """Sends a base copy, and waits until the follower has it."""
        began = asyncio.get_running_loop().time()
        async with self._copying, self._copied() as (copy, file):
            connection.at, connection.has, size = copy.history.commit, -1, copy.bytes
            await self._say(connection.socket, wire.BaseCopyBegins(size))
            while part := await asyncio.to_thread(file.read, wire.PART):
                await self._say(connection.socket, wire.NextPart(part))
                await asyncio.sleep(len(part) / _RATE)
        async with asyncio.timeout(_INSTALLING):
            while connection.has < connection.at:
                connection.heard.clear()
                await connection.heard.wait()
        self._report(BaseCopySent(connection.hello.name, size, asyncio.get_running_loop().time() - began))

    @asynccontextmanager
    async def _copied(self) -> AsyncIterator[tuple[BaseCopy, BinaryIO]]:
        copy = await asyncio.to_thread(BaseCopy, self._me.state)
        try:
            while not await asyncio.to_thread(copy.step):  # noqa: ASYNC110  # a rate, and no wait for an event
                await asyncio.sleep(wire.PART / _RATE)
            with await asyncio.to_thread(copy.file) as file:
                yield copy, file
        finally:
            await asyncio.to_thread(copy.close)

    async def _say(self, socket: web.WebSocketResponse, message: wire.Message) -> None:
        async with asyncio.timeout(_SILENCE):
            await socket.send_bytes(wire.encode(message))
