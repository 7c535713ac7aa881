"""The process loop: from the queue, past the Indexer, to whoever takes the changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from bridge.informer.controller import Controller, Transform
from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.indexer import Indexer, Stored
from bridge.model.answers import EventType
from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.record import Delta
from bridge.model.resource import Resource, Scope
from tests.kit.objects import a_pod
from tests.kit.records import records_of

PODS = Resource("", "v1", "pods", "Pod", True)
WEB, DB = a_pod("web"), a_pod("db")


class World:
    """A queue, a store and everything that was delivered."""

    def __init__(self, transform: Transform | None = None, stored: Stored | None = None) -> None:
        self.indexer = Indexer(stored=stored)
        self.fifo = DeltaFIFO(self.indexer)
        self.controller = Controller(PODS, Scope(), self.fifo, self.indexer, self.deliver, transform)
        self.batches: list[tuple[Sequence[Change], str | None]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.has_records = stored is not None
        self.numbered = 0
        """Changes that have a sequence number so far."""

    async def deliver(self, batch: ChangeBatch) -> list[Delta] | None:
        await self.gate.wait()
        self.batches.append((batch.changes, batch.position))
        if not self.has_records:
            return None
        records = records_of(batch, self.numbered + 1)
        self.numbered += len(records)
        return records

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Ends when everything that was queued has been delivered."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.controller.run())
            yield
            self.fifo.close()

    @property
    def delivered(self) -> list[tuple[str, str, str]]:
        """Operation, uid and version of each change, in order."""
        changes = [change for batch, _ in self.batches for change in batch]
        return [(change.op, change.object.uid, change.object.resource_version) for change in changes]


async def test_a_batch_is_stored_and_delivered_once_with_its_position() -> None:
    world = World()
    async with world.running():
        world.fifo.happened([(EventType.ADDED, WEB.at(1)), (EventType.ADDED, DB.at(2))], "2")
        await world.fifo.wait_processed()
        world.fifo.happened([(EventType.MODIFIED, WEB.at(3)), (EventType.DELETED, DB.at(4))], "4")

    assert [position for _, position in world.batches] == ["2", "4"]
    assert world.delivered == [
        ("added", WEB.uid, "1"),
        ("added", DB.uid, "2"),
        ("updated", WEB.uid, "3"),
        ("deleted", DB.uid, "4"),
    ]
    assert world.indexer.get(WEB.key) == WEB.at(3)
    assert world.indexer.get(DB.key) is None


async def test_each_step_in_a_batch_has_the_version_before_it() -> None:
    world = World()
    async with world.running():
        world.fifo.happened(
            [
                (EventType.ADDED, WEB.at(1)),
                (EventType.MODIFIED, WEB.at(2)),
                (EventType.DELETED, WEB.at(3)),
                (EventType.ADDED, WEB.born_again().at(4)),
            ]
        )

    ((changes, _),) = world.batches
    assert [change.before and change.before.resource_version for change in changes] == [None, "1", "2", None]
    assert world.delivered[-1] == ("added", WEB.born_again().uid, "4")


async def test_it_has_synced_once_the_end_of_the_first_list_is_delivered() -> None:
    """The list ends while its last page is delivered. A kill before its position is saved would begin a new list."""
    indexer = Indexer()
    fifo = DeltaFIFO(indexer)
    positions: list[str | None] = []
    synced_behind: list[list[str | None]] = []

    async def deliver(batch: ChangeBatch) -> None:
        if not positions:
            await fifo.end_replace("7")
        positions.append(batch.position)

    def synced() -> None:
        synced_behind.append([*positions])
        fifo.close()

    fifo.begin_replace()
    fifo.replaced([WEB.at(1)])
    await Controller(PODS, Scope(), fifo, indexer, deliver, None, synced=synced).run()

    assert synced_behind == [[None, "7"]]


@pytest.mark.parametrize("position", ["3", None], ids=["at a position", "in doubt"])
async def test_a_delete_that_is_announced_again_is_reported_once(position: str | None) -> None:
    world = World()
    gone = [(EventType.DELETED, WEB.at(3))]
    async with world.running():
        world.fifo.happened([(EventType.ADDED, WEB.at(1)), *gone], position)
        await world.fifo.wait_processed()
        world.fifo.happened(gone, position)
        await world.fifo.wait_processed()
        world.fifo.happened([(EventType.ADDED, WEB.born_again().at(4)), *gone], position)

    assert [op for op, _, _ in world.delivered] == ["added", "deleted", "added"]


async def test_a_relist_without_any_change_still_saves_its_position() -> None:
    world = World()
    async with world.running():
        await world.fifo.replace([WEB.at(1)], "5")
        await world.fifo.wait_processed()
        await world.fifo.replace([WEB.at(1)], "7")

    assert world.batches[1] == ([], "7")


async def test_objects_missing_from_a_list_are_deleted_with_last_state() -> None:
    world = World()
    async with world.running():
        await world.fifo.replace([WEB.at(1, image="old")], "5")
        world.fifo.happened([(EventType.MODIFIED, WEB.at(6, image="new"))], "6")
        await world.fifo.wait_processed()
        await world.fifo.replace([], "9")

    (deleted,) = world.batches[-1][0]
    assert (deleted.op, deleted.evidence, deleted.object) == (Op.DELETED, Evidence.RELISTED, WEB.at(6, image="new"))


# ── Transform ────────────────────────────────────────────────────────────────


class Marks:
    """A transform that leaves a trace, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, thing: ApiObject) -> ApiObject:
        self.calls += 1
        return ApiObject(thing.key, thing.uid, thing.resource_version, thing.body + b" ")


