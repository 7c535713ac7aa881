"""``recipes/flink``, as it stands: after changes, and kills of bridge and Flink, its tables equal a fresh list."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.playground.manifests import config_map, deployment
from tests.cluster.fixtures import OwnServers
from tests.cluster.servers import Kafka, Server
from tests.documents.pages import read
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import comes_or_goes
from tests.kit.deadlines import BUSY
from tests.kit.playground import Playground

PAGE = read("recipes/flink/README.md")
[CONFIG] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
TABLES, GO_ON = (
    re.split(r";\n(?=\n|SET )", block.removesuffix(";\n")) for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
)
"""Statements."""
BROKER = "kafka.example.com:9092"
"""Of the page."""
OBJECTS, COUNTS, REPLICAS = re.findall(r"'topic' = '(.*?)'", PAGE)
NAMESPACES = ("default", "shop", "brief")
RESOURCES = ("configmaps", "deployments.apps")
RUNNER = Path(__file__).with_name("RunStatements.java")

Rows = dict[tuple[str, ...], tuple[Any, ...]]
"""Key → the other columns."""


class Flink(Server):
    """The page's statements, and a Flink that runs them, in one process. A later start goes on from the last checkpoint
    of the one before."""

    start_timeout = 30.0 * BUSY

    def __init__(self, folder: Path, build: Path, bootstrap: str) -> None:
        super().__init__(folder)
        self._build = build
        self._here = {BROKER: bootstrap, "/var/lib/flink": str(folder), "10 s": "500 ms"}
        self._last: list[str] = []

    def prepare(self) -> None:
        self._last = self._checkpoints()[-1:]

    def command(self) -> Sequence[str | Path]:
        statements = [*(each.replace("JOB/chk-N", last) for last in self._last for each in GO_ON), *TABLES]
        for on_the_page, here in self._here.items():
            statements = [each.replace(on_the_page, here) for each in statements]
        flags = (
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Xmx600m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            f"-Djava.io.tmpdir={self.folder}",  # A Flink that is killed leaves its unpacked planner there.
        )
        return ["java", *flags, "-cp", f"{self._build}/*", RUNNER, *statements]

    def is_ready(self) -> bool:
        """All of the job runs: it has made a checkpoint."""
        return self._checkpoints()[-1:] != self._last

    def _checkpoints(self) -> list[str]:
        """`JOB/chk-N`, the newest last."""
        whole = [file.parent for file in self.folder.glob("checkpoints/*/chk-*/_metadata")]
        numbered = sorted(whole, key=lambda folder: int(folder.name.removeprefix("chk-")))
        return [f"{folder.parent.name}/{folder.name}" for folder in numbered]


def churn(cluster: Playground, chance: random.Random, namespaces: Sequence[str]) -> None:
    """Some of a few objects come, change and go."""
    for _ in range(15):
        name, namespace, number = f"thing-{chance.randrange(5)}", chance.choice(namespaces), chance.randrange(1000)
        status = {"status": {"readyReplicas": number % 3} if number % 2 else {}}
        resource, manifest = chance.choice(
            [
                ("configmaps", config_map(name, {"n": str(number)}, namespace=namespace)),
                ("deployments.apps", deployment(name, namespace=namespace, replicas=number) | status),
            ]
        )
        comes_or_goes(cluster, chance, resource, manifest)


def empty(cluster: Playground, namespace: str) -> None:
    there = [(name, each["metadata"]["name"]) for name in RESOURCES for each in cluster.list(name, namespace=namespace)]
    assert there
    for resource, name in there:
        cluster.delete(resource, name, namespace=namespace)


def wanted(cluster: Playground) -> tuple[Rows, Rows]:
    """What the tables of the page have to be, by a fresh list."""
    lists = {resource: cluster.list(resource) for resource in RESOURCES}
    counted = Counter(
        ("prod", resource.removesuffix(".apps"), each["metadata"]["namespace"])
        for resource, found in lists.items()
        for each in found
    )
    replicas: Rows = {}
    for each in lists["deployments.apps"]:
        meta, ready = each["metadata"], each["status"].get("readyReplicas", 0)
        row = (meta["uid"], meta["resourceVersion"], each["spec"]["replicas"], ready)
        replicas["prod", meta["namespace"], meta["name"]] = row
    return {key: (count,) for key, count in counted.items()}, replicas


def table(kafka: Kafka, topic: str) -> Rows:
    """The last value under each key; a tombstone ends it."""
    last = {record.key: record.value for record in kafka.read_all(topic)}
    rows = ((json.loads(key), json.loads(value)) for key, value in last.items() if key and value)
    return {tuple(key.values()): tuple(value[name] for name in value if name not in key) for key, value in rows}


async def until_forgotten(cluster: Playground, chance: random.Random, kafka: Kafka, namespace: str) -> None:
    """Changes others until Kafka has compacted away what the namespace had: its rows stand in no topic of objects."""
    async with asyncio.timeout(60 * BUSY):
        while any(record.value and f"/{namespace}/" in str(record.key) for record in kafka.read_all(OBJECTS)):
            churn(cluster, chance, [each for each in NAMESPACES if each != namespace])
            await asyncio.sleep(0.2)


async def expect_a_fresh_list(cluster: Playground, kafka: Kafka, flink: Flink) -> None:
    """Raises AssertionError for what differs in the end, and ServerFailed if Flink ended."""
    fresh, found = wanted(cluster), None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20 * BUSY):
            while found != fresh and flink.pid:
                await asyncio.sleep(0.2)
                found = table(kafka, COUNTS), table(kafka, REPLICAS)
    assert found == fresh


@pytest.fixture
def kafka(own_servers: OwnServers, kafka_build: Path) -> Kafka:
    """Compacts its topics all the time."""
    eager = {"log.roll.ms": "200", "log.cleaner.min.cleanable.ratio": "0.01", "log.cleaner.backoff.ms": "200"}
    return own_servers.start(lambda folder: Kafka(folder, kafka_build, eager))


@pytest.mark.long
async def test_after_changes_and_kills_the_tables_equal_a_fresh_list(
    kafka: Kafka, flink_build: Path, tmp_path: Path
) -> None:
    for topic in (COUNTS, REPLICAS):
        kafka.create_topic(topic, cleanup_policy="compact")
    config = yaml.safe_load(CONFIG.replace(BROKER, kafka.bootstrap))
    flink = Flink(tmp_path / "flink", flink_build, kafka.bootstrap)
    chance = random.Random(3)
    async with Playground() as cluster:
        config["cluster"]["server"] = cluster.url
        bridge = BridgeProcess(tmp_path / "bridge", config)
        try:
            await asyncio.to_thread(bridge.start)
            churn(cluster, chance, NAMESPACES)
            await bridge.until_delivered("tables")
            await asyncio.to_thread(flink.start)
            for kill in range(4):
                churn(cluster, chance, NAMESPACES)
                bridge.kill9()
                churn(cluster, chance, NAMESPACES)
                await asyncio.to_thread(bridge.start)
                if kill == 1:
                    await expect_a_fresh_list(cluster, kafka, flink)
                    churn(cluster, chance, ["brief"])  # The last checkpoint before the kill has little of it.
                    await bridge.until_delivered("tables")
                    flink.kill9()
                    empty(cluster, "brief")
                    await until_forgotten(cluster, chance, kafka, "brief")
                    await asyncio.to_thread(flink.start)
                    await expect_a_fresh_list(cluster, kafka, flink)
            await expect_a_fresh_list(cluster, kafka, flink)
        finally:
            flink.kill9()
            bridge.kill9()
