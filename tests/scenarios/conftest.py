"""What several stories begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.fixtures import fresh_name
from tests.cluster.servers import Kafka, Nats
from tests.kit.four_sinks import FourSinks
from tests.kit.webhook_receiver import WebhookReceiver


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with WebhookReceiver() as running:
        yield running


@pytest.fixture
async def four_sinks(
    kafka: Kafka, nats_server: Nats, receiver: WebhookReceiver, tmp_path: Path
) -> AsyncIterator[FourSinks]:
    """The shared brokers, with a topic and a stream of this test's own."""
    sinks = FourSinks(kafka, nats_server, receiver, tmp_path / "deltas.ndjson", fresh_name("deltas"))
    await sinks.prepare()
    yield sinks
    await sinks.remove()