async def test_each_state_is_transformed_once_deletes_included() -> None:
    marks = Marks()
    world = World(marks)
    async with world.running():
        await world.fifo.replace([WEB.at(1), DB.at(2)], "5")
        await world.fifo.wait_processed()
        world.fifo.happened([(EventType.MODIFIED, WEB.at(6)), (EventType.DELETED, DB.at(7))])
        world.fifo.happened([(EventType.ADDED, WEB.born_again().at(8))])

    bodies = [change.object.body for batch, _ in world.batches for change in batch]
    assert all(body.endswith(b"} ") for body in bodies)
    assert (marks.calls, len(bodies)) == (5, 6)  # The delete of the first web is what the store has of it.


async def test_stored_objects_are_not_transformed_again_on_comparison() -> None:
    marks = Marks()
    world = World(marks)
    async with world.running():
        await world.fifo.replace([WEB.at(1)], "5")
        await world.fifo.wait_processed()
        await world.fifo.replace([WEB.at(1)], "6")
        await world.fifo.wait_processed()
        await world.fifo.resync()
        await world.fifo.wait_processed()
        await world.fifo.replace([], "7")

    assert world.delivered == [("added", WEB.uid, "1"), ("sync", WEB.uid, "1"), ("deleted", WEB.uid, "1")]
    assert {change.object.body for batch, _ in world.batches for change in batch} == {WEB.at(1).body + b" "}
    assert marks.calls == 1


async def test_after_a_restore_transformed_states_are_compared() -> None:
    def strip(thing: ApiObject) -> ApiObject:
        return ApiObject(thing.key, thing.uid, thing.resource_version, thing.body.replace(b"secret", b""))

    world = World(strip)
    async with world.running():
        await world.fifo.replace([WEB.at(3, image="secret"), DB.at(4, image="secret lost")], "5")
        await world.fifo.wait_processed()
        world.fifo.restored()
        await world.fifo.replace([WEB.at(3, image="secret"), DB.at(4, image="secret kept")], "4")

    assert world.delivered == [("added", WEB.uid, "3"), ("added", DB.uid, "4"), ("updated", DB.uid, "4")]
    assert b"secret" not in world.batches[-1][0][0].object.body


async def test_after_a_restore_an_object_is_transformed_once_as_ever() -> None:
    """A keyed digest of a digest would be another digest."""
    world = World(Marks())
    async with world.running():
        await world.fifo.replace([WEB.at(3)], "5")
        await world.fifo.wait_processed()
        world.fifo.restored()
        await world.fifo.replace([WEB.at(3), DB.at(4)], "4")

    assert world.delivered == [("added", WEB.uid, "3"), ("added", DB.uid, "4")]
    assert world.batches[-1][0][0].object.body == DB.at(4).body + b" "


# ── Delivery ─────────────────────────────────────────────────────────────────


async def test_nothing_newer_is_processed_before_a_batch_is_delivered() -> None:
    world = World()
    world.gate.clear()
    async with world.running():
        world.fifo.happened([(EventType.ADDED, WEB.at(1))], "1")
        await asyncio.sleep(1)
        world.fifo.happened([(EventType.ADDED, DB.at(2))], "2")
        await asyncio.sleep(1)
        assert world.indexer.get(WEB.key) is not None
        assert world.indexer.get(DB.key) is None
        world.gate.set()

    assert [position for _, position in world.batches] == ["1", "2"]


