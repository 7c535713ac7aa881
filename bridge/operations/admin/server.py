"""Serves the operator's commands for a running bridge, on a unix socket in the state directory.

The file's mode is the login: only the bridge's user (and root) may open the socket, and so may replay, retry, drop,
pause and resume. There is no port, so web pages and other machines cannot reach the server.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

from aiohttp import web

from bridge.http.listener import Bounds, Limits, Listener, Startable
from bridge.model.admin import About, AdminOperations
from bridge.operations.admin.handlers import COMMAND, AdminHandlers, Handler, answered, command_fact
from bridge.operations.admin.protocol import LARGEST_REQUEST, SocketFile
from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.process import ADMIN_SERVER

_CREDENTIALS = struct.Struct("3i")
_LIMITS = Limits(connections=Bounds(all=32, of_a_client=32), line=8190, headers=128, body=LARGEST_REQUEST)


class AdminServer(Startable):
    """Answers on ``admin.sock`` in ``directory`` between ``start`` and ``stop``, or inside ``async with``.

    The caller holds the lock of the directory, so an existing socket file belongs to a killed process and is replaced.
    A request cannot end the bridge: an exception of ``admin`` is answered with its type and message.
    """

    def __init__(
        self, directory: Path, admin: AdminOperations, report: Report = discard, *, about: About | None = None
    ) -> None:
        self._directory = directory
        self._report = report
        self._file: SocketFile | None = None
        self._listener = Listener(ADMIN_SERVER, limits=_LIMITS, report=report, answer=self._answer)
        AdminHandlers(admin, about or About(os.getpid())).add_routes(self._listener.router)

    async def start(self) -> None:
        """Raises OSError if the socket cannot be created."""
        self._file = SocketFile(self._directory)
        try:
            await self._listener.start(self._file.socket)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Running answers have two seconds to end. Removes the socket file."""
        await self._listener.stop()
        if self._file is not None:
            self._file.remove()
            self._file = None

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        return await answered(request, handler, self._report_command)

    def _report_command(self, request: web.Request, why: str) -> None:
        """Reports every command. A greeting is not a command."""
        if COMMAND not in request and not why:
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
