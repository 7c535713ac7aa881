"""Readers of the four destinations, killed again and again as the bridge is: behind churn, snapshots and a gap, each
has the objects that an independent list of the cluster has."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import nats
import pytest
from kubedelta_reader import GapFound, Reader, Record, SnapshotEnded, SqliteStore
from kubedelta_reader.sources import Source
from kubedelta_reader.sources.files import FileSource
from kubedelta_reader.sources.kafka import KafkaSource
from kubedelta_reader.sources.nats import NatsSource
from kubedelta_reader.sources.parts import parts_of

from bridge.playground import Playground
from bridge.playground.manifests import config_map
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import comes_or_goes
from tests.kit.four_sinks import FourSinks
from tests.kit.webhook_receiver import WebhookReceiver

NAMES = [f"object-{number}" for number in range(40)]
SINKS = ("log", "live", "hook", "copy")
LAST = "testbed/core/configmaps/default/last"
ROTATED = {"copy": {"rotation": {"bytes": "64KiB", "compression": "zstd"}}}


def config(cluster: Playground, sinks: FourSinks) -> Mapping[str, Any]:
    return {
        "cluster": {"name": "testbed", "server": cluster.url},
        "resources": [{"resource": "configmaps", "namespaces": ["default"]}],
        "sinks": sinks.section,
    }


def churn(cluster: Playground, chance: random.Random) -> None:
    comes_or_goes(cluster, chance, "configmaps", config_map(chance.choice(NAMES), {"n": str(chance.randrange(10))}))


@asynccontextmanager
async def churning(cluster: Playground) -> AsyncIterator[None]:
    chance, ends = random.Random(5), asyncio.Event()

    async def change() -> None:
        while not ends.is_set():
            churn(cluster, chance)
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(change())
        yield
        ends.set()


class Posts(Source):
    """What a webhook gets; the position is their number."""

    def __init__(self, receiver: WebhookReceiver) -> None:
        self._receiver = receiver
        self._next = 0

    async def open(self) -> str:
        return self._receiver.url

    async def resume(self, position: bytes) -> None:
        self._next = int(position or b"0")

    async def read(self) -> AsyncGenerator[Sequence[Record]]:
        for posted in self._receiver.accepted[self._next :]:
            self._next += 1
            yield [Record(posted.content)]

    @property
    def position(self) -> bytes:
        return str(self._next).encode()

    @property
    def lost(self) -> bool:
        return False

    async def close(self) -> None:
        return None


class Killed(Exception):
    pass


class Consumer:
    """Lives in ``lives``, and knows nothing at its beginning but what is in its file."""

    def __init__(self, source: Callable[[], Source], path: Path) -> None:
        self._source = source
        self.path = path
        self.kills = 0
        self.gaps = self.sweeps = 0
        self.lost = False

    async def lives(self, chance: random.Random, kill: float = 0.0) -> None:
        """Reads what is there, unless it is killed, with this probability for each batch, before it has saved it."""
        with closing(SqliteStore(self.path)) as store:
            try:
                await self._reads(store, chance, kill)
            except Killed:
                self.kills += 1

    async def _reads(self, store: SqliteStore, chance: random.Random, kill: float) -> None:
        async with self._source() as source:
            reader = Reader(store, partitioned=source.partitioned)
            await source.resume(store.position)
            self.lost |= source.lost
            async with aclosing(source.read()) as batches:
                async for batch in batches:
                    with store.transaction():
                        for record in batch:
                            self._count(reader, record)
                        store.position = source.position
                        if chance.random() < kill:
                            raise Killed

    def _count(self, reader: Reader, record: Record) -> None:
        for step in reader.apply(record.event(), record.partition):
            self.gaps += isinstance(step, GapFound)
            self.sweeps += isinstance(step, SnapshotEnded) and not step.incomplete


def consumers(sinks: FourSinks, folder: Path) -> dict[str, Consumer]:
    properties = {"bootstrap.servers": sinks.kafka.bootstrap}
    sources: dict[str, Callable[[], Source]] = {
        "log": partial(KafkaSource, properties, re.compile(re.escape(sinks.name))),
        "live": partial(NatsSource, partial(nats.connect, sinks.nats.url), sinks.name),
        "hook": partial(Posts, sinks.receiver),
        "copy": partial(FileSource, sinks.file),
    }
    return {name: Consumer(source, folder / f"{name}.db") for name, source in sources.items()}


async def test_every_reader_comes_to_the_state_of_the_cluster(
    four_sinks: FourSinks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("files", "kafka", "nats"):
        monkeypatch.setattr(f"kubedelta_reader.sources.{module}._BATCH", 30)
    chance = random.Random(7)
    readers = consumers(four_sinks, tmp_path)
    async with Playground() as cluster:
        for _ in range(80):
            churn(cluster, chance)
        bridge = BridgeProcess(tmp_path / "bridge", config(cluster, replace(four_sinks, options=ROTATED)))
        async with bridge.started():
            await bridge.until_delivered()
            async with churning(cluster):
                for number in range(4):
                    for sink in SINKS:
                        await bridge.snapshot(sink)
                    for each in readers.values():
                        await each.lives(chance, kill=0.5)
                    await asyncio.to_thread(bridge.kill9)
                    if number == 1:
                        await purge(four_sinks)
                    await asyncio.to_thread(bridge.start)
                    for each in readers.values():
                        await each.lives(chance, kill=0.2)
            cluster.create("configmaps", config_map("last", {"n": "0"}))
            await bridge.until("all changes are read", lambda _: LAST in four_sinks.receiver.accepted[-1].keys)
            for sink in SINKS:
                await bridge.snapshot(sink)
            await bridge.until("the snapshots are delivered", lambda now: now.value("sink_backfill_records") == 0)
            await bridge.until_delivered()
        listed = {
            f"testbed/core/configmaps/default/{each['metadata']['name']}": (
                each["metadata"]["uid"],
                each["metadata"]["resourceVersion"],
                each.get("data"),
            )
            for each in cluster.list("configmaps", namespace="default")
        }

    for name, consumer in readers.items():
        await consumer.lives(chance)
        with closing(SqliteStore(consumer.path)) as store:
            reader = Reader(store, partitioned=name == "log")
            assert {key: version(known.state) for key, known in reader.objects()} == listed, name
            assert list(reader.uncertain()) == [], name
            assert reader.gaps == (), name
        assert consumer.kills, name
        assert consumer.sweeps, name
    assert readers["live"].gaps
    assert readers["live"].lost
    assert parts_of(four_sinks.file)
    print({name: (each.kills, each.gaps, each.sweeps, each.lost) for name, each in readers.items()})


def version(state: bytes) -> tuple[str, str, object]:
    found = json.loads(state)
    return found["metadata"]["uid"], found["metadata"]["resourceVersion"], found.get("data")


async def purge(sinks: FourSinks) -> None:
    async with await nats.connect(sinks.nats.url) as connection:
        await connection.jetstream().purge_stream(sinks.name)
