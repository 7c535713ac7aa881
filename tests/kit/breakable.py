"""A cluster and two brokers that a story may kill and freeze, as long as it does not mind that others did before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.servers import Etcd, KafkaBehindALine, KubeApiServer, Nats, Server
from tests.kit.etcd_history import JSON_STORAGE, NO_COMPACTION


@dataclass(frozen=True, slots=True)
class Breakable:
    """The store keeps its whole history."""

    etcd: Etcd
    api: KubeApiServer
    kafka: KafkaBehindALine
    nats: Nats

    @property
    def servers(self) -> dict[str, Server]:
        """By name, in the order in which they may be started; ended in reverse, none waits for another."""
        return {"etcd": self.etcd, "apiserver": self.api, "kafka": self.kafka, "nats": self.nats}

    async def heal(self) -> None:
        """Whatever a story left dead or frozen runs again."""
        for server in self.servers.values():
            await asyncio.to_thread(server.heal)


@contextmanager
def breakable_servers(
    folder: Path, etcd: Path, kubernetes: Path, kafka: KafkaBehindALine, nats: Nats
) -> Iterator[Breakable]:
    """A cluster of these builds, beside these brokers."""
    flags = [JSON_STORAGE, NO_COMPACTION]
    with Etcd(folder / "etcd", etcd) as store, KubeApiServer(folder / "api", kubernetes, store, flags) as api:
        yield Breakable(store, api, kafka, nats)
