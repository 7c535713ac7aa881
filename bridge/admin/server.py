"""The admin server: the operator's commands for a running bridge, on a unix socket in the state directory.

The file's mode is the login: only the bridge's user (and root) may open the socket, and so may replay, retry, drop,
pause and resume. There is no port, so web pages and other machines cannot reach the server.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web

from bridge.admin.protocol import (
    LARGEST_REQUEST,
    PREFIX,
    Changed,
    Count,
    DeadLetterChoice,
    DeadLetterQuery,
    Number,
    Refusal,
    SinkName,
)
from bridge.admin.socket_file import SocketFile
from bridge.facts import ADMIN_SERVER, OperatorCommand, Report, unheard
from bridge.model.admin import About, AdminOperations, ReplayRequest, UnknownTarget
from bridge.model.primitives.printable import counted
from bridge.web.connections import Connections

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LONGEST_REASON = 1000
_LONGEST_COMMAND = 200
_COMMAND = web.RequestKey("command", str)
"""Keys of values that a handler leaves with its request, for the OperatorCommand fact."""
_RESULT = web.RequestKey("result", str)
_CONTINUED = web.RequestKey("continued", bool)
_CREDENTIALS = struct.Struct("3i")
_MOST_CONNECTIONS = 32
_REQUEST_SECONDS = 10.0
"""From the first packet of a connection to the end of its request. The answer has no deadline."""


class AdminServer:
    """Answers on ``admin.sock`` in ``directory`` between ``start`` and ``stop``, or inside ``async with``.

    The caller holds the lock of the directory, so an existing socket file belongs to a killed process and is replaced.
    A request cannot end the bridge: an exception of ``admin`` is answered with its type and message.
    """

    def __init__(
        self, directory: Path, admin: AdminOperations, report: Report = unheard, *, about: About | None = None
    ) -> None:
        self._directory = directory
        self._about = about or About(os.getpid())
        self._admin = admin
        self._report = report
        self._file: SocketFile | None = None
        self._listening: asyncio.Server | None = None
        self._connections = Connections(ADMIN_SERVER, most=_MOST_CONNECTIONS, seconds=_REQUEST_SECONDS, report=report)
        app = web.Application(middlewares=[self._guard], client_max_size=LARGEST_REQUEST)
        app.router.add_get(f"{PREFIX}/", self._answer_greeting)
        app.router.add_get(f"{PREFIX}/cursors", self._answer_cursors)
        app.router.add_post(f"{PREFIX}/replay", self._answer_replay)
        app.router.add_get(f"{PREFIX}/dead-letters", self._answer_dead_letters)
        app.router.add_get(f"{PREFIX}/dead-letters/{{number}}/object", self._answer_object)
        app.router.add_post(f"{PREFIX}/dead-letters/retry", self._answer_retry)
        app.router.add_post(f"{PREFIX}/dead-letters/drop", self._answer_drop)
        app.router.add_post(f"{PREFIX}/sinks/{{action:retry|pause|resume}}", self._answer_sink)
        app.router.add_get(f"{PREFIX}/state", self._answer_state)
        self._runner = web.AppRunner(app, access_log=None, keepalive_timeout=0, lingering_time=0, shutdown_timeout=2.0)

    async def start(self) -> None:
        """Raises OSError if the socket cannot be created."""
        self._file = SocketFile(self._directory)
        try:
            await self._runner.setup()
            server = self._runner.server
            if server is None:
                raise RuntimeError("the runner made no server")
            self._listening = await asyncio.get_running_loop().create_server(
                self._connections.bounded(server), sock=self._file.socket
            )
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Running answers have two seconds to end. Removes the socket file."""
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()
        if self._file is not None:
            self._file.remove()
            self._file = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # ── Answers ──────────────────────────────────────────────────────────────

    async def _answer_greeting(self, _request: web.Request) -> web.Response:
        """Identifies the bridge; an answer proves that its event loop runs."""
        return _json(self._about)

    async def _answer_cursors(self, request: web.Request) -> web.Response:
        request[_COMMAND] = "cursors"
        found = await self._admin.cursors()
        request[_RESULT] = counted(len(found.sinks), "sink")
        return _json(found)

    async def _answer_replay(self, request: web.Request) -> web.Response:
        asked = msgspec.json.decode(await request.read(), type=ReplayRequest)
        request[_COMMAND] = _replay(asked)
        done = await self._admin.replay(asked)
        request[_RESULT] = counted(done.records, "record")
        return _json(done)

    async def _answer_dead_letters(self, request: web.Request) -> web.Response:
        page = msgspec.convert(dict(request.query), DeadLetterQuery, strict=False)
        request[_COMMAND] = f"dead-letters list {page.sink or ''}".strip()
        request[_CONTINUED] = page.after > 0
        found = await self._admin.dead_letters(page.sink, after=page.after, limit=page.limit)
        request[_RESULT] = counted(len(found), "dead letter")
        return _json(found)

    async def _answer_object(self, request: web.Request) -> web.Response:
        number = msgspec.convert(request.match_info["number"], Number, strict=False)
        request[_COMMAND] = f"dead-letters show {number}"
        body = await self._admin.dead_letter_body(number)
        request[_RESULT] = counted(len(body), "byte")
        return web.Response(body=body, content_type="application/json")

    async def _answer_retry(self, request: web.Request) -> web.Response:
        chosen = msgspec.json.decode(await request.read(), type=DeadLetterChoice)
        request[_COMMAND] = f"dead-letters retry {chosen}"
        count = await self._admin.retry(chosen.sink, chosen.numbers)
        request[_RESULT] = counted(count, "dead letter")
        return _json(Count(count))

    async def _answer_drop(self, request: web.Request) -> web.Response:
        chosen = msgspec.json.decode(await request.read(), type=DeadLetterChoice)
        request[_COMMAND] = f"dead-letters drop {chosen}"
        count = await self._admin.drop(chosen.sink, chosen.numbers)
        request[_RESULT] = counted(count, "dead letter")
        return _json(Count(count))

    async def _answer_sink(self, request: web.Request) -> web.Response:
        sink = msgspec.json.decode(await request.read(), type=SinkName).sink
        request[_COMMAND] = f"sinks {request.match_info['action']} {sink}"
        match request.match_info["action"]:
            case "retry":
                changed = await self._admin.retry_sink(sink)
            case "pause":
                changed = await self._admin.pause_sink(sink)
            case _:
                changed = await self._admin.resume_sink(sink)
        request[_RESULT] = "done" if changed else "unchanged"
        return _json(Changed(changed))

    async def _answer_state(self, request: web.Request) -> web.Response:
        request[_COMMAND] = "state check"
        report = await self._admin.state_check()
        request[_RESULT] = counted(len(report.problems), "problem")
        return _json(report)

    # ── Around every answer ──────────────────────────────────────────────────

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Closes the connection after its request."""
        try:
            await request.read()
            Connections.keep(request.transport)
            response = await self._answered(request, handler)
        except web.HTTPException as refusal:
            refusal.force_close()
            raise
        response.force_close()
        return response

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        why = ""
        try:
            return await handler(request)
        except web.HTTPException as refusal:
            why = refusal.reason
            raise
        except UnknownTarget as unknown:
            why = str(unknown)
            return _json(Refusal(why), status=404)
        except msgspec.MsgspecError as wrong:
            why = str(wrong)
            return _json(Refusal(why), status=400)
        except Exception as error:
            why = _reason(error)
            return _json(Refusal(why), status=500)
        finally:
            self._report_command(request, why)

    def _report_command(self, request: web.Request, why: str) -> None:
        """Reports every command. A greeting is not a command."""
        command = request.get(_COMMAND)
        if command is None and not why:
            return
        uid, pid = _who(request)
        self._report(
            OperatorCommand(
                (command or f"{request.method} {request.path}")[:_LONGEST_COMMAND],
                why[:_LONGEST_REASON] or request.get(_RESULT, ""),
                done=not why,
                uid=uid,
                pid=pid,
                continued=request.get(_CONTINUED, False),
            )
        )


def _replay(asked: ReplayRequest) -> str:
    narrowed = {"--resource": asked.resource, "--namespace": asked.namespace}
    options = "".join(f" {option} {value}" for option, value in narrowed.items() if value is not None)
    return f"replay {asked.sink} --from {asked.start}{options}"


def _who(request: web.Request) -> tuple[int | None, int | None]:
    """User id and process id of the client, if the system provides them (unix(7), SO_PEERCRED)."""
    connected = request.get_extra_info("socket")
    if connected is None or not hasattr(socket, "SO_PEERCRED"):
        return None, None
    pid, uid, _gid = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return uid, pid


def _reason(error: Exception) -> str:
    """Type and message. File names in it may hold bytes that are not UTF-8, which are replaced."""
    return f"{type(error).__name__}: {error}"[:_LONGEST_REASON].encode(errors="replace").decode()


def _json(value: object, *, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
