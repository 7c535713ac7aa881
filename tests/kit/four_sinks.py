"""One destination of each kind: its configuration for a bridge, and a reader for the test."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
from nats.js.errors import NotFoundError

from tests.cluster.servers import Kafka, Nats
from tests.kit.received import Received, Stream, from_events, from_file, from_kafka, from_nats, received_lists
from tests.kit.webhook_receiver import WebhookReceiver


@dataclass(frozen=True, slots=True)
class FourSinks:
    """`prepare` makes the topic and the stream, which nobody else may use."""

    kafka: Kafka
    nats: Nats
    receiver: WebhookReceiver
    file: Path
    name: str
    """Of the topic and the stream."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further options, by sink."""

    async def prepare(self, partitions: int = 3) -> None:
        await asyncio.to_thread(self.kafka.create_topic, self.name, partitions)
        async with await nats.connect(self.nats.url) as connection:
            await connection.jetstream().add_stream(name=self.name, subjects=[f"{self.name}.>"])

    async def remove(self) -> None:
        await asyncio.to_thread(self.kafka.delete_topic, self.name)
        with suppress(NotFoundError):
            async with await nats.connect(self.nats.url) as connection:
                await connection.jetstream().delete_stream(self.name)

    @property
    def section(self) -> dict[str, dict[str, Any]]:
        """The `sinks` of a configuration."""
        subject = f"{self.name}.{{group}}.{{resource}}.{{namespace}}.{{name}}"
        sinks: dict[str, dict[str, Any]] = {
            "log": {"type": "kafka", "bootstrap_servers": self.kafka.bootstrap, "topic": self.name},
            "live": {"type": "nats", "servers": [self.nats.url], "stream": self.name, "subject": subject},
            "hook": {"type": "webhook", "url": self.receiver.url},
            "copy": {"type": "file", "path": str(self.file)},
        }
        return {name: {**options, **self.options.get(name, {})} for name, options in sinks.items()}

    async def streams(self) -> dict[str, Stream]:
        """The records that each sink received until now, by name."""
        return {
            "log": from_kafka(await asyncio.to_thread(self.kafka.read_all, self.name)),
            "live": from_nats(await self.nats.read_all(self.name)),
            "hook": from_events(self.receiver.events),
            "copy": from_file(self.file),
        }

    async def delivered(self) -> dict[str, list[Received]]:
        """The same, where no sink may have a gap."""
        return {name: received_lists(stream) for name, stream in (await self.streams()).items()}
