"""Answers the operator's commands: routes for the table of ``commands``, which the page has too, and the server of the
admin socket in the state directory.

``add_commands`` makes a handler for each command, which decodes the request, calls the operations, and leaves the
command, in the operator's notation, and its result with the request, for the OperatorCommand fact. ``answered``
surrounds every handler, so that a command has an answer whatever happens: exceptions of the operations become answers
with a reason.

The file's mode is the login: only the bridge's user (and root) may open the socket, and so may replay, retry, drop,
pause and resume. There is no port, so web pages and other machines cannot reach the server.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path

import msgspec
from aiohttp import web

from bridge.app.admin.commands import (
    COMMANDS,
    LARGEST_REQUEST,
    PREFIX,
    AdminCommand,
    AdminOperations,
    FollowQuery,
    Refusal,
)
from bridge.http.listener import Bounds, Handler, Limits, Listener
from bridge.http.socket_file import SocketFile
from bridge.model.admin import About, UnknownTarget
from bridge.model.primitives.printable import counted
from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.process import ADMIN_SERVER, OperatorCommand

_COMMAND = web.RequestKey("command", str)
_RESULT = web.RequestKey("result", str)
_CONTINUED = web.RequestKey("continued", bool)
_LONGEST_REASON = 1000
_LONGEST_COMMAND = 200


# ── A handler for each command ───────────────────────────────────────────────


def add_commands(router: web.UrlDispatcher, admin: AdminOperations) -> None:
    """Handlers raise the exceptions of ``admin``, and MsgspecError for a request of another form."""
    for command in COMMANDS.values():
        router.add_route(command.method, command.route, partial(_handle, admin, command))
    router.add_get(f"{PREFIX}/follow", partial(_follow, admin))


async def _handle(admin: AdminOperations, command: AdminCommand, request: web.Request) -> web.Response:
    body = await request.read() if command.method == "POST" else b""
    arguments = command.decode_request({**request.query, **request.match_info}, body)
    if command.said is not None:
        request[_COMMAND] = command.said(**arguments)
        request[_CONTINUED] = arguments.get("after", 0) > 0
    answer = await getattr(admin, command.name)(**arguments)
    if command.said is not None:
        request[_RESULT] = command.result(answer)
    return _json_response(command.encode_answer(answer))


async def _follow(admin: AdminOperations, request: web.Request) -> web.StreamResponse:
    """A line for each Followed, until the client leaves, or is cut because it does not read."""
    sink = msgspec.convert(dict(request.query), FollowQuery).sink
    request[_COMMAND] = f"tail {sink or ''}".strip()
    count = 0
    async with aclosing(admin.follow(sink)) as found:
        first = await anext(found, None)  # Before the answer begins: its error has a status of its own.
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        with suppress(ConnectionError):
            await response.prepare(request)
            if first is not None:
                await response.write(msgspec.json.encode(first) + b"\n")
            async for each in found:
                await response.write(msgspec.json.encode(each) + b"\n")
                count += len(each.records)
    request[_RESULT] = counted(count, "record")
    return response


# ── Around every handler ─────────────────────────────────────────────────────


async def answered(
    request: web.Request, handler: Handler, done: Callable[[web.Request, str], None]
) -> web.StreamResponse:
    """The answer of ``handler``, or a refusal. Calls ``done`` with the reason of a failure, empty for a success, in any
    case. Raises HTTPException where the handler does."""
    why = ""
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        why = refusal.reason
        raise
    except UnknownTarget as unknown:
        why = str(unknown)
        return _refused(why, 404)
    except msgspec.MsgspecError as wrong:
        why = str(wrong)
        return _refused(why, 400)
    except Exception as error:
        # File names in the message may hold bytes that are not UTF-8.
        why = f"{type(error).__name__}: {error}"[:_LONGEST_REASON].encode(errors="replace").decode()
        return _refused(why, 500)
    finally:
        done(request, why)


def command_fact(
    request: web.Request, why: str, *, uid: int | None = None, pid: int | None = None, client: str = ""
) -> OperatorCommand:
    """The fact of an answered command. ``why``: the reason of a failure, else empty."""
    return OperatorCommand(
        (request.get(_COMMAND) or f"{request.method} {request.path}")[:_LONGEST_COMMAND],
        why[:_LONGEST_REASON] or request.get(_RESULT, ""),
        done=not why,
        uid=uid,
        pid=pid,
        continued=request.get(_CONTINUED, False),
        client=client,
    )


def _refused(why: str, status: int) -> web.Response:
    return _json_response(msgspec.json.encode(Refusal(why)), status)


def _json_response(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


# ── The admin socket ─────────────────────────────────────────────────────────

_CREDENTIALS = struct.Struct("3i")
_LIMITS = Limits(connections=Bounds(all=32, of_a_client=32), line=8190, headers=128, body=LARGEST_REQUEST)


class AdminServer(Listener):
    """Answers on ``admin.sock`` in ``directory`` between ``start`` and ``stop``, or inside ``async with``.

    The caller holds the lock of the directory, so an existing socket file belongs to a killed process and is replaced.
    A request cannot end the bridge: an exception of ``admin`` is answered with its type and message.
    """

    def __init__(
        self, directory: Path, admin: AdminOperations, report: Report = discard, *, about: About | None = None
    ) -> None:
        super().__init__(ADMIN_SERVER, limits=_LIMITS, report=report, answer=self._answer_command)
        self._directory = directory
        self._about = about or About(os.getpid())
        self._file: SocketFile | None = None
        self.router.add_get(f"{PREFIX}/", self._greeting)
        add_commands(self.router, admin)

    async def start(self) -> None:
        """Raises OSError if the socket cannot be created."""
        self._file = SocketFile(self._directory)
        try:
            await self.listen(sock=self._file.socket)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Running answers have two seconds to end. Removes the socket file."""
        await super().stop()
        if self._file is not None:
            self._file.remove()
            self._file = None

    async def _greeting(self, _request: web.Request) -> web.Response:
        """Identifies the bridge; an answer proves that its event loop runs."""
        return _json_response(msgspec.json.encode(self._about))

    async def _answer_command(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        return await answered(request, handler, self._report_command)

    def _report_command(self, request: web.Request, why: str) -> None:
        """Reports every command. A greeting is not a command."""
        if _COMMAND not in request and not why:
            return
        uid, pid = _who(request)
        self._report(command_fact(request, why, uid=uid, pid=pid))


def _who(request: web.Request) -> tuple[int | None, int | None]:
    """User id and process id of the client, if the system provides them (unix(7), SO_PEERCRED)."""
    connected = request.get_extra_info("socket")
    if connected is None or not hasattr(socket, "SO_PEERCRED"):
        return None, None
    pid, uid, _gid = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return uid, pid
