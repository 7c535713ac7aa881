"""A real bridge with 1,024 files, and strangers that hold connections by the thousand."""

from __future__ import annotations

import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from bridge.playground import Playground
from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import Process
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY

FILES = 1024
STRANGERS = 1_300
LITTLE = 64 * 1024
"""Bytes of log."""


class SmallBridge(BridgeProcess):
    page = ""
    """The address of its page."""

    def spawn(self, log: int) -> Process:
        process = super().spawn(log)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        return process


@pytest.fixture
def many_files() -> Iterator[None]:
    """The attackers live here, and need more files than a process has by itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, STRANGERS + 500)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this user may open {hard} files at most")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[SmallBridge]:
    async with Playground() as cluster:
        config = {
            "cluster": {"name": "playground", "server": cluster.url},
            "resources": ["configmaps"],
            "sinks": {"copy": {"type": "file", "path": str(tmp_path / "deltas.ndjson")}},
            "page": {"listen": (page := f"127.0.0.1:{reserve_port()}")},
        }
        bridge = SmallBridge(tmp_path / "bridge", config)
        bridge.page = page
        async with bridge.started():
            yield bridge


def _half_open(address: str, stack: ExitStack, beginning: bytes) -> socket.socket:
    host, port = address.rsplit(":", 1)
    stranger = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
    if beginning:
        stranger.sendall(beginning)
    return stranger


async def _connect_all(
    bridge: BridgeProcess, address: str, probe: httpx.AsyncClient, stack: ExitStack, beginning: bytes
) -> None:
    for number in range(STRANGERS):
        _half_open(address, stack, beginning)
        if number % 50 == 0:
            # Answered when the strangers before it are accepted: the kernel would let those beyond its queue wait.
            assert (await probe.get(f"http://{bridge.address}/healthz")).status_code == 200


def _open_files(bridge: BridgeProcess) -> int:
    return len(list(Path(f"/proc/{bridge.pid}/fd").iterdir()))


@pytest.mark.parametrize(
    ("server", "beginning"),
    [
        ("telemetry.listen", b""),
        ("telemetry.listen", b"GET /metr"),
        ("page.listen", b""),
        ("page.listen", b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ],
    ids=["silent", "half a request", "silent at the page", "viewers of the page"],
)
async def test_probes_are_answered_while_strangers_hold_all_the_files(
    bridge: SmallBridge, many_files: None, server: str, beginning: bytes
) -> None:
    address = bridge.address if server == "telemetry.listen" else bridge.page
    client = httpx.AsyncClient(trust_env=False, verify=False, timeout=5 * BUSY)
    with ExitStack() as strangers:
        async with client as probe:
            await _connect_all(bridge, address, probe, strangers, beginning)
            files = _open_files(bridge)
            for path in ("healthz", "readyz", "metrics"):
                assert (await probe.get(f"http://{bridge.address}/{path}")).status_code == 200
        metrics = await bridge.metrics()
    assert files < FILES / 2
    cut = metrics.value("http_cut_connections_total", server=server, reason="crowded")
    assert cut > STRANGERS / 2 or beginning.endswith(b"\r\n\r\n"), "beyond eight, viewers are sent away"
    assert bridge.log.stat().st_size < LITTLE
