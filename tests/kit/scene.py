"""A namespace of the breakable cluster that a bridge watches for four sinks, and the judge of what it
delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.kube_client import KubeClient, Manifest
from tests.cluster.servers import KubeApiServer
from tests.kit.breakable import Breakable
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, an_object
from tests.kit.etcd_history import Happened, history
from tests.kit.four_sinks import FourSinks
from tests.kit.judge import Verdict, judge_all
from tests.kit.received import Received, from_file, received_lists


@dataclass(slots=True)
class Scene:
    servers: Breakable
    namespace: str
    sinks: FourSinks
    folder: Path
    happened: list[Happened] = field(default_factory=list)
    """As far as it was read."""
    _read_from: int = 0
    _markers: int = 0

    @property
    def root(self) -> str:
        """The path of what the namespace holds."""
        return f"/api/v1/namespaces/{self.namespace}"

    async def prepare(self) -> None:
        self._read_from = await asyncio.to_thread(self.servers.etcd.revision)
        await self.sinks.prepare()
        async with KubeClient(self.servers.api) as kube:
            await kube.create_namespace(self.namespace)

    async def remove(self) -> None:
        await self.sinks.remove()
        async with KubeClient(self.servers.api) as kube:
            await kube.delete_namespace(self.namespace)

    def config(self, *, api: KubeApiServer | None = None, **sections: Any) -> dict[str, Any]:
        """All four sinks, all kinds. ``sections`` come on top, and replace what is there."""
        kubeconfig = (api or self.servers.api).kubeconfig(self.folder / "kubeconfig")
        return {
            "cluster": {"name": "testbed", "kubeconfig": str(kubeconfig)},
            "resources": [{"resource": kind, "namespaces": [self.namespace]} for kind in KINDS],
            "sinks": self.sinks.section,
            **sections,
        }

    def bridge(self, **sections: Any) -> BridgeProcess:
        return BridgeProcess(self.folder / "bridge", self.config(**sections))

    # ── What happened ────────────────────────────────────────────────────────

    async def remember(self) -> list[Happened]:
        """Read on in the history of the namespace."""
        prefixes = [f"{kind}/{self.namespace}/" for kind in KINDS]
        newest = await asyncio.to_thread(self.servers.etcd.revision)
        self.happened += await history(self.servers.etcd, *prefixes, since=self._read_from, through=newest)
        self._read_from = newest + 1
        return self.happened

    async def forget(self) -> None:
        """No step until now can be watched any more. Nothing may happen meanwhile."""
        await self.remember()
        compacted = await asyncio.to_thread(self.servers.etcd.compact)
        self._read_from = max(self._read_from, compacted)
        await asyncio.to_thread(self.servers.api.restart)  # It had the steps in its watch cache.

    async def until_received(self, bridge: BridgeProcess, *sinks: str) -> None:
        """Wait until these sinks, or all, have received all that has happened until now."""
        markers = await self.mark()
        await bridge.until("the last changes are read", lambda _: self._has(markers), 120)
        await bridge.until_delivered(*sinks, timeout=120)

    async def mark(self) -> list[Manifest]:
        """Make one more object of each kind, behind everything else."""
        self._markers += 1
        async with KubeClient(self.servers.api) as kube:
            made = [kube.create(f"{self.root}/{kind}", an_object(kind, f"marker-{self._markers}")) for kind in KINDS]
            return await asyncio.gather(*made)

    def _has(self, objects: list[Manifest]) -> bool:
        """Whether the file has them."""
        written = b""
        with suppress(FileNotFoundError):
            written = self.sinks.file.read_bytes()
        return all(each["metadata"]["uid"].encode() in written for each in objects)

    # ── What was delivered ───────────────────────────────────────────────────────

    def written(self) -> list[Received]:
        """By the file alone, until now."""
        return received_lists(from_file(self.sinks.file))

    async def judged(self) -> dict[str, Verdict]:
        """Of all sinks, of all that happened."""
        happened = await self.remember()
        streams: Mapping[str, list[Received]] = await self.sinks.delivered()
        return await asyncio.to_thread(judge_all, streams, happened)
