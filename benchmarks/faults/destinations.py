"""The destinations of a fault: two topics, a stream, a receiver, and the ways to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import nats

from benchmarks.faults.arrivals import Arrivals, RequestReader, StreamReader, TopicReader
from tests.cluster.servers import KafkaBehindALine, KafkaTopics, KubeApiServer, Nats
from tests.kit.tcp_line import Line
from tests.kit.webhook_receiver import WebhookReceiver

KAFKA, ONCE, NATS, WEBHOOK = "kafka", "kafka exactly once", "nats", "webhook"
FENCED = (ONCE, NATS)
"""Destinations that refuse what a former leader sends."""

_PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class Ports:
    """Of loopback, where a replica finds each server."""

    api: int
    kafka: str
    """Addresses, with commas between them."""
    nats: int
    webhook: int


@dataclass(frozen=True, slots=True)
class Lines:
    """One replica's lines to each server."""

    api: Line
    kafka: Line
    nats: Line
    webhook: Line

    @property
    def sinks(self) -> tuple[Line, ...]:
        return self.kafka, self.nats, self.webhook

    @property
    def ports(self) -> Ports:
        return Ports(self.api.port, f"127.0.0.1:{self.kafka.port}", self.nats.port, self.webhook.port)


@dataclass(frozen=True, slots=True)
class Destinations:
    kafka: KafkaTopics
    nats: Nats
    receiver: WebhookReceiver
    name: str
    """Of the stream; the names of the topics begin with it."""

    async def prepare(self) -> None:
        for topic in (self.name, f"{self.name}-once"):
            await asyncio.to_thread(self.kafka.create_topic, topic, _PARTITIONS)
        await asyncio.to_thread(self.kafka.create_topic, f"{self.name}-progress", cleanup_policy="compact")
        async with await nats.connect(self.nats.url) as connection:
            await connection.jetstream().add_stream(name=self.name, subjects=[f"{self.name}.>"])

    def section(self, ports: Ports) -> dict[str, dict[str, Any]]:
        """The `sinks` of a configuration. All options that are not needed have their defaults."""
        kafka = {"type": "kafka", "bootstrap_servers": ports.kafka}
        progress = f"{self.name}-progress"
        subject = f"{self.name}.{{group}}.{{resource}}.{{namespace}}.{{name}}"
        server = f"nats://127.0.0.1:{ports.nats}"
        return {
            "log": {**kafka, "topic": self.name},
            "once": {**kafka, "topic": f"{self.name}-once", "exactly_once": True, "progress_topic": progress},
            "live": {"type": "nats", "servers": [server], "stream": self.name, "subject": subject},
            "hook": {"type": "webhook", "url": f"http://127.0.0.1:{ports.webhook}/hook"},
        }

    @asynccontextmanager
    async def arrivals(self) -> AsyncIterator[Mapping[str, Arrivals]]:
        topics = {
            KAFKA: TopicReader(self.kafka, self.name, _PARTITIONS),
            ONCE: TopicReader(self.kafka, f"{self.name}-once", _PARTITIONS),
        }
        try:
            yield {
                **{name: Arrivals(reader) for name, reader in topics.items()},
                NATS: Arrivals(StreamReader(self.nats, self.name)),
                WEBHOOK: Arrivals(RequestReader(self.receiver)),
            }
        finally:
            for reader in topics.values():
                await asyncio.to_thread(reader.close)

    def ports(self, api: KubeApiServer) -> Ports:
        """Where the servers themselves are."""
        return Ports(api.port, self.kafka.bootstrap, self.nats.port, _port(self.receiver.url))

    @asynccontextmanager
    async def lines(self, api: KubeApiServer, names: Iterable[str]) -> AsyncIterator[Mapping[str, Lines]]:
        """To the same servers, for each of these replicas."""
        direct, kafka = self.ports(api), self.kafka
        assert isinstance(kafka, KafkaBehindALine), "only this one sends its clients back to their line"  # noqa: S101
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            yield {
                name: Lines(
                    api=await enter(Line(direct.api)),
                    kafka=await enter(Line(behind, port=public)),
                    nats=await enter(Line(direct.nats)),
                    webhook=await enter(Line(direct.webhook)),
                )
                for name, behind, public in zip(names, kafka.behind_the_lines, kafka.line_ports, strict=True)
            }


def _port(address: str) -> int:
    return urlsplit(address if "//" in address else f"//{address}").port or 0
