"""The queue between the Reflector and the Controller.

The model in tests/properties/test_informer_delta_fifo.py has order, positions, merged deletes, pages, failures and
HasSynced in every interleaving. Here is an example of each, and what the model leaves out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import pytest

from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.deltas import Deltas, DeltaType, FifoClosed, QueuedDelta, Span
from bridge.model.answers import EventType
from bridge.model.change import Evidence
from tests.bridge.informer.drained import Drained, drained
from tests.kit.objects import a_pod

WEB, DB, CACHE = a_pod("web"), a_pod("db"), a_pod("cache")


def store(*keys: str) -> dict[str, None]:
    """The known objects, as far as the queue looks at them."""
    return dict.fromkeys(keys)


def summary(deltas: Sequence[QueuedDelta]) -> list[tuple[str, str, str | None]]:
    return [(each.type, each.key, each.object.resource_version if each.object else None) for each in deltas]


async def popped(fifo: DeltaFIFO) -> Deltas:
    taken: list[Deltas] = []

    async def process(deltas: Deltas) -> None:
        taken.append(deltas)

    await fifo.pop(process)
    return taken[0]


class DiskFull(Exception):
    pass


async def fails(*_: object) -> NoReturn:
    raise DiskFull


async def is_waiting(task: asyncio.Task[object]) -> bool:
    """Whether the task still waits when nothing else is left to do."""
    await asyncio.sleep(1)
    return not task.done()


# ── Order ────────────────────────────────────────────────────────────────────


async def test_a_batch_keeps_arrival_order_and_the_newest_position() -> None:
    fifo = DeltaFIFO(store())
    fifo.happened([(EventType.ADDED, WEB.at(1)), (EventType.ADDED, DB.at(2))], "2")
    fifo.happened([(EventType.MODIFIED, WEB.at(3)), (EventType.DELETED, DB.at(4))], "4")

    batch = await drained(fifo)

    assert summary(batch.deltas) == [
        ("Added", WEB.key, "1"),
        ("Added", DB.key, "2"),
        ("Updated", WEB.key, "3"),
        ("Deleted", DB.key, "4"),
    ]
    assert batch.position == "4"
    assert len(fifo) == 0


async def test_pop_gives_all_that_is_pending_of_the_oldest_key() -> None:
    fifo = DeltaFIFO(store())
    fifo.add(WEB.at(1))
    fifo.add(DB.at(2))
    fifo.update(WEB.at(3))

    assert list(fifo.queue) == [WEB.key, DB.key]
    assert summary(await popped(fifo)) == [("Added", WEB.key, "1"), ("Updated", WEB.key, "3")]
    assert summary(await popped(fifo)) == [("Added", DB.key, "2")]


async def test_a_take_waits_until_there_is_something_and_loses_nothing() -> None:
    for take in (popped, drained):
        fifo = DeltaFIFO(store())
        async with asyncio.TaskGroup() as tasks:
            cancelled, waiting = tasks.create_task(take(fifo)), tasks.create_task(take(fifo))
            assert await is_waiting(cancelled)
            cancelled.cancel()
            assert await is_waiting(waiting)
            fifo.add(WEB.at(1))


async def test_a_list_gives_a_position_only_when_it_has_ended() -> None:
    fifo = DeltaFIFO(store(WEB.key, DB.key), max_deltas=1)
    fifo.reached("5")
    fifo.begin_replace()
    assert (await drained(fifo)).position == "5", "what the list says is not queued yet"

    positions: list[str | None] = []
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fifo.end_replace("9"))
        for _ in range(2):
            batch = await drained(fifo)
            positions.append(batch.position)
            assert [delta.type for delta in batch.deltas] == [DeltaType.DELETED]
    assert positions == [None, "9"]


# ── Deletes ──────────────────────────────────────────────────────────────────


async def test_two_deletes_in_a_row_are_one_that_has_the_last_state() -> None:
    fifo = DeltaFIFO(store(WEB.key))
    await fifo.replace([], "5")
    fifo.delete(WEB.at(6))

    (only,) = (await drained(fifo)).deltas
    assert (only.type, only.object, only.evidence) == (DeltaType.DELETED, WEB.at(6), Evidence.WATCHED)
    assert len(fifo) == 0


async def test_deletes_of_two_objects_under_one_name_are_two() -> None:
    fifo = DeltaFIFO(store())
    fifo.delete(WEB.at(6))
    fifo.delete(WEB.born_again().at(8))

    assert len((await drained(fifo)).deltas) == 2


# ── Replace ──────────────────────────────────────────────────────────────────


async def test_replace_queues_listed_objects_and_deletes_of_missing() -> None:
    fifo = DeltaFIFO(store(WEB.key, DB.key))
    await fifo.replace([WEB.at(5), CACHE.at(6)], "7")

    batch = await drained(fifo)
    assert summary(batch.deltas) == [
        ("Replaced", WEB.key, "5"),
        ("Replaced", CACHE.key, "6"),
        ("Deleted", DB.key, None),
    ]
    assert batch.position == "7"


async def test_a_delete_inside_a_list_takes_the_object_off_the_list() -> None:
    fifo = DeltaFIFO(store())
    fifo.begin_replace()
    fifo.replaced([WEB.at(5)])
    await drained(fifo)
    fifo.happened([(EventType.DELETED, WEB.at(6))])

    assert await fifo.end_replace("7") == 0


@pytest.mark.parametrize(("resumed", "first"), [(False, Evidence.LISTED), (True, Evidence.RELISTED)])
async def test_only_the_first_list_of_all_is_no_comparison(resumed: bool, first: Evidence) -> None:
    fifo = DeltaFIFO(store(), resumed=resumed)
    await fifo.replace([WEB.at(5)], "7")
    await fifo.replace([WEB.at(8)], "9")

    evidence = [delta.evidence for delta in (await drained(fifo)).deltas]
    assert evidence == [first, Evidence.RELISTED]


async def test_a_restart_at_a_position_waits_for_no_first_list() -> None:
    fifo = DeltaFIFO(store(WEB.key), resumed=True, position="7")
    assert fifo.has_synced
    await fifo.resync(None)
    assert (await drained(fifo)).position == "7"

    await fifo.replace([], "9")
    assert fifo.has_synced
    assert (await drained(fifo)).deltas[0].evidence is Evidence.RELISTED


async def test_after_a_restore_lists_say_so_until_one_was_complete() -> None:
    fifo = DeltaFIFO(store())
    fifo.reached("5")
    fifo.restored()
    assert (await drained(fifo)).position is None
    for complete in (False, True, True):
        fifo.begin_replace()
        fifo.replaced([WEB.at(5)])
        await fifo.end_replace("7", complete=complete)

    assert [delta.type for delta in (await drained(fifo)).deltas] == [
        DeltaType.RESTORED,
        DeltaType.RESTORED,
        DeltaType.REPLACED,
    ]


async def test_a_part_of_a_list_outside_of_a_list_is_an_error() -> None:
    fifo = DeltaFIFO(store())

    with pytest.raises(RuntimeError, match="begin_replace"):
        fifo.replaced([WEB.at(5)])
    with pytest.raises(RuntimeError, match="begin_replace"):
        await fifo.end_replace("7")


# ── Resync ───────────────────────────────────────────────────────────────────


async def test_a_resync_skips_objects_with_pending_deltas() -> None:
    fifo = DeltaFIFO(store(WEB.key, DB.key))
    fifo.update(WEB.at(9))
    await fifo.resync(("audit",))

    (update, sync) = (await drained(fifo)).deltas
    assert (update.type, update.key) == (DeltaType.UPDATED, WEB.key)
    assert (sync.type, sync.key, sync.targets) == (DeltaType.SYNC, DB.key, ("audit",))


async def test_a_pending_resync_also_reaches_the_next_listener() -> None:
    fifo = DeltaFIFO(store(WEB.key))
    for targets, all_targets in (
        (("audit",), ("audit",)),
        (("live",), ("audit", "live")),
        (None, None),
        (("x",), None),
    ):
        await fifo.resync(targets)
        assert fifo.items[WEB.key][0].targets == all_targets


# ── Failures ─────────────────────────────────────────────────────────────────


async def test_failed_deltas_keep_their_order_and_newer_positions_stay() -> None:
    fifo = DeltaFIFO(store())
    fifo.happened([(EventType.ADDED, WEB.at(1)), (EventType.ADDED, DB.at(2))], "2")

    async def fail_after_news(*_: object) -> None:
        fifo.happened([(EventType.MODIFIED, DB.at(3)), (EventType.ADDED, CACHE.at(4))], "4")
        raise DiskFull

    with pytest.raises(DiskFull):
        await fifo.drain(fail_after_news)

    assert list(fifo.queue) == [WEB.key, DB.key, CACHE.key]
    batch = await drained(fifo)
    assert [delta.object and delta.object.resource_version for delta in batch.deltas] == ["1", "2", "3", "4"]
    assert batch.position == "4"


async def test_a_failed_batch_drops_its_position_when_in_doubt() -> None:
    fifo = DeltaFIFO(store())
    fifo.happened([(EventType.ADDED, WEB.at(1))], "1")

    async def fail_after_doubt(*_: object) -> None:
        fifo.happened([(EventType.DELETED, DB.at(3))], None)
        raise DiskFull

    with pytest.raises(DiskFull):
        await fifo.drain(fail_after_doubt)

    batch = await drained(fifo)
    assert [delta.key for delta in batch.deltas] == [WEB.key, DB.key]
    assert batch.position is None


async def test_an_empty_batch_that_failed_is_due_again() -> None:
    fifo = DeltaFIFO(store())
    fifo.reached("5")
    with pytest.raises(DiskFull):
        await fifo.drain(fails)

    assert await drained(fifo) == Drained([], "5")


async def test_a_failed_delete_and_the_same_inferred_one_are_merged() -> None:
    fifo = DeltaFIFO(store(WEB.key))
    fifo.delete(WEB.at(3))

    async def fail_after_a_list(_: Deltas) -> None:
        await fifo.replace([], "5")
        raise DiskFull

    with pytest.raises(DiskFull):
        await fifo.pop(fail_after_a_list)

    assert summary(await popped(fifo)) == [("Deleted", WEB.key, "3")]
    assert (len(fifo), fifo.has_synced) == (0, True)


# ── HasSynced ────────────────────────────────────────────────────────────────


async def test_has_synced_is_false_until_the_first_list_is_processed() -> None:
    fifo = DeltaFIFO(store())
    fifo.begin_replace()
    fifo.replaced([WEB.at(1)])
    await drained(fifo)
    assert not fifo.has_synced

    fifo.replaced([DB.at(2)])
    await fifo.end_replace("7")
    assert not fifo.has_synced

    async def look(*_: object) -> None:
        assert not fifo.has_synced

    await fifo.drain(look)
    assert fifo.has_synced


async def test_has_synced_waits_for_a_page_in_processing_at_list_end() -> None:
    fifo = DeltaFIFO(store())
    fifo.begin_replace()
    fifo.replaced([WEB.at(1)])

    async def end_meanwhile(*_: object) -> None:
        await fifo.end_replace("7")
        assert not fifo.has_synced

    await fifo.drain(end_meanwhile)

    assert fifo.has_synced


# ── Bounds ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "fifo_of",
    [
        lambda: DeltaFIFO(store(), max_deltas=2),
        lambda: DeltaFIFO(store(), max_bytes=len(WEB.at(1).body) + 1),
    ],
    ids=["deltas", "bytes"],
)
async def test_a_full_queue_has_no_room_until_it_is_taken_from(fifo_of: Callable[[], DeltaFIFO]) -> None:
    fifo = fifo_of()
    fifo.add(WEB.at(1))
    await fifo.wait_room()
    fifo.add(DB.at(2))

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(fifo.wait_room())
        assert await is_waiting(waiting)
        await drained(fifo)


@pytest.mark.parametrize("make_many", [lambda fifo: fifo.resync(), lambda fifo: fifo.replace([], "7")])
async def test_a_resync_or_a_list_that_deletes_much_keeps_the_bound(
    make_many: Callable[[DeltaFIFO], Awaitable[None]],
) -> None:
    fifo = DeltaFIFO(store(*map(str, range(1000))), max_deltas=50)
    keys: list[str] = []
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_await(make_many(fifo)))
        while len(keys) < 1000:
            batch = await drained(fifo)
            assert len(batch.deltas) <= 50
            keys += [delta.key for delta in batch.deltas]

    assert sorted(keys) == sorted(map(str, range(1000)))


async def _await(waits: Awaitable[None]) -> None:
    await waits


async def test_what_a_failure_put_back_counts_again() -> None:
    fifo = DeltaFIFO(store(), max_bytes=len(WEB.at(1).body))
    fifo.add(WEB.at(1))
    with pytest.raises(DiskFull):
        await fifo.drain(fails)

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(fifo.wait_room())
        assert await is_waiting(waiting)
        await drained(fifo)


# ── Waiting until all is processed ───────────────────────────────────────────


@pytest.mark.parametrize("fill", [lambda fifo: fifo.add(WEB.at(1)), lambda fifo: fifo.reached("7")])
async def test_wait_processed_waits_for_processing_and_not_for_a_take(
    fill: Callable[[DeltaFIFO], None],
) -> None:
    fifo = DeltaFIFO(store())
    fill(fifo)
    stored = asyncio.Event()

    async def process(*_: object) -> None:
        await stored.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fifo.drain(process))
        waiting = tasks.create_task(fifo.wait_processed())
        assert await is_waiting(waiting)
        stored.set()


# ── Closing ──────────────────────────────────────────────────────────────────


async def test_a_closed_queue_drains_and_then_ends_its_waiters() -> None:
    fifo = DeltaFIFO(store())
    fifo.add(WEB.at(1))
    fifo.close()

    assert len((await drained(fifo)).deltas) == 1
    for take in (popped, drained):
        with pytest.raises(FifoClosed):
            await take(fifo)
    with pytest.raises(FifoClosed):
        fifo.add(DB.at(2))


async def test_closing_ends_those_who_wait_already() -> None:
    fifo = DeltaFIFO(store())
    full = DeltaFIFO(store(DB.key), max_deltas=1)
    full.add(WEB.at(1))
    async with asyncio.TaskGroup() as tasks:
        waiters = [
            tasks.create_task(_ends_with_fifo_closed(waits))
            for waits in (popped(fifo), drained(fifo), full.wait_room(), full.resync())
        ]
        for waiter in waiters:
            assert await is_waiting(waiter)
        fifo.close()
        full.close()


async def _ends_with_fifo_closed(waits: Awaitable[object]) -> None:
    with pytest.raises(FifoClosed):
        await waits


# ── Another history ──────────────────────────────────────────────────────────


async def test_a_contradicting_list_gives_no_version_before_its_epoch() -> None:
    fifo = DeltaFIFO(store(), position="7", resumed=True)
    fifo.begin_replace()
    fifo.replaced([WEB.at(5)])
    fifo.contradict()
    await fifo.end_replace("9")
    assert (await drained(fifo)).position is None
    fifo.reached("10")
    assert (await drained(fifo)).position is None

    fifo.restored()
    await fifo.replace([WEB.at(5)], "9")
    assert (await drained(fifo)).position == "9"


async def test_a_suspected_history_lists_under_the_version_it_reached() -> None:
    fifo = DeltaFIFO(store(), position="7", resumed=True)
    fifo.suspected()
    for complete in (False, True, True):
        fifo.begin_replace()
        fifo.replaced([WEB.at(5)])
        await fifo.end_replace("9", complete=complete)

    assert [delta.floor for delta in (await drained(fifo)).deltas] == ["7", "7", None]


# ── Steps behind a list ──────────────────────────────────────────────────────


async def test_a_list_ends_behind_the_deltas_that_are_prepared() -> None:
    """They are neither queued nor known: the list would not find what it lacks."""
    known, recovered = store(), asyncio.Event()

    async def prepare(deltas: Sequence[QueuedDelta], _position: str | None, _span: Span) -> Sequence[QueuedDelta]:
        await recovered.wait()
        return deltas

    async def process(deltas: Sequence[QueuedDelta], _position: str | None) -> None:
        known.update(dict.fromkeys(delta.key for delta in deltas))

    fifo = DeltaFIFO(known, resumed=True, prepare=prepare)
    async with asyncio.TaskGroup() as tasks:
        fifo.happened([(EventType.ADDED, WEB.at(3))])
        fifo.begin_replace()
        fifo.replaced([DB.at(4)])
        tasks.create_task(fifo.drain(process))
        await asyncio.sleep(1)
        assert fifo.drained_through == 0
        ending = tasks.create_task(fifo.end_replace("5"))
        assert await is_waiting(ending)
        recovered.set()
        await ending

    assert summary((await drained(fifo)).deltas) == [("Deleted", WEB.key, None)]


async def test_a_batch_without_a_list_is_not_prepared() -> None:
    fifo = DeltaFIFO(store(), resumed=True, prepare=fails)
    fifo.happened([(EventType.ADDED, WEB.at(3))], "3")

    assert (await drained(fifo)).position == "3"


async def test_deltas_whose_preparation_fails_return_to_the_queue() -> None:
    fifo = DeltaFIFO(store(WEB.key), resumed=True, prepare=fails)
    await fifo.replace([], "5")
    for _ in range(2):
        with pytest.raises(DiskFull):
            await drained(fifo)
        assert len(fifo) == 1
