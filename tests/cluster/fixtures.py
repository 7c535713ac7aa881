"""The testbed's fixtures. Shared servers start when the first test asks for them and end with the run.

A test that stops, freezes or breaks a server starts one of its own through `start_…`: the shared ones are not its to
break.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import nats
import pytest
from nats.js.api import StreamConfig

from tests.cluster.kube_client import CustomResource, KubeClient
from tests.cluster.servers import ControllerManager, Etcd, Kafka, KubeApiServer, Nats, Server


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
def controller_manager(
    kubernetes_build: Path, kube_apiserver: KubeApiServer, testbed_folder: Path
) -> Iterator[ControllerManager]:
    """The shared API server's controller-manager. Once a test asked for it, it runs until the end of the run."""
    with ControllerManager(testbed_folder / "controller-manager", kubernetes_build, kube_apiserver) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(kafka_build: Path, testbed_folder: Path) -> Iterator[Kafka]:
    """The shared broker; its address is `kafka.bootstrap`."""
    with Kafka(testbed_folder / "kafka", kafka_build) as server:
        yield server


@pytest.fixture(scope="session")
def nats_server(nats_build: Path, testbed_folder: Path) -> Iterator[Nats]:
    """The shared NATS with JetStream; its address is `nats_server.url`."""
    with Nats(testbed_folder / "nats", nats_build) as server:
        yield server


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
def start_controller_manager(
    own_servers: OwnServers, kubernetes_build: Path
) -> Callable[[KubeApiServer], ControllerManager]:
    """`start_controller_manager(api_server)`"""
    return lambda api: own_servers.start(lambda folder: ControllerManager(folder, kubernetes_build, api))


@pytest.fixture
def start_kafka(own_servers: OwnServers, kafka_build: Path) -> Callable[[Mapping[str, str]], Kafka]:
    """`start_kafka({"message.max.bytes": "1000"})`; `start_kafka({})` has the defaults."""
    return lambda properties: own_servers.start(lambda folder: Kafka(folder, kafka_build, properties))


@pytest.fixture
def start_nats(own_servers: OwnServers, nats_build: Path) -> StartNats:
    """`start_nats("--user=me", "--pass=secret")`"""
    return lambda *flags: own_servers.start(lambda folder: Nats(folder, nats_build, flags))


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

    async def __call__(self, plural: str = "widgets", kind: str = "Widget", **spec: Any) -> CustomResource: ...


@pytest.fixture
async def custom_resource(kube: KubeClient) -> AsyncIterator[DefineCustomResource]:
    """`await custom_resource()`: defines custom resources that go after the test, and waits until they are served."""
    async with AsyncExitStack() as stack:

        async def define(plural: str = "widgets", kind: str = "Widget", **spec: Any) -> CustomResource:
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
