"""One destination of each kind. The servers behind them are the contracts' own, because they are killed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.cluster.servers import Nats, Server
from tests.contracts.destinations import (
    AFile,
    AGuardedEndpoint,
    AnEndpoint,
    ARotatedFile,
    AStream,
    ATopic,
    Destination,
    KafkaBehindALine,
)
from tests.kit.tcp_line import Line

KAFKA = pytest.param("kafka", marks=pytest.mark.java)
NATS = [pytest.param(way, marks=pytest.mark.go("nats")) for way in ("nats", "nats-shared")]
WEBHOOK = ["webhook", "webhook-batches", "webhook-guarded"]
OVER_A_NETWORK = [KAFKA, *NATS, *WEBHOOK]
ONE_WAY_EACH = [KAFKA, NATS[0], WEBHOOK[0]]
EVERY = [*OVER_A_NETWORK, "file", "file-rotated"]

S = TypeVar("S", bound=Server)


@pytest.fixture(scope="session")
def mortal_kafka(kafka_build: Path, testbed_folder: Path) -> Iterator[KafkaBehindALine]:
    """A broker that every test finds running, and may kill."""
    with KafkaBehindALine(testbed_folder / "mortal-kafka", kafka_build) as server:
        yield server


@pytest.fixture(scope="session")
def mortal_nats(nats_build: Path, testbed_folder: Path) -> Iterator[Nats]:
    """A server that every test finds running, and may kill."""
    with Nats(testbed_folder / "mortal-nats", nats_build) as server:
        yield server


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """Of the destination, and how its sink writes there. Every test is parametrised with it."""
    return str(request.param)


@pytest.fixture
def limit() -> int | None:
    """Bytes of a record that the destination takes; None for what it takes by itself. Overridden by parameters."""
    return None


@pytest.fixture
def nameless(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Destination:
    """What becomes ``destination``: servers start outside of the event loop."""
    match kind:
        case "kafka":
            return ATopic(_unharmed(request.getfixturevalue("mortal_kafka")))
        case "nats":
            return AStream(_unharmed(request.getfixturevalue("mortal_nats")))
        case "nats-shared":
            return AStream(_unharmed(request.getfixturevalue("mortal_nats")), shared=True)
        case "webhook":
            return AnEndpoint()
        case "webhook-batches":
            return AnEndpoint(batch=10)
        case "webhook-guarded":
            return AGuardedEndpoint(tmp_path)
        case "file-rotated":
            return ARotatedFile(tmp_path)
        case _:
            return AFile(tmp_path)


@pytest.fixture
async def destination(nameless: Destination, limit: int | None) -> AsyncIterator[Destination]:
    """A clean one, to which the sink comes straight."""
    await nameless.prepare(limit)
    yield nameless
    await nameless.rise()
    await nameless.remove()


@pytest.fixture
async def line(destination: Destination) -> AsyncIterator[Line]:
    """The only way from the sink to the destination."""
    async with destination.new_line() as between:
        destination.line = between
        yield between


def _unharmed(server: S) -> S:
    if not server.running:
        server.start()
    return server
