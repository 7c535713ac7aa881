"""Where records go, and how many have arrived: counted there, so that nobody has to be believed."""

from __future__ import annotations

import asyncio
import mmap
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import nats
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from benchmarks.arrivals import Follower, kafka_records, latency_ms, nats_records
from benchmarks.servers import Load, LoadServer
from tests.cluster.servers import Kafka, Nats

PARTITIONS = 6

_numbers = count(1)


class Destination(ABC):
    """For one run. ``close`` takes away what was stored."""

    @abstractmethod
    def arrived(self) -> int:
        """Records that are stored there, as its own server or the file system counts them."""

    def follow(self) -> None:  # noqa: B027 (most destinations keep the time of each arrival)
        """Called before events whose ``latencies`` count."""

    def latencies(self, since_ns: int) -> Sequence[float]:
        """Milliseconds from the load server's write to the arrival of each record that was written since, in
        nanoseconds since 1970. Empty where arrivals have no time."""
        return ()

    def close(self) -> None:  # noqa: B027 (a folder is deleted with its run)
        """Called when the run is over."""


class SinkDestination(Destination):
    """One that the bridge has a sink for."""

    @abstractmethod
    def sink(self) -> dict[str, Any]:
        """What the bridge's configuration says of it."""


def _latencies(records: Iterable[tuple[int, bytes]], since_ns: int) -> Sequence[float]:
    found = (latency_ms(value, arrived_ns, since_ns) for arrived_ns, value in records)
    return [each for each in found if each is not None]


class KafkaTopics(SinkDestination):
    """A topic for each resource, and one for notices."""

    def __init__(self, kafka: Kafka, load: Load) -> None:
        self.kafka = kafka
        self.prefix = f"run{next(_numbers)}"
        widgets = (f"widgets{number:03d}" for number in range(load.widgets))
        self.topics = [f"{self.prefix}.{resource}" for resource in (load.plural, *widgets)]
        for topic in self.topics:
            # The broker's clock, which is this machine's, tells when a record was stored.
            kafka.create_topic(topic, PARTITIONS, message_timestamp_type="LogAppendTime")
        kafka.create_topic(f"{self.prefix}.notice")
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        self._ends = {TopicPartition(topic, each): latest for topic in self.topics for each in range(PARTITIONS)}

    @property
    def first(self) -> str:
        """The first resource's."""
        return self.topics[0]

    def sink(self) -> dict[str, Any]:
        return {
            "type": "kafka",
            "bootstrap_servers": self.kafka.bootstrap,
            "topic": f"{self.prefix}.{{resource}}",
        }

    def arrived(self) -> int:
        ends = self._admin.list_offsets(self._ends, request_timeout=30)
        return sum(future.result().offset for future in ends.values())

    def latencies(self, since_ns: int) -> Sequence[float]:
        """To the broker's append; half a millisecond too long or too short at most."""
        partitions = [TopicPartition(topic, each, 0) for topic in self.topics for each in range(PARTITIONS)]
        return _latencies(kafka_records(self.kafka.bootstrap, partitions, self.arrived()), since_ns)

    def close(self) -> None:
        for topic in (*self.topics, f"{self.prefix}.notice"):
            self.kafka.delete_topic(topic)


class NatsStream(SinkDestination):
    def __init__(self, nats: Nats) -> None:
        self._nats = nats
        self._name = f"RUN{next(_numbers)}"

    def sink(self) -> dict[str, Any]:
        return {
            "type": "nats",
            "servers": [self._nats.url],
            "stream": self._name,
            "subject": f"{self._name}.{{cluster}}.{{group}}.{{resource}}.{{namespace}}.{{name}}",
            "create_stream": {"max_age": 3600},
        }

    def arrived(self) -> int:
        answer = httpx.get(f"{self._nats.monitor_url}/jsz?streams=true", trust_env=False, verify=False, timeout=30)
        for account in answer.raise_for_status().json().get("account_details", ()):
            for stream in account.get("stream_detail", ()):
                if stream["name"] == self._name:
                    return int(stream["state"]["messages"])
        return 0

    def latencies(self, since_ns: int) -> Sequence[float]:
        """Until the server has stored the message."""

        async def read() -> list[tuple[int, bytes]]:
            return [each async for each in nats_records(self._nats.url, self._name, self.arrived())]

        return _latencies(asyncio.run(read()), since_ns)

    def close(self) -> None:
        async def delete() -> None:
            async with await nats.connect(self._nats.url) as connection:
                await connection.jetstream().delete_stream(self._name)

        asyncio.run(delete())


class File(SinkDestination):
    def __init__(self, folder: Path) -> None:
        self._path = folder / "deltas.ndjson"
        self._read = self._lines = 0
        self._follower: Follower | None = None

    def sink(self) -> dict[str, Any]:
        return {"type": "file", "path": str(self._path)}

    def arrived(self) -> int:
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                while piece := file.read(1 << 20):
                    self._read += len(piece)
                    self._lines += piece.count(b"\n")
        return self._lines

    def follow(self) -> None:
        self._follower = Follower(self._path).start()

    def latencies(self, since_ns: int) -> Sequence[float]:
        """Until the line can be read."""
        if self._follower is None:
            return ()
        self.close()
        return _latencies(self._follower.lines, since_ns)

    def close(self) -> None:
        if self._follower is not None:
            self._follower.stop()


class Hook(SinkDestination):
    def __init__(self, server: LoadServer, batch: int) -> None:
        self._server = server
        self._batch = batch

    def sink(self) -> dict[str, Any]:
        return {"type": "webhook", "url": self._server.hook_url, "batch": self._batch}

    def arrived(self) -> int:
        return int(self._server.stats()["hook_events"])

    def latencies(self, since_ns: int) -> Sequence[float]:
        """Until the receiver has read the request."""
        return [(arrived - written) / 1e6 for written, arrived in self._server.arrivals() if written >= since_ns]


class Tally(Destination):
    """Nothing is stored: who receives says how much it has seen, in eight bytes of a file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "tally"
        self.path.write_bytes(bytes(8))

    def arrived(self) -> int:
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ) as tally:
            seen: int = struct.unpack_from("<Q", tally)[0]
            return seen
