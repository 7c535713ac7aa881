"""A bridge with a page: a simulated cluster, and sinks that are well, refuse a record, or cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.playground.simulation import ClusterSimulation
from tests.cluster.servers.ports import reserve_port
from tests.kit.bridge_process import BridgeProcess
from tests.kit.playground import Playground
from tests.kit.webhook_receiver import ACCEPTED, Answer, Posted, WebhookReceiver

TOKEN = "a-token-for-the-tests-of-the-page"
REFUSED = "refused-by-the-endpoint"
"""Objects with this in their name are refused, until ``accepts``."""
EVIL = "<img src=x onerror=alert(1)>"


@dataclass(slots=True)
class Scene:
    cluster: Playground
    bridge: BridgeProcess
    receiver: WebhookReceiver
    url: str
    accepts: bool = False

    def answer(self, posted: Posted) -> Answer:
        if self.accepts or REFUSED.encode() not in posted.body:
            return ACCEPTED
        return Answer(413, body=f"{EVIL} the object is too large".encode())

    def create(self, name: str, namespace: str = "default", **data: str) -> None:
        self.cluster.create("configmaps", {"metadata": {"name": name, "namespace": namespace}, "data": data})

    def update(self, name: str, namespace: str = "default", **data: str) -> None:
        self.cluster.update("configmaps", {"metadata": {"name": name, "namespace": namespace}, "data": data})


@asynccontextmanager
async def a_scene(
    folder: Path,
    *,
    resources: Sequence[str] = ("configmaps",),
    rate: float = 0.0,
    token: bool = True,
    **sinks: Any,
) -> AsyncIterator[Scene]:
    """``rate``: changes of a simulated cluster in a second; 0 for none. ``token``: whether the page has one. ``sinks``:
    beside ``hook``."""
    (token_file := folder / "token").write_text(TOKEN)
    page = f"127.0.0.1:{reserve_port()}"
    async with Playground() as cluster, WebhookReceiver() as receiver, asyncio.TaskGroup() as tasks:
        if rate:
            life = tasks.create_task(ClusterSimulation(cluster, rate=rate).run())
        config = {
            "cluster": {"name": "playground", "server": cluster.url},
            "resources": list(resources),
            "sinks": {"hook": {"type": "webhook", "url": receiver.url}, **sinks},
            "state": {"retain": {"age": "1h"}},
            "page": {"listen": page, **({"token_file": str(token_file)} if token else {})},
        }
        bridge = BridgeProcess(folder / "bridge", config)
        async with bridge.started():
            scene = Scene(cluster, bridge, receiver, f"http://{page}/")
            receiver.answer = scene.answer
            yield scene
        if rate:
            life.cancel()
