"""A reserved port belongs to the server that it was reserved for, before it listens and while it is down."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.servers.ports import hold_port, reserve_port
from tests.kit.bridge_process import BridgeProcess

REPOSITORY = Path(__file__).parents[2]
IP_LOCAL_PORT_RANGE = 51
"""ip(7), since Linux 6.3: the ports that one socket's "any free port" is of."""


def any_free(port: int) -> socket.socket:
    """A socket for which the kernel has this port alone to choose."""
    asks = socket.socket()
    try:
        asks.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("I", port | port << 16))
    except OSError as error:
        asks.close()
        if error.errno == errno.ENOPROTOOPT:
            pytest.skip("this kernel cannot be asked for one port")
        raise
    return asks


def test_no_other_program_can_listen_on_a_reserved_port() -> None:
    port = reserve_port()
    code = "import socket, sys; socket.socket().bind(('127.0.0.1', int(sys.argv[1])))"
    other = subprocess.run([sys.executable, "-c", code, str(port)], capture_output=True, text=True, check=False)

    assert "Address already in use" in other.stderr


@pytest.mark.parametrize("reuses", [False, True])
def test_who_asks_for_any_port_does_not_get_a_reserved_one(reuses: bool) -> None:
    with any_free(reserve_port()) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuses)
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", 0))


def test_no_outgoing_connection_leaves_by_a_reserved_port() -> None:
    refused = pytest.raises(OSError, match="Cannot assign requested address")
    with socket.create_server(("127.0.0.1", 0)) as somewhere, any_free(reserve_port()) as client, refused:
        client.connect(somewhere.getsockname())


async def test_a_server_starts_on_its_port_again_and_again() -> None:
    port = reserve_port()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()


def test_two_servers_on_one_reserved_port_are_still_a_mistake() -> None:
    port = reserve_port()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", port)).close()


def test_a_port_is_given_back_when_it_is_no_longer_held() -> None:
    held = hold_port()
    address = held.getsockname()
    held.close()

    with socket.socket() as other:
        other.bind(address)


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


def test_a_process_that_reserved_ports_ends_without_a_warning() -> None:
    code = "from tests.cluster.servers.ports import reserve_port; print(reserve_port())"
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip().isdecimal()
    assert ended.stderr == ""
