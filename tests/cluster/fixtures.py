"""The testbed's fixtures. Shared servers start when the first test asks for them and end with the run.

A test may kill and freeze the shared brokers and the servers whose names say `breakable`: who asks for them next finds
them running. The shared API server is nobody's to break. Servers with other settings are started through `start_…`; an
API server and a Kafka cost seconds of CPU time each.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import nats
import pytest
from nats.js.api import StreamConfig

from bridge.model.resource import Resource
from tests.cluster.kube_client import KubeClient
from tests.cluster.servers import (
    AuthorizingKafka,
    ControllerManager,
    Etcd,
    Kafka,
    KafkaBehindALine,
    KafkaCluster,
    KubeApiServer,
    Nats,
    SecuredKafka,
    Server,
)
from tests.kit.certificates import Authority


def fresh_name(prefix: str) -> str:
    """A name that no other test uses, good for namespaces, topics and streams."""
    return f"{prefix}-{secrets.token_hex(4)}"


# ── Shared servers ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def testbed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and logs of the shared servers: one folder each, the log in the file `log`."""
    return tmp_path_factory.mktemp("testbed")


@pytest.fixture(scope="session")
def etcd(etcd_build: Path, testbed_folder: Path) -> Iterator[Etcd]:
    """The store under the shared API server."""
    with Etcd(testbed_folder / "etcd", etcd_build) as server:
        yield server


@pytest.fixture(scope="session")
def kube_apiserver(kubernetes_build: Path, etcd: Etcd, testbed_folder: Path) -> Iterator[KubeApiServer]:
    """The shared API server, with its defaults."""
    with KubeApiServer(testbed_folder / "kube-apiserver", kubernetes_build, etcd) as server:
        yield server


@pytest.fixture(scope="session")
def client_authority(testbed_folder: Path) -> Authority:
    """Issues certificates of clients that ``forgetful_apiserver`` takes."""
    return Authority.make(testbed_folder / "clients")


@pytest.fixture(scope="session")
def breakable_etcd(etcd_build: Path, testbed_folder: Path) -> Iterator[Etcd]:
    """For fixtures that live as long: the store under clusters that a test may break."""
    with Etcd(testbed_folder / "breakable-etcd", etcd_build) as server:
        yield server


@pytest.fixture(scope="session")
def forgetful_for_all(
    kubernetes_build: Path, breakable_etcd: Etcd, client_authority: Authority, testbed_folder: Path
) -> Iterator[KubeApiServer]:
    """For fixtures that live as long; tests ask for ``forgetful_apiserver``."""
    flags = ["--watch-cache=false", f"--client-ca-file={client_authority.certificate}"]
    with KubeApiServer(testbed_folder / "forgetful", kubernetes_build, breakable_etcd, flags) as server:
        yield server


@pytest.fixture
def forgetful_apiserver(breakable_etcd: Etcd, forgetful_for_all: KubeApiServer) -> KubeApiServer:
    """Has no watch cache, and so forgets what `forgetful_apiserver.etcd` forgets. A test may break both."""
    breakable_etcd.heal()
    return forgetful_for_all.heal()


@pytest.fixture(scope="session")
def controller_manager(
    kubernetes_build: Path, kube_apiserver: KubeApiServer, testbed_folder: Path
) -> Iterator[ControllerManager]:
    """The shared API server's controller-manager. Once a test asked for it, it runs until the end of the run."""
    with ControllerManager(testbed_folder / "controller-manager", kubernetes_build, kube_apiserver) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_for_all(kafka_build: Path, testbed_folder: Path) -> Iterator[KafkaBehindALine]:
    """For fixtures that live as long; tests ask for ``kafka``."""
    with KafkaBehindALine(testbed_folder / "kafka", kafka_build) as server:
        yield server


@pytest.fixture
def kafka(kafka_for_all: KafkaBehindALine) -> KafkaBehindALine:
    """The shared broker, which a test may break; its address is `kafka.bootstrap`."""
    return kafka_for_all.heal()


@pytest.fixture
def three_brokers(kafka_build: Path, tmp_path: Path) -> Iterator[KafkaCluster]:
    """A Kafka of three nodes, of one test alone: it costs the start of three."""
    with KafkaCluster(tmp_path / "kafka", kafka_build) as cluster:
        yield cluster


@pytest.fixture
def authorizing_kafka(kafka_build: Path, tmp_path: Path) -> Iterator[AuthorizingKafka]:
    """A broker of one test alone that forbids what the test says."""
    with AuthorizingKafka(tmp_path / "kafka", kafka_build) as server:
        yield server


@pytest.fixture(scope="session")
def secured_kafka(kafka_build: Path, testbed_folder: Path) -> Iterator[SecuredKafka]:
    """A broker with a listener for each way to prove oneself; its certificate is of `secured_kafka.authority`."""
    authority = Authority.make(testbed_folder / "secured-kafka-ca")
    with SecuredKafka(testbed_folder / "secured-kafka", kafka_build, authority) as server:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            server.set_password(mechanism, SecuredKafka.PASSWORD)
        yield server


@pytest.fixture(scope="session")
def nats_for_all(testbed_folder: Path) -> Iterator[Nats]:
    """For fixtures that live as long; tests ask for ``nats_server``."""
    with Nats(testbed_folder / "nats") as server:
        yield server


