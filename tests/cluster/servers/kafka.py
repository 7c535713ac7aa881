"""Kafka in KRaft mode, one node that is broker and controller."""

from __future__ import annotations

import shutil
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from tests.cluster.servers.kafka_topics import KafkaTopics
from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import Server, listens
from tests.kit.deadlines import BUSY

_EVERYBODY = (ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")


def class_archive(build: Path) -> Path:
    """Of these jars and of the Java on PATH: what another one wrote is of no use to it."""
    java = Path(shutil.which("java") or "java").resolve()
    return build / f"classes-{java.stat().st_mtime_ns if java.exists() else 0:x}.jsa"


class Kafka(Server, KafkaTopics):
    """One broker. Topics are made by who wants them: a record for an unknown one is refused.

    `properties` come last in server.properties and win.
    """

    number = 1
    """Its node.id."""
    heap = "400m"

    def __init__(self, folder: Path, build: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.bootstrap = f"127.0.0.1:{reserve_port()}"
        self._build = build
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{k}={v}\n" for k, v in self._defaults(properties or {}).items()))

    def _defaults(self, properties: Mapping[str, str]) -> dict[str, str]:
        voters = self.controllers()
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.number),
            "controller.quorum.voters": ",".join(f"{node}@{address}" for node, address in voters.items()),
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{voters[self.number]}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A killed broker may not come back before its old session ends.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "auto.create.topics.enable": "false",
            # Whoever rests does nothing, and a start clears no 128 MB of memory.
            "metadata.max.idle.interval.ms": "0",
            "log.cleaner.dedupe.buffer.size": str(2 * 1024 * 1024),
            **properties,
        }

    def controllers(self) -> Mapping[int, str]:
        """The addresses of all nodes as controllers, by node.id."""
        return {self.number: f"127.0.0.1:{reserve_port()}"}

    def prepare(self) -> None:
        """Before the first start, the file that `kafka-storage format` writes: that tool takes a JVM of its own."""
        file = self.folder / "data" / "meta.properties"
        if file.exists():
            return
        file.parent.mkdir()
        file.write_text(f"version=1\nnode.id=1\ncluster.id={fresh_id()}\ndirectory.id={fresh_id()}\n")

    def command(self) -> Sequence[str | Path]:
        return [*self.java(), "kafka.Kafka", self._settings]

    def java(self) -> Sequence[str]:
        """What runs a class of Kafka's."""
        # A broker that lives for seconds is started in half the time by the first of the two compilers alone.
        flags = [f"-Xmx{self.heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", *self.sharing()]
        logs_warnings = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return ["java", *flags, logs_warnings, "-cp", str(self._build / "*")]

    def sharing(self) -> Sequence[str]:
        """Where it finds the classes that another broker has loaded; see share_classes."""
        archive = class_archive(self._build)
        return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []

    def is_ready(self) -> bool:
        if not listens(int(self.bootstrap.rpartition(":")[2])):
            return False  # A client of librdkafka, which starts threads, is made when somebody answers it.
        try:
            return self.number in self._admin().list_topics(timeout=1).brokers
        except KafkaException:
            return False


class AuthorizingKafka(Kafka):
    """Has an authorizer: what no rule is about is permitted."""

    def _defaults(self, properties: Mapping[str, str]) -> dict[str, str]:
        return {
            **super()._defaults(properties),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }

    def forbid(self, topic: str, operation: AclOperation) -> None:
        """This alone. Returns once the broker knows: the answer to the request may come before."""
        admin = self._admin()
        rules = [
            AclBinding(ResourceType.TOPIC, topic, *_EVERYBODY, AclOperation.ALL, AclPermissionType.ALLOW),
            AclBinding(ResourceType.TOPIC, topic, *_EVERYBODY, operation, AclPermissionType.DENY),
        ]
        for done in admin.create_acls(rules).values():
            done.result(30 * BUSY)
        known = AclBindingFilter(ResourceType.TOPIC, topic, *_EVERYBODY, AclOperation.ANY, AclPermissionType.ANY)
        while len(admin.describe_acls(known).result(30 * BUSY)) < len(rules):
            pass

    def permit(self, topic: str) -> None:
        """All that is forbidden."""
        admin = self._admin()
        denied = AclBindingFilter(ResourceType.TOPIC, topic, *_EVERYBODY, AclOperation.ANY, AclPermissionType.DENY)
        for done in admin.delete_acls([denied]).values():
            done.result(30 * BUSY)


class KafkaBehindALine(Kafka):
    """Has further addresses, for those who come by a line: a client goes to where the broker says, wherever it
    began."""

    def __init__(self, folder: Path, build: Path, properties: Mapping[str, str] | None = None, lines: int = 1) -> None:
        self.line_ports = [reserve_port() for _ in range(lines)]
        """Where the clients of each line are sent."""
        self.behind_the_lines = [reserve_port() for _ in range(lines)]
        """Where each line ends."""
        super().__init__(folder, build, properties)

    @property
    def line_port(self) -> int:
        return self.line_ports[0]

    @property
    def behind_the_line(self) -> int:
        return self.behind_the_lines[0]

    def _defaults(self, properties: Mapping[str, str]) -> dict[str, str]:
        settings = super()._defaults(properties)
        protocols = ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
        for number, (public, here) in enumerate(zip(self.line_ports, self.behind_the_lines, strict=True)):
            settings["listeners"] += f",LINE{number}://127.0.0.1:{here}"
            settings["advertised.listeners"] += f",LINE{number}://127.0.0.1:{public}"
            protocols.append(f"LINE{number}:PLAINTEXT")
        settings["listener.security.protocol.map"] = ",".join(protocols)
        settings["inter.broker.listener.name"] = "PLAINTEXT"
        return settings


def fresh_id() -> str:
    """A UUID in Kafka's form. As in Kafka, none begins with a dash: its tools would take it for an option."""
    return "A" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
