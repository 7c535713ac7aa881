"""Connections of a server in the test's own event loop that are left when it has closed."""

from __future__ import annotations

import asyncio
from typing import Any


async def abort_connections(port: int) -> None:
    """Nothing is left of the connections that a closed server accepted on this port of loopback.

    A server knows a connection only once its handshake is done: what it accepted a moment before its end is neither
    closed with it nor waited for, and is reported as unclosed during a later test.
    """
    await asyncio.sleep(0)  # What is accepted becomes a transport in a task of its own.
    transports: dict[int, Any] = asyncio.get_running_loop()._transports  # type: ignore[attr-defined]
    for transport in list(transports.values()):
        if (transport.get_extra_info("sockname") or ("", 0))[1] == port:
            transport.abort()
    await asyncio.sleep(0)
