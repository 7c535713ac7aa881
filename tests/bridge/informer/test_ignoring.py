"""Updates of ignored paths alone: the Indexer follows them, and nobody gets them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from bridge.informer.controller import Controller, IgnoredChanges
from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.indexer import Indexer
from bridge.model.answers import EventType
from bridge.model.change import ChangeBatch, IgnoredChange
from bridge.model.object import ApiObject
from bridge.model.primitives.field_path import FieldPath
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.transform.digest import IgnoredPaths
from tests.kit.records import PODS, records_of

BEAT = IgnoredPaths([FieldPath.parsed("status.beat")])


def web(version: int, *, beat: int = 0, n: int = 0, uid: str = "u-1") -> ApiObject:
    manifest: dict[str, Any] = {"metadata": {"resourceVersion": str(version)}, "status": {"beat": beat, "n": n}}
    return ApiObject("shop/web", uid, str(version), msgspec.json.encode(manifest))


class World:
    """A queue, a store whose bodies are offloaded, and the batches that were delivered."""

    def __init__(self) -> None:
        self.bodies: dict[int, bytes] = {}
        self.indexer = Indexer(stored=self.bodies.__getitem__)
        self.fifo = DeltaFIFO(self.indexer)
        self.counts: list[int] = []
        ignored = IgnoredChanges(BEAT, self.indexer, self.counts.append)
        self.controller = Controller(PODS, Scope(), self.fifo, self.indexer, self.deliver, None, ignored=ignored)
        self.batches: list[ChangeBatch] = []

    async def deliver(self, batch: ChangeBatch) -> list[Delta]:
        self.batches.append(batch)
        records = records_of(batch, len(self.bodies) + 1)
        self.bodies |= {record.sequence: record.body for record in records}
        return records

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Ends when everything that was queued has been delivered."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.controller.run())
            yield
            self.fifo.close()

    async def happened(self, *objects: ApiObject, kind: EventType = EventType.MODIFIED) -> None:
        """One batch."""
        self.fifo.happened([(kind, each) for each in objects], objects[-1].resource_version)
        await self.fifo.wait_processed()

    async def listed(self, *objects: ApiObject, position: str) -> None:
        await self.fifo.replace(objects, position)
        await self.fifo.wait_processed()

    @property
    def delivered(self) -> Sequence[tuple[str, str]]:
        """Op and version of each change."""
        return [(each.op, each.object.resource_version) for batch in self.batches for each in batch.changes]


async def test_an_update_of_ignored_paths_alone_is_delivered_to_nobody() -> None:
    world = World()
    async with world.running():
        await world.happened(web(1), kind=EventType.ADDED)
        await world.happened(web(2, beat=1), web(3, beat=2))
        known = world.indexer.known("shop/web")
        await world.happened(web(4, beat=3, n=1))

    assert world.delivered == [("added", "1"), ("updated", "4")]
    assert world.counts == [2]
    assert [batch.position for batch in world.batches] == ["1", "3", "4"]
    assert [batch.ignored for batch in world.batches] == [None, IgnoredChange("shop/web", "u-1", "3", BEAT.name), None]
    assert known is not None
    assert (known.resource_version, known.exported_version, known.state) == ("3", "1", 1)
    [updated] = world.batches[2].changes
    assert updated.before is not None
    assert world.indexer.with_body("shop/web", updated.before) == web(1), "the state before, as it was exported"


async def test_ignored_paths_are_compared_with_the_exported_state() -> None:
    world = World()
    async with world.running():
        await world.happened(web(1), kind=EventType.ADDED)
        await world.happened(web(2, n=1), web(3, beat=5, n=1), web(4, beat=5))

    assert world.delivered == [("added", "1"), ("updated", "2"), ("updated", "4")]


async def test_a_list_compares_digests_too() -> None:
    world = World()
    async with world.running():
        await world.happened(web(1), kind=EventType.ADDED)
        await world.listed(web(5, beat=9), position="6")
        await world.listed(web(7, beat=9, n=1), position="8")

    assert world.delivered == [("added", "1"), ("updated", "7")]
    assert [batch.position for batch in world.batches] == ["1", "6", "8"]


async def test_an_announcement_from_before_an_ignored_change_is_old() -> None:
    world = World()
    async with world.running():
        await world.happened(web(1), kind=EventType.ADDED)
        await world.listed(web(5, beat=1), position="6")
        await world.happened(web(3, n=7))

    assert world.delivered == [("added", "1")]


async def test_a_delete_that_a_list_shows_has_the_exported_version() -> None:
    world = World()
    async with world.running():
        await world.happened(web(1), kind=EventType.ADDED)
        await world.happened(web(2, beat=1))
        await world.listed(position="9")

    assert world.delivered == [("added", "1"), ("deleted", "1")]
    assert world.batches[-1].changes[0].object == web(1)


async def test_another_object_under_the_name_is_never_ignored() -> None:
    world = World()
    async with world.running():
        await world.happened(web(1), kind=EventType.ADDED)
        await world.happened(web(2, beat=1, uid="u-2"), kind=EventType.ADDED)

    assert world.delivered == [("added", "1"), ("deleted", "1"), ("added", "2")]


async def test_in_another_history_every_new_version_is_exported() -> None:
    world = World()
    async with world.running():
        await world.happened(web(5), kind=EventType.ADDED)
        world.fifo.restored()
        await world.listed(web(3, beat=1), position="4")

    assert world.delivered == [("added", "5"), ("updated", "3")]


@pytest.mark.parametrize("manifest", [b"no object", b"[]"])
async def test_a_state_that_cannot_be_read_is_compared_as_a_whole(manifest: bytes) -> None:
    world = World()
    async with world.running():
        await world.happened(web(1), kind=EventType.ADDED)
        await world.happened(ApiObject("shop/web", "u-1", "2", manifest))
        await world.happened(ApiObject("shop/web", "u-1", "3", manifest))

    assert world.delivered == [("added", "1"), ("updated", "2")]
