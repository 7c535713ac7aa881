"""The follower's side: it connects to the leader, and keeps its own database equal to the leader's.

One connection at a time. A task receives, another applies what has come meanwhile in one transaction, in a thread, and
acknowledges it. What was received and not applied is bounded in messages of at most a megabyte; the connection's own
flow control holds up the leader, which takes a follower off its list that is too slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import apsw
from aiohttp import ClientWebSocketResponse

from bridge.outbox import Damaged, StateError
from bridge.outbox.commits import LargePatchset
from bridge.outbox.copied_state import CopiedState
from bridge.outbox.storage import schema
from bridge.replication import wire
from bridge.replication.identity import ReplicaSettings, SharedSecret, new_nonce

T = TypeVar("T")

_CONNECT_SECONDS = 5.0
_HEARTBEAT = 5.0
_WELCOME_SECONDS = 10.0
_MESSAGES = 64
_AT_ONCE = 256
"""Commits in one transaction."""
_ROOM = 64 << 20
"""Bytes of the disk that a base copy leaves free."""


class CannotFollow(Exception):
    """Why this replica does not follow the leader now, for the operator."""


@dataclass(frozen=True, slots=True)
class Leader:
    """As the Lease names it."""

    address: str
    """Host and port."""
    fingerprint: str
    """See ``identity``."""
    term: int


class StateFollower:
    """Follows one leader after the other, with one state, until ``close``."""

    def __init__(self, state: CopiedState, me: ReplicaSettings) -> None:
        self._state = state
        self._me = me
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="follower")
        """The one in which the state is used, and closed: what is under way in there ends first."""
        self._closing: asyncio.Future[None] | None = None
        self.named = wire.Named(0, "")
        """What the leader said last; term 0 while this replica cannot know that it is in sync."""
        self.commit = 0
        """The newest commit here."""

    async def follow(self, leader: Leader) -> None:
        """Follows until the connection ends, which is no error. Raises CannotFollow."""
        try:
            async with self._connected(leader) as socket:
                await self._say_hello(socket)
                queue: asyncio.Queue[_Received] = asyncio.Queue(_MESSAGES)
                async with asyncio.TaskGroup() as tasks:
                    receiving = tasks.create_task(self._receive(socket, queue), name="frames")
                    applying = tasks.create_task(self._apply(socket, queue, leader.term), name="apply")
                    await asyncio.wait([receiving, applying], return_when=asyncio.FIRST_COMPLETED)
                    if receiving.done() and not receiving.exception():
                        await queue.join()
                    receiving.cancel()
                    applying.cancel()
        except* (aiohttp.ClientError, TimeoutError, ConnectionError) as errors:
            raise CannotFollow(_reason(errors)) from errors
        except* (wire.ProtocolBroken, Damaged, StateError, OSError, apsw.Error) as errors:
            self.forget()
            raise CannotFollow(_reason(errors)) from errors
        except* CannotFollow as errors:
            raise CannotFollow(_reason(errors)) from errors

    async def close(self) -> None:
        """Closes the state. Nothing follows any more. A cancellation ends the waiting alone, until another call."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().run_in_executor(self._thread, self._state.close)
        await asyncio.shield(self._closing)
        self._thread.shutdown()

    def forget(self) -> None:
        """This replica is not in sync, whatever the Lease says."""
        self.named = wire.Named(0, "")

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    @asynccontextmanager
    async def _connected(self, leader: Leader) -> AsyncIterator[ClientWebSocketResponse]:
        """Connected to the leader that has the redaction key, and to no other server."""
        secret, nonce = SharedSecret(self._me.keys, self._me.bridge, leader.fingerprint), new_nonce()
        try:
            pin = aiohttp.Fingerprint(bytes.fromhex(leader.fingerprint))
        except ValueError as error:
            raise CannotFollow("the Lease has no fingerprint of a certificate") from error
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=None)
        headers = {"Authorization": secret.authorization, wire.NONCE: nonce}
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
            async with asyncio.timeout(_WELCOME_SECONDS):
                socket = await session.ws_connect(
                    f"wss://{leader.address}{wire.PATH}",
                    ssl=pin,
                    headers=headers,
                    heartbeat=_HEARTBEAT,
                    max_msg_size=wire.MOST,
                )
            try:
                async with asyncio.timeout(_WELCOME_SECONDS):
                    welcome = await wire.heard(socket)
                if not isinstance(welcome, wire.Welcome) or not secret.proves(nonce, welcome.proof):
                    raise CannotFollow(
                        "the server that the Lease names has no redaction key of this replica: somebody else may "
                        "have written the Lease"
                    )
                yield socket
            finally:
                await socket.close()

    async def _say_hello(self, socket: ClientWebSocketResponse) -> None:
        me = self._me
        history = await self._in_thread(self._state.history)
        found = await self._in_thread(lambda: self._state.format)
        point = history.point
        self.commit = 0 if point is None else point.commit
        hello = wire.FollowerHello(
            run=me.identity,
            name=me.election.name,
            cluster=me.cluster,
            shard=me.shard_name,
            format=found,
            newest_format=schema.FORMAT,
            term=0 if point is None else point.term,
            mark=0 if point is None else point.mark,
            commit=self.commit,
        )
        await socket.send_bytes(wire.encode(hello))

    # ── Receiving ────────────────────────────────────────────────────────────

    async def _receive(self, socket: ClientWebSocketResponse, queue: asyncio.Queue[_Received]) -> None:
        """Until the end of the connection."""
        while (message := await wire.heard(socket)) is not None:
            match message:
                case wire.Commit(commit, size, data) if len(data) == size:
                    await queue.put(_Commit(commit, data))
                case wire.Commit(commit, size, b""):
                    await queue.put(_Commit(commit, await self._large(socket, size)))
                case wire.Named():
                    await queue.put(message)
                case wire.BaseCopyBegins(size):
                    await queue.join()
                    await self._copy(socket, size)
                case wire.FollowerRefused(reason):
                    raise CannotFollow(f"the leader refuses this replica: {reason}")
                case _:
                    raise wire.ProtocolBroken("the leader sent a message out of its order")

    async def _large(self, socket: ClientWebSocketResponse, size: int) -> LargePatchset:
        await self._expect_room(size)
        large = await self._in_thread(LargePatchset, self._me.state)
        async for part in _parts(socket, size):
            await self._in_thread(large.write, part)
        return large

    async def _copy(self, socket: ClientWebSocketResponse, size: int) -> None:
        await self._expect_room(size)
        state = self._state
        await self._in_thread(state.begin_incoming)
        try:
            async for part in _parts(socket, size):
                await self._in_thread(state.write_incoming, part)
            history = await self._in_thread(state.install, self._me.cipher, self._me.shard)
        finally:
            await self._in_thread(state.discard_incoming)
        self.forget()
        self.commit = history.commit
        await socket.send_bytes(wire.encode(wire.CommitAcknowledged(self.commit)))

    async def _expect_room(self, size: int) -> None:
        free = await self._in_thread(self._state.free_bytes)
        if size < 0 or free < size + _ROOM:
            raise CannotFollow(f"state.directory: the leader sends {size} bytes, and the disk has {free} bytes free")

    # ── Applying ─────────────────────────────────────────────────────────────

    async def _apply(self, socket: ClientWebSocketResponse, queue: asyncio.Queue[_Received], term: int) -> None:
        while True:
            received = [await queue.get()]
            while not queue.empty() and len(received) < _AT_ONCE:
                received.append(queue.get_nowait())
            commits = [each for each in received if isinstance(each, _Commit)]
            if [each.commit for each in commits] != list(range(self.commit + 1, self.commit + 1 + len(commits))):
                raise wire.ProtocolBroken(f"the frames behind commit {self.commit} do not follow it")
            if commits:
                self.commit = await self._in_thread(self._state.apply, [each.patchset for each in commits])
                await socket.send_bytes(wire.encode(wire.CommitAcknowledged(self.commit)))
            for each in received:
                if isinstance(each, wire.Named):
                    if each.term != term:
                        raise wire.ProtocolBroken(f"the leader of term {term} speaks of term {each.term}")
                    self.named = each
                queue.task_done()


@dataclass(frozen=True, slots=True)
class _Commit:
    commit: int
    patchset: bytes | LargePatchset


_Received = _Commit | wire.Named


async def _parts(socket: ClientWebSocketResponse, size: int) -> AsyncIterator[bytes]:
    while size > 0:
        part = await wire.heard(socket)
        if part is None:
            raise ConnectionError("the leader ended the connection within a copy")
        if not isinstance(part, wire.NextPart) or not 0 < len(part.data) <= size:
            raise wire.ProtocolBroken("parts are followed by parts")
        size -= len(part.data)
        yield part.data


def _reason(errors: BaseExceptionGroup[BaseException]) -> str:
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, aiohttp.ClientConnectorError):
        first = first.os_error  # Its own words name an object by its place in memory.
    return str(first) or type(first).__name__
