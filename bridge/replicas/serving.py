"""Sends a copy of the leader's state to a replica that has the token: one at a time, slowly enough for deliveries. A
replica that does not lead sends its dead letters, page by page.

The copy is made page by page into a file without a name, then sent in parts; each step waits so long that both together
stay below ``_RATE``. Bounded memory, whatever the size of the state.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import BinaryIO, TypeAlias

import msgspec
from aiohttp import web

from bridge.facts import Report
from bridge.facts.election import CopySent
from bridge.facts.process import COPY_SERVER
from bridge.model.dead_letter import LetterPage
from bridge.model.primitives.addresses import host_and_port
from bridge.model.primitives.shard import Shard
from bridge.model.versions.version import LONGEST_NUMBER
from bridge.outbox import BaseCopy, Damaged, StateError
from bridge.plan.plan import CopyPlan, PlanRefused
from bridge.replicas.sources import LETTERS, PATH, SHARD
from bridge.web.access import TokenFile, TokenGate
from bridge.web.connections import Bounds
from bridge.web.listener import Limits, Listener

LetterPages: TypeAlias = Callable[[int], Awaitable[LetterPage]]

_PART = 1 << 20
_RATE = 64 << 20
"""Bytes a second."""
_LIMITS = Limits(connections=Bounds(all=16, of_a_client=8))


class CopyServer:
    """Serves between ``start`` and ``stop``."""

    def __init__(
        self,
        plan: CopyPlan,
        state: Path,
        shard: Shard | None,
        letters: LetterPages,
        leads: Callable[[], bool],
        report: Report,
    ) -> None:
        """``state``: the state directory, which is open and has the objects of the shard. ``letters``: see
        ``SharedLetters.page``. ``leads``: only a leader sends copies, since others may lag; and it keeps its dead
        letters."""
        self._plan = plan
        self._state = state
        self._headers = {"Content-Type": "application/vnd.sqlite3", SHARD: "" if shard is None else shard.name}
        self._letters = letters
        self._leads = leads
        self._report = report
        self._busy = asyncio.Lock()
        self._paging = asyncio.Lock()
        host, port = plan.listen
        self._listener = Listener(
            COPY_SERVER,
            host,
            port,
            limits=_LIMITS,
            report=report,
            judge=TokenGate(TokenFile(plan.token_file), "election.base_copy.token_file").expect,
            tls=None if plan.cert_file is None else RenewedContext(plan).first,
        )
        self._listener.router.add_get(PATH, self._copy)
        self._listener.router.add_get(LETTERS, self._send_letters)

    @property
    def address(self) -> str:
        """The URL for the other replicas."""
        scheme = "http" if self._plan.cert_file is None else "https"
        return self._plan.url or f"{scheme}://{host_and_port(self._plan.listen[0], self._listener.port)}"

    async def start(self) -> None:
        """Raises OSError."""
        await self._listener.start()

    async def stop(self) -> None:
        await self._listener.stop()

    async def _copy(self, request: web.Request) -> web.StreamResponse:
        if not self._leads():
            raise web.HTTPServiceUnavailable(text="this replica does not lead\n")
        if self._busy.locked():
            raise web.HTTPServiceUnavailable(text="another copy is under way\n", headers={"Retry-After": "10"})
        async with self._busy:
            began = monotonic()
            async with self._begun() as copy:
                # The other replica waits as long as a copy of this size may take.
                response = web.StreamResponse(headers=self._headers)
                response.content_length = size = copy.bytes
                response.force_close()
                await response.prepare(request)
                file = await self._made(copy)
            with file:
                while part := await asyncio.to_thread(file.read, _PART):
                    await response.write(part)
                    await asyncio.sleep(len(part) / _RATE)
                await response.write_eof()
            self._report(CopySent(request.remote or "", size, monotonic() - began))
            return response

    async def _send_letters(self, request: web.Request) -> web.Response:
        if self._leads():
            raise web.HTTPServiceUnavailable(text="this replica leads\n")
        after = request.query.get("after", "0")
        if not (after.isascii() and after.isdecimal() and len(after) <= LONGEST_NUMBER):
            raise web.HTTPBadRequest(text="after: a number\n")
        async with self._paging:  # A page is in memory.
            try:
                page = await self._letters(int(after))
            except (StateError, Damaged) as error:
                raise web.HTTPInternalServerError(text=f"the dead letters cannot be read: {error}\n") from error
            body = await asyncio.to_thread(msgspec.msgpack.encode, page)
            return web.Response(body=body, content_type="application/vnd.msgpack")

    @asynccontextmanager
    async def _begun(self) -> AsyncIterator[BaseCopy]:
        try:
            copy = await asyncio.to_thread(BaseCopy, self._state)
        except (OSError, StateError) as error:
            raise web.HTTPInsufficientStorage(text=f"no copy can be made: {error}\n") from error
        try:
            yield copy
        finally:
            await asyncio.to_thread(copy.close)

    async def _made(self, copy: BaseCopy) -> BinaryIO:
        while not await asyncio.to_thread(copy.step):  # noqa: ASYNC110  # a rate, and no wait for an event
            await asyncio.sleep(_PART / _RATE)
        return await asyncio.to_thread(copy.file)


class RenewedContext:
    """Shows the certificate that is in the files at each handshake: issuers renew it while the leader runs. Files that
    cannot be used leave the former certificate in place."""

    def __init__(self, plan: CopyPlan) -> None:
        """Blocks. Raises PlanRefused for files that cannot be used."""
        self._plan = plan
        self._seen = self._versions()
        self.first = self._newest = server_context(plan)
        """For the listener."""
        self.first.sni_callback = self._choose

    def _choose(self, handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Reads files, a few KB, only where they changed."""
        if (found := self._versions()) != self._seen:
            self._seen = found
            with suppress(PlanRefused):
                self._newest = server_context(self._plan)
        handshake.context = self._newest

    def _versions(self) -> Sequence[int]:
        files = (self._plan.cert_file, self._plan.key_file)
        with suppress(OSError):
            return [file.stat().st_mtime_ns for file in files if file is not None]
        return []


def server_context(plan: CopyPlan) -> ssl.SSLContext:
    """Raises PlanRefused for files that cannot be used. Blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(plan.cert_file or "", plan.key_file, password=lambda: "")
    except (OSError, ssl.SSLError, ValueError) as error:
        raise PlanRefused(
            f"election.base_copy.cert_file: {plan.cert_file} with its key cannot be used: {error}"
        ) from error
    return context
