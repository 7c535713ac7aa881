"""The process loop: from the queue, past the Indexer, to whoever takes the changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from bridge.informer.controller import Controller, IgnoredChanges, Tombstones, Transform
from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.indexer import Indexer
from bridge.model.answers import EventType
from bridge.model.change import ChangeBatch, Evidence, IgnoredChange, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.primitives.field_path import FieldPath
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.transform.digest import IgnoredPaths
from tests.kit.model_ledger import ModelLedger
from tests.kit.objects import a_pod
from tests.kit.records import PODS

WEB, DB, CACHE = a_pod("web"), a_pod("db"), a_pod("cache")
BEAT = IgnoredPaths([FieldPath.parsed("status.beat")])


class World:
    """A queue, a store and everything that was delivered. With ``offloads``, each change becomes a record, whose body
    is in ``bodies``."""

    def __init__(
        self, transform: Transform | None = None, *, offloads: bool = False, ignoring: IgnoredPaths | None = None
    ) -> None:
        self.ledger = ModelLedger() if offloads else None
        self.bodies: dict[int, bytes] = {}
        self.indexer = Indexer(stored=self.bodies.__getitem__ if offloads else None)
        self.fifo = DeltaFIFO(self.indexer)
        self.counts: list[int] = []
        ignored = None if ignoring is None else IgnoredChanges(ignoring, self.indexer, self.counts.append)
        self.controller = Controller(PODS, Scope(), self.fifo, self.indexer, self.deliver, transform, ignored=ignored)
        self.batches: list[ChangeBatch] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def deliver(self, batch: ChangeBatch) -> list[Delta] | None:
        await self.gate.wait()
        self.batches.append(batch)
        if self.ledger is None:
            return None
        records = self.ledger.commit(batch)
        self.bodies |= {record.sequence: record.body for record in records}
        return records

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Ends when everything that was queued has been delivered."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.controller.run())
            yield
            self.fifo.close()

    async def watched(self, *events: tuple[EventType, ApiObject], at: str | None = None) -> None:
        """One batch."""
        self.fifo.happened(events, at)
        await self.fifo.wait_processed()

    async def listed(self, *objects: ApiObject, at: str) -> None:
        await self.fifo.replace(objects, at)
        await self.fifo.wait_processed()

    @property
    def delivered(self) -> list[tuple[str, ApiObject]]:
        """Operation and object of each change, in order."""
        return [(change.op, change.object) for batch in self.batches for change in batch.changes]

    @property
    def positions(self) -> list[str | None]:
        return [batch.position for batch in self.batches]


def added(thing: ApiObject) -> tuple[EventType, ApiObject]:
    return EventType.ADDED, thing


def modified(thing: ApiObject) -> tuple[EventType, ApiObject]:
    return EventType.MODIFIED, thing


def deleted(thing: ApiObject) -> tuple[EventType, ApiObject]:
    return EventType.DELETED, thing


async def test_a_batch_is_stored_and_delivered_once_with_its_position() -> None:
    world = World()
    async with world.running():
        await world.watched(added(WEB.at(1)), added(DB.at(2)), at="2")
        await world.watched(modified(WEB.at(3)), deleted(DB.at(4)), at="4")

    assert world.positions == ["2", "4"]
    assert world.delivered == [
        ("added", WEB.at(1)),
        ("added", DB.at(2)),
        ("updated", WEB.at(3)),
        ("deleted", DB.at(4)),
    ]
    assert list(world.indexer.objects()) == [WEB.at(3)]


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


async def test_a_relist_without_any_change_still_saves_its_position() -> None:
    world = World()
    async with world.running():
        await world.listed(WEB.at(1), at="5")
        await world.listed(WEB.at(1), at="7")

    assert (world.batches[1].changes, world.positions) == ([], ["5", "7"])


async def test_objects_missing_from_a_list_are_deleted_with_last_state() -> None:
    world = World()
    async with world.running():
        await world.listed(WEB.at(1, image="old"), at="5")
        await world.watched(modified(WEB.at(6, image="new")), at="6")
        await world.listed(at="9")

    (gone,) = world.batches[-1].changes
    assert (gone.op, gone.evidence, gone.object) == (Op.DELETED, Evidence.RELISTED, WEB.at(6, image="new"))


# ── Deletes that are announced again ─────────────────────────────────────────


@pytest.mark.parametrize("position", ["3", None], ids=["at a position", "in doubt"])
async def test_a_delete_that_is_announced_again_is_reported_once(position: str | None) -> None:
    world = World()
    async with world.running():
        await world.watched(added(WEB.at(1)), deleted(WEB.at(3)), at=position)
        await world.watched(deleted(WEB.at(3)), at=position)
        await world.watched(added(WEB.born_again().at(4)), deleted(WEB.at(3)), at=position)

    assert [op for op, _ in world.delivered] == ["added", "deleted", "added"]


@pytest.mark.parametrize(
    ("exported", "position", "versions"),
    [
        (None, None, {"1": False}),
        (None, "10", {"9": True, "10": True, "11": False, "100": False, "x": False}),
        ("10", None, {"9": True, "10": True, "11": False}),
        ("b", "c", {"b": True, "a": False}),
    ],
    ids=["nothing is known", "up to the position", "up to the remembered version", "versions without an order"],
)
def test_a_delete_was_exported_before(exported: str | None, position: str | None, versions: dict[str, bool]) -> None:
    tombstones = Tombstones()
    if exported is not None:
        tombstones.add(WEB.at(exported))

    assert {version: tombstones.cover(WEB.at(version), position) for version in versions} == versions
    assert not tombstones.cover(WEB.born_again().at(1), None), "that is another object"


def test_only_the_newest_deletes_are_remembered() -> None:
    tombstones = Tombstones(most=2)
    pods = [a_pod(f"web-{number}").at(number) for number in range(4)]
    for pod in pods:
        tombstones.add(pod)

    assert [tombstones.cover(pod, None) for pod in pods] == [False, False, True, True]


# ── Transform ────────────────────────────────────────────────────────────────


class Marks:
    """A transform that leaves a trace, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, thing: ApiObject) -> ApiObject:
        self.calls += 1
        return marked(thing)


