"""TCP ports of 127.0.0.1 that are kept for a server before it listens, and while it is down.

A reserved port is bound, by a socket of the test process that never listens. The kernel then gives the port to nobody:
to no other suite of this machine, no program that asks for any free port, and no outgoing connection (which could even
meet itself on loopback). Only a server that names the port and sets SO_REUSEADDR can listen beside it; asyncio,
Go and Java set it. The kernel has the port back when the test process ends, however it ends.
"""

from __future__ import annotations

import socket


def hold_port() -> socket.socket:
    """Reserves a port until the socket is closed."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    # Only now: the kernel shares a port that was asked for as 0 with nobody, and later lets in who names it.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


def reserve_port() -> int:
    """A port that is kept until this process ends. Nobody listens on it."""
    held = hold_port()
    port: int = held.getsockname()[1]
    held.detach()  # Only the descriptor stays: Python would warn of an open socket at the end of the process.
    return port
