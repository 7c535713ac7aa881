"""Kafka as three nodes in KRaft mode, each of which is broker and controller. Two of them go on without the third."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin._metadata import ClusterMetadata

from tests.cluster.servers.kafka import Kafka, fresh_id
from tests.cluster.servers.kafka_topics import KafkaTopics
from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import ServerFailed
from tests.kit.deadlines import BUSY

NODES = (1, 2, 3)
TRANSACTIONS = "__transaction_state"
_REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class KafkaNode(Kafka):
    """One of several. ``controllers``: the addresses of all, by their numbers."""

    heap = "384m"

    def __init__(
        self,
        folder: Path,
        build: Path,
        number: int,
        controllers: Mapping[int, str],
        cluster_id: str,
        properties: Mapping[str, str],
    ) -> None:
        self.number = number
        self._controllers = controllers
        self._cluster_id = cluster_id
        super().__init__(folder, build, {**_REPLICATED, **properties})

    def controllers(self) -> Mapping[int, str]:
        return self._controllers

    def prepare(self) -> None:
        """Before the first start, as an operator does it: transactions have the protocol of a new cluster then."""
        if not (self.folder / "data").exists():
            tool = ["kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(self._settings)]
            done = subprocess.run([*self.java(), *tool], check=False, capture_output=True, text=True)
            if done.returncode:
                raise ServerFailed(f"{self} cannot be formatted: {done.returncode}\n{done.stdout}{done.stderr}")

    def leads_controllers(self) -> int | None:
        """The epoch in which this node was elected as the active controller, as its disk has it; None if another one
        was elected since, as far as this node knows."""
        with suppress(FileNotFoundError, ValueError):
            elected = json.loads((self.folder / "data/__cluster_metadata-0/quorum-state").read_text())
            return int(elected["leaderEpoch"]) if elected["leaderId"] == self.number else None
        return None


class KafkaCluster(KafkaTopics):
    """Topics have three copies, and a record counts as stored with two of them. All transactions have the same
    coordinator. ``properties`` are those of every node."""

    copies = len(NODES)

    def __init__(self, folder: Path, build: Path, properties: Mapping[str, str] | None = None) -> None:
        controllers = {number: f"127.0.0.1:{reserve_port()}" for number in NODES}
        cluster_id, settings = fresh_id(), properties or {}
        self.nodes = {
            number: KafkaNode(folder / f"node-{number}", build, number, controllers, cluster_id, settings)
            for number in NODES
        }
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes.values())

    # ── Nodes ────────────────────────────────────────────────────────────────

    def start(self) -> Self:
        """All of them at once: one alone is never ready. Raises ServerFailed."""
        try:
            self._at_once(KafkaNode.launch)
            self._at_once(KafkaNode.wait_until_ready)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """By force: a node that ends politely waits for the others to take its partitions over."""
        for node in self.nodes.values():
            node.kill9()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _at_once(self, do: Callable[[KafkaNode], None]) -> None:
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            for _ in threads.map(do, self.nodes.values()):
                pass

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(f"{node}:\n{node.log_tail(lines)}" for node in self.nodes.values())

    # ── Roles ────────────────────────────────────────────────────────────────

    def coordinator(self) -> KafkaNode:
        """Of all transactions: what is stored of them has one partition."""
        return self.leader(TRANSACTIONS)

    def leader(self, topic: str, partition: int = 0) -> KafkaNode:
        """Of a partition. Raises TimeoutError if it has none for a minute."""

        def number(found: ClusterMetadata) -> int:
            return int(found.topics[topic].partitions[partition].leader)

        return self.nodes[number(self._until(lambda found: number(found) in self.nodes))]

    def controller(self) -> KafkaNode:
        """The active one. Nodes are elected in epochs, and the last one leads."""
        elected = {epoch: node for node in self.nodes.values() if (epoch := node.leads_controllers()) is not None}
        return elected[max(elected)]

    def until_whole(self) -> None:
        """Waits until each node has all that is stored: whichever dies next, two are left that have it. Raises
        TimeoutError."""
        self._until(
            lambda found: all(
                len(partition.isrs) == len(partition.replicas)
                for topic in found.topics.values()
                for partition in topic.partitions.values()
            )
        )

    def _until(self, is_so: Callable[[ClusterMetadata], bool]) -> ClusterMetadata:
        admin, deadline = self._admin(), time.monotonic() + 60 * BUSY
        while True:
            with suppress(KafkaException, KeyError):
                if is_so(found := admin.list_topics(timeout=10)):
                    return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"the brokers did not come to it within {60 * BUSY} s\n{self.log_tail()}")
            time.sleep(0.05)
