"""What several stories begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.cluster.fixtures import fresh_name
from tests.cluster.servers import Kafka, KafkaBehindALine, Nats
from tests.kit.breakable import Breakable, breakable_servers
from tests.kit.four_sinks import FourSinks
from tests.kit.scene import Scene
from tests.kit.small_disk import CannotMount, SmallDisk, mounted_small_disk
from tests.kit.webhook_receiver import WebhookReceiver


@pytest.fixture
async def four_sinks(
    kafka: Kafka, nats_server: Nats, receiver: WebhookReceiver, tmp_path: Path
) -> AsyncIterator[FourSinks]:
    """The shared brokers, with a topic and a stream of this test's own."""
    sinks = FourSinks(kafka, nats_server, receiver, tmp_path / "deltas.ndjson", fresh_name("deltas"))
    await sinks.prepare()
    yield sinks
    await sinks.remove()


# ── Servers that may be broken ───────────────────────────────────────────────


@pytest.fixture(scope="session")
def breakable_for_all(
    etcd_build: Path, kubernetes_build: Path, kafka_for_all: KafkaBehindALine, nats_for_all: Nats, testbed_folder: Path
) -> Iterator[Breakable]:
    folder = testbed_folder / "breakable"
    with breakable_servers(folder, etcd_build, kubernetes_build, kafka_for_all, nats_for_all) as servers:
        yield servers


@pytest.fixture
async def breakable(breakable_for_all: Breakable) -> AsyncIterator[Breakable]:
    """An etcd, an API server, a Kafka and a NATS that the test may kill and freeze. They run when it begins."""
    await breakable_for_all.heal()
    yield breakable_for_all
    await breakable_for_all.heal()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Left out where this user may not mount one."""
    try:
        with mounted_small_disk(tmp_path / "disk") as disk:
            yield disk
    except CannotMount as error:
        pytest.skip(f"no small disk can be mounted here: {error}")


@pytest.fixture
async def scene(breakable: Breakable, receiver: WebhookReceiver, tmp_path: Path) -> AsyncIterator[Scene]:
    """A fresh namespace on the breakable API server, with sinks on the breakable brokers."""
    name = fresh_name("scene")
    sinks = FourSinks(breakable.kafka, breakable.nats, receiver, tmp_path / "deltas.ndjson", name)
    scene = Scene(breakable, name, sinks, tmp_path)
    await scene.prepare()
    yield scene
    await breakable.heal()
    await scene.remove()
