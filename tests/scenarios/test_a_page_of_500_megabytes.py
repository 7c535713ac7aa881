"""Lists and answers as large as a server can make them, and what the bridge's process takes for them at most."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import AsyncIterator, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bridge.kube.discovery_documents import Described, World, serve_aggregated
from tests.kit.bridge_process import BridgeProcess
from tests.kit.scripted_server import Exchange, Handler, ScriptedServer

ALLOWED = 256 << 20
"""Bytes of memory at most, of the 1 GiB that the deployment has."""
OBJECTS, MANY_OBJECTS = 300, 500
"""A megabyte each, and so more than is allowed."""
CORE: World = {("", "v1"): [Described("configmaps", "ConfigMap")]}
PATH = "/api/v1/configmaps"
LARGE = os.urandom(1 << 19).hex()
"""A megabyte that compresses to half of it."""
SMALL = "x" * (1 << 20)
"""A megabyte that compresses to a thousandth of it."""


class Event(msgspec.Struct):
    subject: str
    data: dict[str, Any]


def pieces(value: str, objects: int) -> Iterator[bytes]:
    """Each large one is the same, because a hundred equal pieces are compressed as fast as one."""
    large = value.encode()
    yield b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":['
    for number in range(objects):
        metadata = {"name": f"c{number}", "namespace": "shop", "uid": f"u{number}", "resourceVersion": "7"}
        yield (b"," if number else b"") + b'{"metadata":' + json.dumps(metadata).encode() + b',"data":{"a":"'
        yield large
        yield b'"}}'
    yield b"]}"


def compressed(whole: Iterator[bytes]) -> Iterator[bytes]:
    """One member of gzip. Each piece is compressed by itself, an equal one once."""
    packed: dict[bytes, bytes] = {}
    checksum = length = 0
    yield b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    for piece in whole:
        if piece not in packed:
            deflate = zlib.compressobj(1, wbits=-15)
            packed[piece] = deflate.compress(piece) + deflate.flush(zlib.Z_FULL_FLUSH)
        yield packed[piece]
        checksum, length = zlib.crc32(piece, checksum), length + len(piece)
    yield zlib.compressobj(wbits=-15).flush() + struct.pack("<II", checksum, length % (1 << 32))


def white_space() -> Iterator[bytes]:
    """1 GiB."""
    return repeat(b" " * (1 << 20), 1 << 10)


def saying(whole: list[bytes], encoding: str = "identity") -> Handler:
    async def say(exchange: Exchange) -> None:
        if exchange.request.query.get("watch"):
            await exchange.begin()
            await exchange.hung_up()
            return
        await exchange.begin(headers={"Content-Encoding": encoding})
        for piece in whole:
            await exchange.send(piece)
        await exchange.end()

    return say


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        serve_aggregated(running, CORE)
        yield running


def bridge_on(server: ScriptedServer, folder: Path) -> BridgeProcess:
    config = {
        "cluster": {"name": "testbed", "server": server.url},
        "resources": ["configmaps"],
        "watch": {"watch_list": "never"},
        "sinks": {"copy": {"type": "file", "path": str(folder / "deltas.ndjson"), "fsync": "never"}},
    }
    return BridgeProcess(folder, config, waits=False)


def most_memory_of(bridge: BridgeProcess) -> int:
    """Bytes: the high-water mark of what the process had in memory."""
    status = Path(f"/proc/{bridge.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


@pytest.mark.parametrize("objects", [OBJECTS, pytest.param(MANY_OBJECTS, marks=pytest.mark.soak)])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_a_page_of_objects_of_a_megabyte_is_reported_whole(
    encoding: str, objects: int, server: ScriptedServer, tmp_path: Path
) -> None:
    """However many were asked for: so do servers that answer out of their cache."""
    plain = encoding == "identity"
    whole = pieces(LARGE, objects) if plain else compressed(pieces(SMALL, objects))
    server.on(PATH, saying(list(whole), encoding))
    deltas = tmp_path / "deltas.ndjson"

    async with bridge_on(server, tmp_path).started() as bridge:
        await bridge.until(
            "all is reported", lambda now: now.value("ready") == 1 and deltas.stat().st_size >= objects << 20, 120
        )
        most = most_memory_of(bridge)

    with deltas.open("rb") as lines:
        received = [_name(line) for line in lines]
    assert received == [f"c{number}" for number in range(objects)]
    print(f"\n{objects} MiB, {encoding}: {most >> 20} MiB at most")
    assert most < ALLOWED


def _name(line: bytes) -> str:
    """Of an event with a megabyte in it. Raises ValueError where the line is no event."""
    event = msgspec.json.decode(line, type=Event)
    assert len(event.data["data"]["a"]) == 1 << 20
    return event.subject.rpartition("/")[2]


@pytest.mark.parametrize("where", ["list", "discovery"])
async def test_a_gigabyte_of_white_space_in_gzip_are_refused(
    where: str, server: ScriptedServer, tmp_path: Path
) -> None:
    bomb = list(compressed(white_space()))
    path = PATH if where == "list" else "/apis"
    server.on(path, saying(bomb, "gzip"))

    async with bridge_on(server, tmp_path).started() as bridge:
        await bridge.until("it has asked three times", lambda _: len(server.asked(path)) >= 3)
        most = most_memory_of(bridge)
        assert not await bridge.ready()
        log = bridge.log_tail(100)

    assert "bytes beside its items" in log if where == "list" else "larger than 32 MiB" in log
    print(f"\n{where}: {sum(map(len, bomb)) / 1e6:.1f} MB that inflate to 1 GiB, three times: {most >> 20} MiB at most")
    assert most < ALLOWED