def marked(thing: ApiObject) -> ApiObject:
    return ApiObject(thing.key, thing.uid, thing.resource_version, thing.body + b" ")


async def test_each_state_is_transformed_once_deletes_included() -> None:
    marks = Marks()
    world = World(marks)
    async with world.running():
        await world.listed(WEB.at(1), DB.at(2), at="5")
        await world.watched(modified(WEB.at(6)), deleted(DB.at(7)), added(WEB.born_again().at(8)))

    assert all(thing.body.endswith(b"} ") for _, thing in world.delivered)
    assert (marks.calls, len(world.delivered)) == (5, 6)  # The delete of the first web is what the store has of it.


async def test_stored_objects_are_not_transformed_again_on_comparison() -> None:
    marks = Marks()
    world = World(marks)
    async with world.running():
        await world.listed(WEB.at(1), at="5")
        await world.listed(WEB.at(1), at="6")
        await world.fifo.resync()
        await world.listed(at="7")

    assert world.delivered == [(op, marked(WEB.at(1))) for op in ("added", "sync", "deleted")]
    assert marks.calls == 1


@pytest.mark.parametrize("offloads", [True, False])
async def test_after_a_restore_states_are_compared_as_they_were_exported(offloads: bool) -> None:
    """And transformed once: a keyed digest of a digest would be another digest."""
    world = World(marked, offloads=offloads)
    async with world.running():
        await world.listed(WEB.at(3), DB.at(4, image="lost"), at="5")
        world.fifo.restored()
        await world.listed(WEB.at(3), DB.at(4, image="kept"), CACHE.at(4), at="4")

    assert world.delivered == [
        ("added", marked(WEB.at(3))),
        ("added", marked(DB.at(4, image="lost"))),
        ("updated", marked(DB.at(4, image="kept"))),
        ("added", marked(CACHE.at(4))),
    ]


# ── Delivery ─────────────────────────────────────────────────────────────────


async def test_nothing_newer_is_processed_before_a_batch_is_delivered() -> None:
    world = World()
    world.gate.clear()
    async with world.running():
        world.fifo.happened([added(WEB.at(1))], "1")
        await asyncio.sleep(1)
        world.fifo.happened([added(DB.at(2))], "2")
        await asyncio.sleep(1)
        assert list(world.indexer.keys()) == [WEB.key]
        world.gate.set()

    assert world.positions == ["1", "2"]


async def test_a_list_ending_during_a_delivery_sees_the_store_after_it() -> None:
    """Else an object that is just being added would be missing from the comparison, and its delete with it."""
    world = World()
    world.gate.clear()
    async with world.running():
        world.fifo.happened([added(WEB.at(1))], "1")
        await asyncio.sleep(1)
        await world.fifo.replace([], "9")
        world.gate.set()

    assert [op for op, _ in world.delivered] == ["added", "deleted"]


async def test_a_failed_delivery_ends_the_loop_and_saves_no_position() -> None:
    class Broken(Exception):
        pass

    async def deliver(_batch: ChangeBatch) -> None:
        raise Broken

    indexer = Indexer()
    fifo = DeltaFIFO(indexer)
    fifo.happened([added(WEB.at(1))], "1")

    with pytest.raises(Broken):
        await Controller(PODS, Scope(), fifo, indexer, deliver, None).run()

    assert len(fifo) == 1


# ── Where bodies rest ────────────────────────────────────────────────────────


