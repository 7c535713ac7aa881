"""The admin server: the operator's commands for a running bridge, on a unix socket in the state directory.

The file's mode is the login: only the bridge's user (and root) may open the socket, and so may replay, retry, drop,
pause and resume. There is no port, so web pages and other machines cannot reach the server.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from pathlib import Path

from aiohttp import web

from bridge.admin.answering import Handler, answered, command_fact
from bridge.admin.handlers import COMMAND, AdminHandlers
from bridge.admin.protocol import LARGEST_REQUEST
from bridge.admin.socket_file import SocketFile
from bridge.facts import ADMIN_SERVER, Report, discard
from bridge.model.admin import About, AdminOperations
from bridge.web.connections import Connections
from bridge.web.startable import Startable

_CREDENTIALS = struct.Struct("3i")
_MOST_CONNECTIONS = 32
_REQUEST_SECONDS = 10.0
"""From the first packet of a connection to the end of its request. The answer has no deadline."""


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
        self._listening: asyncio.Server | None = None
        self._connections = Connections(ADMIN_SERVER, most=_MOST_CONNECTIONS, seconds=_REQUEST_SECONDS, report=report)
        app = web.Application(middlewares=[self._guard], client_max_size=LARGEST_REQUEST)
        AdminHandlers(admin, about or About(os.getpid())).add_routes(app.router)
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

    # ── Around every answer ──────────────────────────────────────────────────

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Closes the connection after its request."""
        try:
            # The whole request first: ``keep`` ends the deadline, and an answer may take any time.
            await request.read()
            Connections.keep(request.transport)
            response = await answered(request, handler, self._report_command)
        except web.HTTPException as refusal:
            refusal.force_close()
            raise
        response.force_close()
        return response

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