async def test_a_list_ending_during_a_delivery_sees_the_store_after_it() -> None:
    """Else an object that is just being added would be missing from the comparison, and its delete with it."""
    world = World()
    world.gate.clear()
    async with world.running():
        world.fifo.happened([(EventType.ADDED, WEB.at(1))], "1")
        await asyncio.sleep(1)
        await world.fifo.replace([], "9")
        world.gate.set()

    assert world.delivered == [("added", WEB.uid, "1"), ("deleted", WEB.uid, "1")]


async def test_a_failed_delivery_ends_the_loop_and_saves_no_position() -> None:
    class Broken(Exception):
        pass

    async def deliver(_batch: ChangeBatch) -> None:
        raise Broken

    indexer = Indexer()
    fifo = DeltaFIFO(indexer)
    fifo.happened([(EventType.ADDED, WEB.at(1))], "1")

    with pytest.raises(Broken):
        await Controller(PODS, Scope(), fifo, indexer, deliver, None).run()

    assert len(fifo) == 1


# ── Where bodies rest ────────────────────────────────────────────────────────


def nothing_is_read(sequence: int) -> bytes:
    raise AssertionError(f"record {sequence} was read")


async def test_a_delivered_batch_offloads_bodies_by_record_numbers() -> None:
    world = World(stored=nothing_is_read)
    async with world.running():
        world.fifo.happened([(EventType.ADDED, WEB.at(1)), (EventType.ADDED, DB.at(2))], "2")
        await world.fifo.wait_processed()
        assert dict(world.indexer.items()) == {
            WEB.key: ObjectVersion(WEB.uid, "1", 1),
            DB.key: ObjectVersion(DB.uid, "2", 2),
        }

        world.fifo.happened([(EventType.MODIFIED, WEB.at(3))], "3")
        await world.fifo.wait_processed()
        assert world.indexer.known(WEB.key) == ObjectVersion(WEB.uid, "3", 3)
        world.fifo.reached("9")

    ((update,), _) = world.batches[1]
    assert update.before == ObjectVersion(WEB.uid, "1", 1)


async def test_an_objects_last_change_in_a_batch_offloads_its_body() -> None:
    world = World(stored=lambda _: WEB.at(4).body)
    async with world.running():
        world.fifo.happened(
            [
                (EventType.ADDED, WEB.at(1)),
                (EventType.ADDED, DB.at(2)),
                (EventType.MODIFIED, WEB.at(3)),
                (EventType.DELETED, DB.at(4)),
                (EventType.DELETED, WEB.at(5)),
                (EventType.ADDED, WEB.born_again().at(6)),
            ],
            "6",
        )
        await world.fifo.wait_processed()

        assert dict(world.indexer.items()) == {WEB.key: ObjectVersion(WEB.born_again().uid, "6", 6)}
    ((changes, _),) = world.batches
    assert changes[2].before == ObjectVersion(WEB.uid, "1", WEB.at(1).body), (
        "its body is in no record while the batch is delivered"
    )


async def test_a_resync_moves_no_body() -> None:
    world = World(stored={1: WEB.at(1).body}.__getitem__)
    async with world.running():
        await world.fifo.replace([WEB.at(1)], "5")
        await world.fifo.wait_processed()
        await world.fifo.resync()
        await world.fifo.wait_processed()

        assert world.indexer.known(WEB.key) == ObjectVersion(WEB.uid, "1", 1)
    assert world.batches[-1][0][0].object == WEB.at(1)


async def test_where_changes_become_no_records_bodies_stay() -> None:
    world = World(stored=nothing_is_read)
    world.has_records = False
    async with world.running():
        world.fifo.happened([(EventType.ADDED, WEB.at(1))], "1")
        await world.fifo.wait_processed()

        assert world.indexer.get(WEB.key) == WEB.at(1)


async def test_after_a_restore_states_are_compared_with_what_rests() -> None:
    world = World(stored={1: WEB.at(3, image="a").body, 2: DB.at(4, image="lost").body}.__getitem__)
    async with world.running():
        await world.fifo.replace([WEB.at(3, image="a"), DB.at(4, image="lost")], "5")
        await world.fifo.wait_processed()
        world.fifo.restored()
        await world.fifo.replace([WEB.at(3, image="a"), DB.at(4, image="kept")], "4")

    assert world.delivered == [("added", WEB.uid, "3"), ("added", DB.uid, "4"), ("updated", DB.uid, "4")]