@pytest.fixture
def nats_server(nats_for_all: Nats) -> Nats:
    """The shared NATS with JetStream, which a test may break; its address is `nats_server.url`."""
    return nats_for_all.heal()


S = TypeVar("S", bound=Server)

# ── Servers of one test ──────────────────────────────────────────────────────────────────────────────────────────────


class OwnServers:
    """The servers of one test, ended in reverse order when it ends."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._numbers = itertools.count(1)

    def start(self, make: Callable[[Path], S]) -> S:
        """Start what `make` makes of a fresh folder."""
        server = make(self._folder / f"server-{next(self._numbers)}").start()
        self._stack.callback(server.stop)
        return server


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[OwnServers]:
    """Where the `start_…` fixtures keep what they started."""
    with ExitStack() as stack:
        yield OwnServers(tmp_path / "servers", stack)


class StartKubeApiServer(Protocol):
    """Start an API server of one's own; on the same etcd as often as wanted."""

    def __call__(self, etcd: Etcd, *flags: str) -> KubeApiServer: ...


class StartNats(Protocol):
    """Start a NATS of one's own, with further flags."""

    def __call__(self, *flags: str) -> Nats: ...


@pytest.fixture
def start_etcd(own_servers: OwnServers, etcd_build: Path) -> Callable[[], Etcd]:
    """`start_etcd()`"""
    return lambda: own_servers.start(lambda folder: Etcd(folder, etcd_build))


@pytest.fixture
def start_kube_apiserver(own_servers: OwnServers, kubernetes_build: Path, etcd_build: Path) -> StartKubeApiServer:
    """`start_kube_apiserver(etcd, "--watch-cache=false", …)`"""
    return lambda etcd, *flags: own_servers.start(lambda folder: KubeApiServer(folder, kubernetes_build, etcd, flags))


@pytest.fixture
def start_nats(own_servers: OwnServers) -> StartNats:
    """`start_nats("--user=me", "--pass=secret")`"""
    return lambda *flags: own_servers.start(lambda folder: Nats(folder, flags))


# ── Clean things on the shared servers ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def kube(kube_apiserver: KubeApiServer) -> AsyncIterator[KubeClient]:
    """The administrator's client of the shared API server, which is `kube.server`."""
    async with KubeClient(kube_apiserver) as client:
        yield client


@pytest.fixture
async def namespace(kube: KubeClient) -> AsyncIterator[str]:
    """A fresh namespace. It goes after the test, with all that is in it."""
    name = fresh_name("test")
    await kube.create_namespace(name)
    yield name
    await kube.delete_namespace(name)


class DefineCustomResource(Protocol):
    """Define a custom resource under a group of its own: `await custom_resource()`. Parameters as in `create_crd`."""

    async def __call__(self, plural: str = "widgets", kind: str = "Widget", **spec: Any) -> Resource: ...


@pytest.fixture
async def custom_resource(kube: KubeClient) -> AsyncIterator[DefineCustomResource]:
    """`await custom_resource()`: defines custom resources that go after the test, and waits until they are served."""
    async with AsyncExitStack() as stack:

        async def define(plural: str = "widgets", kind: str = "Widget", **spec: Any) -> Resource:
            resource = await kube.create_crd(f"{fresh_name('test')}.kubedelta.test", plural, kind, **spec)
            stack.push_async_callback(kube.delete_crd, resource)
            return resource

        yield define


class MakeTopic(Protocol):
    """Make a topic and return its name. Settings are written with `_` for `.`: `max_message_bytes="1000"`."""

    def __call__(self, partitions: int = 1, name: str | None = None, **settings: str) -> str: ...


@pytest.fixture
def kafka_topic(kafka: Kafka) -> Iterator[MakeTopic]:
    """`kafka_topic()`, `kafka_topic(3)`: makes topics that go after the test."""
    with ExitStack() as stack:

        def make(partitions: int = 1, name: str | None = None, **settings: str) -> str:
            topic = name or fresh_name("topic")
            kafka.create_topic(topic, partitions, **settings)
            stack.callback(kafka.delete_topic, topic)
            return topic

        yield make
        kafka.heal()


@dataclass(frozen=True, slots=True)
class NatsStream:
    """A JetStream stream that takes every subject below `prefix`."""

    name: str
    prefix: str


class MakeStream(Protocol):
    """Make a stream: `await nats_stream(duplicate_window=5)`. Settings are those of nats.js.api.StreamConfig."""

    async def __call__(self, **settings: Any) -> NatsStream: ...


@pytest.fixture
async def nats_stream(nats_server: Nats) -> AsyncIterator[MakeStream]:
    """`await nats_stream()`: makes streams that go after the test."""
    async with await nats.connect(nats_server.url) as connection, AsyncExitStack() as stack:
        jetstream = connection.jetstream()

        async def make(**settings: Any) -> NatsStream:
            name = fresh_name("stream")
            await jetstream.add_stream(StreamConfig(name=name, subjects=[f"{name}.>"], **settings))
            stack.push_async_callback(jetstream.delete_stream, name)
            return NatsStream(name, prefix=name)

        yield make
