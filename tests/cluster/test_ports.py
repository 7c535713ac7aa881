"""A reserved port belongs to the server that it was reserved for, before it listens and while it is down."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.servers.ports import reserve_port
from tests.kit.bridge_process import BridgeProcess

REPOSITORY = Path(__file__).parents[2]


def test_no_other_program_can_listen_on_a_reserved_port() -> None:
    port = reserve_port()
    code = "import socket, sys; socket.socket().bind(('127.0.0.1', int(sys.argv[1])))"
    other = subprocess.run([sys.executable, "-c", code, str(port)], capture_output=True, text=True, check=False)

    assert "Address already in use" in other.stderr


async def test_a_server_starts_on_its_port_again_and_again() -> None:
    port = reserve_port()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()


def test_a_killed_suite_gives_its_ports_back() -> None:
    code = "from tests.cluster.servers.ports import reserve_port; print(reserve_port(), flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as suite:
        assert suite.stdout is not None
        address = "127.0.0.1", int(suite.stdout.readline())
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
        suite.kill()

    with socket.socket() as other:
        other.bind(address)


def test_a_bridge_owns_its_address_before_it_listens(tmp_path: Path) -> None:
    host, port = BridgeProcess(tmp_path, {}).address.split(":")

    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((host, int(port)))
