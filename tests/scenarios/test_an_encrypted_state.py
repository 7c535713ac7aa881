"""An encrypted state between a real API server and a real Kafka: through kills and a change of the key. Nothing is
lost, and no file of the state has a piece of an object."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bridge.app.admin.client import AdminClient
from bridge.outbox import EncryptionKey
from tests.cluster.kube_client import KubeClient
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY
from tests.kit.received import Received, assert_in_order, from_kafka, rebuilt, received_lists
from tests.kit.scene import Scene

pytestmark = pytest.mark.long

OBJECTS = 60
PACKED = (b"\x28\xb5\x2f\xfd\x24", b"\x28\xb5\x2f\xfd\x64")
"""The beginnings of zstd's frames, in which texts cannot be found."""


class Texts:
    """Objects with texts that no file may have."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.made: dict[str, str] = {}
        """Name → the present text."""
        self._all: list[bytes] = []

    async def write(self, *, first: int = 0) -> None:
        """Creates or changes the objects from this number on."""
        path = f"{self._scene.root}/configmaps"
        async with KubeClient(self._scene.servers.api) as kube:
            for name in [f"text-{number}" for number in range(first, OBJECTS)]:
                data = {"text": self._new()}
                if name in self.made:
                    await kube.patch(f"{path}/{name}", {"data": data})
                else:
                    await kube.create(path, {"metadata": {"name": name}, "data": data})
                self.made[name] = data["text"]

    def _new(self) -> str:
        text = secrets.token_hex(24)
        # A frame of zstd may cut a text where it repeats, so halves are looked for.
        self._all += [text[:24].encode(), text[24:].encode()]
        return text

    def found_in(self, directory: Path) -> Iterator[tuple[str, bytes]]:
        for file in (each for each in directory.rglob("*") if each.is_file()):
            content = file.read_bytes()
            yield from ((file.name, each) for each in (*self._all, *PACKED) if each in content)


def sections(scene: Scene, *keys: Path) -> Mapping[str, Any]:
    return {
        "resources": [{"resource": "configmaps", "namespaces": [scene.namespace]}],
        "sinks": {"log": scene.sinks.section["log"]},
        "state": {"encryption": {"key_files": [str(each) for each in keys]}},
    }


@pytest.mark.parametrize("encrypted", [True, False], ids=["with keys", "the same search without keys"])
async def test_kafka_has_every_version_and_no_file_has_one(scene: Scene, encrypted: bool) -> None:
    former, new = a_key(scene.folder / "former.key"), a_key(scene.folder / "new.key")
    texts = Texts(scene)
    bridge = scene.bridge(**sections(scene, *[former] * encrypted))
    async with bridge.started():
        await texts.write()
        await bridge.until("all are read", lambda now: now.value("records_committed_total") == OBJECTS)
        await bridge.until_delivered()
        await paused(bridge)
        await texts.write()
        await bridge.until("a backlog", lambda now: now.value("sink_backlog_records") == OBJECTS)
        await asyncio.to_thread(bridge.kill9)
        found = {what for _, what in texts.found_in(bridge.state)}
        if not encrypted:
            assert found & set(PACKED)
            return
        assert not found

        bridge.reconfigure(**sections(scene, new, former))
        await asyncio.to_thread(bridge.start)
        await texts.write(first=OBJECTS // 2)
        await bridge.until("all are read", lambda now: now.value("records_committed_total") == OBJECTS // 2)
        await until_all_has(bridge, new)
        await asyncio.to_thread(bridge.kill9)
        bridge.reconfigure(**sections(scene, new))
        await asyncio.to_thread(bridge.start)
        await texts.write(first=OBJECTS // 2)
        async with AdminClient(bridge.state) as client:
            await client.resume_sink("log")
        await bridge.until("all are read", lambda now: now.value("records_committed_total") == OBJECTS // 2)
        await bridge.until_delivered()
        assert not [*texts.found_in(bridge.state)]
        stream = received_lists(from_kafka(await asyncio.to_thread(scene.servers.kafka.read_all, scene.sinks.name)))
    assert not [*texts.found_in(bridge.state)]
    judge(stream, texts)


def judge(stream: list[Received], texts: Texts) -> None:
    ours = [each for each in stream if each.data["metadata"]["name"] in texts.made]
    assert_in_order(ours, "log")
    assert {each["metadata"]["name"]: each["data"]["text"] for each in rebuilt(ours).values()} == texts.made
    versions = {each.version for each in ours}
    assert len(versions) == 2 * OBJECTS + 2 * (OBJECTS // 2), "every step"


def a_key(path: Path) -> Path:
    path.write_text(secrets.token_hex(32))
    return path


async def paused(bridge: BridgeProcess) -> None:
    async with AdminClient(bridge.state) as client:
        await client.pause_sink("log")


async def until_all_has(bridge: BridgeProcess, key: Path) -> None:
    """Until all content is under this key."""
    wanted, under = EncryptionKey(await asyncio.to_thread(key.read_bytes)).id, set[str]()
    async with asyncio.timeout(30 * BUSY), AdminClient(bridge.state) as client:
        while under != {wanted}:
            await asyncio.sleep(0.1)  # Nothing announces it.
            under = {name for name, size in (await client.state_check()).bytes_by_key.items() if size}
