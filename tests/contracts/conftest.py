"""One destination of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.destinations import (
    AFile,
    AGuardedEndpoint,
    AnEndpoint,
    ARotatedFile,
    AStream,
    AStreamWithState,
    ASubject,
    ATopic,
    ATopicExactlyOnce,
    ATopicWithState,
    Destination,
)
from tests.kit.tcp_line import Line

KAFKA = pytest.param("kafka", marks=pytest.mark.java)
EXACTLY_ONCE = pytest.param("kafka-exactly-once", marks=[pytest.mark.java, pytest.mark.soak])
STATES = [
    pytest.param("kafka-state", marks=[pytest.mark.java, pytest.mark.soak]),
    pytest.param("nats-state", marks=pytest.mark.soak),
]
NATS = ["nats", "nats-shared"]
WEBHOOK = ["webhook", "webhook-batches", "webhook-guarded"]
OVER_A_NETWORK = [KAFKA, EXACTLY_ONCE, *STATES, *NATS, *WEBHOOK]
ONE_WAY_EACH = [KAFKA, NATS[0], WEBHOOK[0]]
EVERY = [*OVER_A_NETWORK, "file", "file-rotated"]
AT_MOST_ONCE = "nats-core"
"""What nobody keeps can be examined only while nothing fails."""


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
            return ATopic(request.getfixturevalue("kafka"))
        case "kafka-exactly-once":
            return ATopicExactlyOnce(request.getfixturevalue("kafka"))
        case "kafka-state":
            return ATopicWithState(request.getfixturevalue("kafka"))
        case "nats-state":
            return AStreamWithState(request.getfixturevalue("nats_server"))
        case "nats":
            return AStream(request.getfixturevalue("nats_server"))
        case "nats-shared":
            return AStream(request.getfixturevalue("nats_server"), shared=True)
        case "nats-core":
            return ASubject(request.getfixturevalue("nats_server"))
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