async def test_a_delivered_batch_offloads_each_objects_body_to_its_last_record() -> None:
    world = World(offloads=True)
    async with world.running():
        await world.watched(
            added(WEB.at(1)),
            added(DB.at(2)),
            modified(WEB.at(3)),
            deleted(DB.at(4)),
            deleted(WEB.at(5)),
            added(WEB.born_again().at(6)),
        )
        resting = ObjectVersion(WEB.born_again().uid, "6", 6)
        assert dict(world.indexer.items()) == {WEB.key: resting}
        await world.watched(modified(WEB.born_again().at(7)))
        assert world.indexer.known(WEB.key) == ObjectVersion(WEB.born_again().uid, "7", 7)
        world.fifo.reached("9")

    first, second, _ = ([change.before for change in batch.changes] for batch in world.batches)
    assert [before and before.resource_version for before in first] == [None, None, "1", "2", "3", None]
    assert first[2] == ObjectVersion(WEB.uid, "1", WEB.at(1).body), "it is in no record while the batch is delivered"
    assert second == [resting]


async def test_a_resync_moves_no_body() -> None:
    world = World(offloads=True)
    async with world.running():
        await world.listed(WEB.at(1), at="5")
        await world.fifo.resync()
        await world.fifo.wait_processed()

        assert world.indexer.known(WEB.key) == ObjectVersion(WEB.uid, "1", 1)
    assert world.delivered == [("added", WEB.at(1)), ("sync", WEB.at(1))]


async def test_where_changes_become_no_records_bodies_stay() -> None:
    world = World(offloads=True)
    world.ledger = None
    async with world.running():
        await world.watched(added(WEB.at(1)))

        assert world.indexer.get(WEB.key) == WEB.at(1)


# ── Ignored changes: the Indexer follows them, and nobody gets them ──────────


def web(version: int, *, beat: int = 0, n: int = 0, uid: str = "u-1") -> ApiObject:
    manifest = {"metadata": {"resourceVersion": str(version)}, "status": {"beat": beat, "n": n}}
    return ApiObject("shop/web", uid, str(version), msgspec.json.encode(manifest))


async def test_an_update_of_ignored_paths_alone_is_delivered_to_nobody() -> None:
    world = World(offloads=True, ignoring=BEAT)
    async with world.running():
        await world.watched(added(web(1)), at="1")
        await world.watched(modified(web(2, beat=1)), modified(web(3, beat=2)), at="3")
        known = world.indexer.known("shop/web")
        await world.watched(modified(web(4, beat=3, n=1)), at="4")

    assert world.delivered == [("added", web(1)), ("updated", web(4, beat=3, n=1))]
    assert (world.counts, world.positions) == ([2], ["1", "3", "4"])
    assert [batch.ignored for batch in world.batches] == [None, IgnoredChange("shop/web", "u-1", "3", BEAT.name), None]
    assert known is not None
    assert (known.resource_version, known.exported_version, known.state) == ("3", "1", 1)
    before = world.batches[2].changes[0].before
    assert before is not None
    assert world.indexer.with_body("shop/web", before) == web(1), "the state before, as it was exported"


def unreadable(version: int, body: bytes) -> ApiObject:
    return ApiObject("shop/web", "u-1", str(version), body)


Act = Callable[[World], Awaitable[None]]


def watch(*objects: ApiObject, kind: EventType = EventType.MODIFIED) -> Act:
    return lambda world: world.watched(*((kind, each) for each in objects))


def list_(*objects: ApiObject, at: str) -> Act:
    return lambda world: world.listed(*objects, at=at)


async def restore(world: World) -> None:
    world.fifo.restored()


@pytest.mark.parametrize(
    ("acts", "delivered"),
    [
        (
            [watch(web(6, n=1), web(7, beat=5, n=1), web(8, beat=5))],
            [("updated", web(6, n=1)), ("updated", web(8, beat=5))],
        ),
        (
            [list_(web(7, beat=9), at="7"), list_(web(8, beat=9, n=1), at="9")],
            [("updated", web(8, beat=9, n=1))],
        ),
        ([list_(web(7, beat=1), at="7"), watch(web(6, n=7))], []),
        ([watch(web(6, beat=1)), list_(at="9")], [("deleted", web(5))]),
        (
            [watch(web(6, beat=1, uid="u-2"), kind=EventType.ADDED)],
            [("deleted", web(5)), ("added", web(6, beat=1, uid="u-2"))],
        ),
        ([restore, list_(web(3, beat=1), at="4")], [("updated", web(3, beat=1))]),
        ([watch(unreadable(6, b"no object"), unreadable(7, b"no object"))], [("updated", unreadable(6, b"no object"))]),
        ([watch(unreadable(6, b"[]"), unreadable(7, b"[]"))], [("updated", unreadable(6, b"[]"))]),
    ],
    ids=[
        "a watched state is compared with the exported one",
        "so is a listed one",
        "an announcement from before an ignored change is old",
        "a delete that a list shows has the exported version",
        "another object under the name is never ignored",
        "in another history every new version is exported",
        "a state that cannot be read is compared as a whole",
        "so is one without members",
    ],
)
async def test_where_paths_are_ignored(acts: Sequence[Act], delivered: list[tuple[str, ApiObject]]) -> None:
    world = World(offloads=True, ignoring=BEAT)
    async with world.running():
        await world.watched(added(web(5)))
        for act in acts:
            await act(world)

    assert world.delivered == [("added", web(5)), *delivered]
