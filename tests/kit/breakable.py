"""A cluster and two brokers that a story may kill and freeze, as long as it does not mind that others did before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.servers import Etcd, Kafka, KubeApiServer, Nats, Server
from tests.kit.etcd_history import JSON_STORAGE, NO_COMPACTION


@dataclass(frozen=True, slots=True)
class Breakable:
    """Servers on ports and data of their own. The store keeps its whole history."""

    etcd: Etcd
    api: KubeApiServer
    kafka: Kafka
    nats: Nats

    @property
    def servers(self) -> dict[str, Server]:
        """By name, in the order in which they may be started; ended in reverse, none waits for another."""
        return {"etcd": self.etcd, "apiserver": self.api, "kafka": self.kafka, "nats": self.nats}

    async def heal(self) -> None:
        """Whatever a story left dead or frozen runs again."""
        for server in self.servers.values():
            if server.running:
                server.resume()
            else:
                await asyncio.to_thread(server.start)


@contextmanager
def breakable_servers(folder: Path, etcd: Path, kubernetes: Path, kafka: Path, nats: Path) -> Iterator[Breakable]:
    """Started side by side, of these builds."""
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        store = Etcd(folder / "etcd", etcd)
        api = KubeApiServer(folder / "kube-apiserver", kubernetes, store, [JSON_STORAGE, NO_COMPACTION])
        servers = Breakable(store, api, Kafka(folder / "kafka", kafka), Nats(folder / "nats", nats))
        for server in servers.servers.values():
            stack.callback(server.stop)
        for starting in [threads.submit(server.start) for server in servers.servers.values()]:
            starting.result()
        yield servers
