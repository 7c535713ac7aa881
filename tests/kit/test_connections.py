"""Servers of the tests close what they accepted, whatever became of it."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.kit.certificates import Authority
from tests.kit.collector import collecting
from tests.kit.scripted_server import ScriptedServer
from tests.kit.webhook_receiver import WebhookReceiver


def a_scripted_server(tls: SSLContext) -> AbstractAsyncContextManager[Any]:
    return ScriptedServer(tls=tls)


def a_collector(tls: SSLContext) -> AbstractAsyncContextManager[Any]:
    return collecting(ssl_context=tls)


def a_receiver(tls: SSLContext) -> AbstractAsyncContextManager[Any]:
    return WebhookReceiver(tls)


@pytest.mark.parametrize("of_server", [a_scripted_server, a_collector, a_receiver])
async def test_a_handshake_that_never_came_ends_with_its_server(tmp_path: Path, of_server: Any) -> None:
    authority = Authority.make(tmp_path)
    trusts = create_default_context(cafile=authority.certificate)
    with socket.socket() as client:
        client.setblocking(False)
        async with of_server(authority.issue("127.0.0.1").server_context()) as server:
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", urlsplit(server.url).port))
            # Another connection of the server is over when this one has been accepted.
            _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(server.url).port, ssl=trusts)
            writer.transport.abort()
        async with asyncio.timeout(20):  # asyncio itself gives a handshake up after 60 seconds.
            assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
    gc.collect()  # An unclosed transport warns, and a warning is an error.
