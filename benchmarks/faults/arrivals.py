"""Reads what destinations received, on and on, with the time of each arrival."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Set
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Protocol

import msgspec
import nats
from confluent_kafka import Consumer, KafkaException, TopicPartition
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from benchmarks.faults.counting import Arrival
from tests.cluster.kube_client import Manifest
from tests.cluster.servers import KafkaTopics, Nats, NatsRecord
from tests.cluster.servers.kafka_topics import record_of
from tests.kit.etcd_history import Happened
from tests.kit.received import (
    AnyReceived,
    Received,
    ReceivedGap,
    from_events,
    from_kafka,
    from_nats,
    without_secrets,
)
from tests.kit.webhook_receiver import ACCEPTED, Answer, Posted, WebhookReceiver

_AT_ONCE, _WAIT = 1000, 0.2
"""Records of a topic that are taken at once, and seconds until they must be there."""


class Reader(Protocol):
    async def read(self) -> list[tuple[float, AnyReceived]]:
        """All that arrived since the last call, in the order of arrival. A destination that cannot be reached has
        nothing new."""
        ...


class Arrivals:
    """Of one destination: of each record only a digest of its object is kept."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.records: list[Arrival] = []
        self.gaps = 0
        self._newest: dict[str, int] = {}
        """Objects, by uid → their newest version."""
        self._deleted: set[str] = set()
        self._held: dict[str, set[str]] = defaultdict(set)
        """Kind → the uids of the objects that a consumer has."""

    async def read_on(self) -> None:
        for at, received in await self._reader.read():
            if isinstance(received, Received):
                self.records.append(Arrival(at, replace(received, data=digested(received.data))))
                self._newest[received.uid] = max(self._newest.get(received.uid, 0), int(received.resource_version))
                if received.op == "deleted":
                    self._deleted.add(received.uid)
                    self._held[kind_of(received)].discard(received.uid)
                else:
                    self._held[kind_of(received)].add(received.uid)
            self.gaps += isinstance(received, ReceivedGap)

    def held(self, kind: str) -> Set[str]:
        """The uids of the objects that a consumer has."""
        return self._held[kind]

    def have_met(self, uids: Set[str]) -> bool:
        """Whether all of these objects have arrived, at some time."""
        return uids <= self._newest.keys()

    def have(self, last: Iterable[Happened]) -> bool:
        """Whether the last that happened to each object has arrived. An object that came and went unseen never does,
        and is left out: later objects tell that its time has passed."""
        return all(map(self._has, last))

    def _has(self, last: Happened) -> bool:
        if last.version.op == "deleted":
            return last.uid in self._deleted or last.uid not in self._newest
        return self._newest.get(last.uid, 0) >= last.number


def kind_of(received: Received) -> str:
    """The plural, as in KINDS."""
    return received.subject.rsplit("/", 2)[1]


def digested(thing: Manifest) -> Manifest:
    """Equal for equal objects. Values of Secrets do not count."""
    whole = msgspec.json.encode(without_secrets(thing), order="sorted")
    return {"kind": "digest", "digest": blake2b(whole, digest_size=16).hexdigest()}


def remembered(happened: Iterable[Happened]) -> list[Happened]:
    """In the form of the arrivals."""
    return [replace(each, data=digested(each.data)) for each in happened]


class TopicReader:
    """Sees the records of committed transactions, with the time at which the broker appended them: its topic must have
    message.timestamp.type=LogAppendTime."""

    def __init__(self, kafka: KafkaTopics, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": kafka.bootstrap, "group.id": "faults", "enable.auto.commit": False, "log_level": 0}
        )
        self._consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])

    async def read(self) -> list[tuple[float, AnyReceived]]:
        return await asyncio.to_thread(self._read)

    def _read(self) -> list[tuple[float, AnyReceived]]:
        found: list[tuple[float, int, int, AnyReceived]] = []
        full = True
        while full:
            messages = self._consumer.consume(_AT_ONCE, _WAIT)
            full = len(messages) == _AT_ONCE
            for each in messages:
                if each.error() is not None:
                    continue
                record, at = record_of(each), each.timestamp()[1] / 1000
                found += [(at, record.partition, record.offset, received) for received in from_kafka([record])]
        found.sort(key=lambda each: each[:3])
        return [(at, received) for at, _, _, received in found]

    def close(self) -> None:
        with suppress(KafkaException):
            self._consumer.close()


class StreamReader:
    def __init__(self, server: Nats, stream: str) -> None:
        self._server = server
        self._stream = stream
        self._next = 1

    async def read(self) -> list[tuple[float, AnyReceived]]:
        found: list[tuple[float, AnyReceived]] = []
        with suppress(NatsError, OSError, TimeoutError):
            async with await nats.connect(self._server.url, allow_reconnect=False, connect_timeout=1) as connection:
                jetstream = connection.jetstream(timeout=1)
                last = (await jetstream.stream_info(self._stream)).state.last_seq
                config = ConsumerConfig(
                    ack_policy=AckPolicy.NONE,
                    deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                    opt_start_seq=self._next,
                )
                if self._next > last:
                    return []
                reader = await jetstream.pull_subscribe("", stream=self._stream, config=config)
                while self._next <= last:
                    for each in await reader.fetch(min(1000, last - self._next + 1), timeout=5):
                        sequence, at = each.metadata.sequence.stream, each.metadata.timestamp.timestamp()
                        record = NatsRecord(sequence, each.subject, each.data, dict(each.headers or {}))
                        found += [(at, received) for received in from_nats([record])]
                        self._next = sequence + 1
        return found


class RequestReader:
    """Takes every request, at the time at which it was received whole."""

    def __init__(self, receiver: WebhookReceiver) -> None:
        self._receiver = receiver
        self._taken: list[tuple[float, Posted]] = []
        receiver.answer = self._take

    def _take(self, posted: Posted) -> Answer:
        self._taken.append((time.time(), posted))
        return ACCEPTED

    async def read(self) -> list[tuple[float, AnyReceived]]:
        taken, self._taken = self._taken, []
        self._receiver.asked.clear()
        self._receiver.accepted.clear()
        return [(at, received) for at, posted in taken for received in from_events(posted.events)]
