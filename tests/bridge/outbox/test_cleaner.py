"""The log cleaner removes records that no sink and no object needs, in bulk, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, Snapshot
from bridge.model.resource import Scope
from bridge.outbox import Outbox, Retention
from bridge.outbox.log import cleaner
from bridge.outbox.log.cleaner import CleanerPolicy, LogCleaner
from bridge.outbox.storage.database import open_writer
from bridge.outbox.storage.directory_lock import FILE
from tests.bridge.outbox.opened import AUDIT, EAGER, crashed, everything, opened, rows_of, story
from tests.kit.informed import Informed
from tests.kit.records import PODS

LOG = "SELECT seq FROM log ORDER BY seq"
LEDGER = "SELECT seq FROM ledger ORDER BY seq"
PINNED = "SELECT seq FROM pinned ORDER BY seq"
NEVER = CleanerPolicy(min_bytes=1 << 60)
SMALL_STEPS = CleanerPolicy(range_records=4, examined=2, removed=1)


async def a_day(outbox: Outbox) -> Informed:
    """Eight records: 2 and 4 are the last states of ``b`` and ``a``; ``c`` and ``d`` came and went."""
    informer = await Informed().begin(outbox)
    await informer.exports(outbox, "added shop/a", "added shop/b", "added shop/c")
    await informer.exports(outbox, "updated shop/a", "sync shop/b", "deleted shop/c")
    await informer.exports(outbox, "added shop/d", "deleted shop/d")
    return informer


def seqs(directory: Path, query: str) -> list[object]:
    return [row[0] for row in rows_of(directory, query)]


# ── Records that stay ────────────────────────────────────────────────────────


async def test_what_a_sink_has_not_settled_stays_whatever_was_replaced(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await a_day(outbox)
        outbox.sinks["audit"].settle(4)
        await outbox.maintain()
        assert seqs(tmp_path, LOG) == [2, 3, 4, 5, 6, 7, 8], "that 6 replaces 3 is not settled"
        outbox.sinks["audit"].settle(5)
        await outbox.maintain()
        assert seqs(tmp_path, LOG) == [2, 3, 4, 6, 7, 8]
        assert (await outbox.check()).problems == []


async def test_the_last_states_stay_and_nothing_else_in_log_and_ledger(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await a_day(outbox)
        outbox.sinks["audit"].settle(8)
        await outbox.maintain()
        assert seqs(tmp_path, LOG) == seqs(tmp_path, LEDGER) == [2, 4]
        await informer.exports(outbox, "updated shop/b")
        outbox.sinks["audit"].settle(9)
        await outbox.maintain()
        assert seqs(tmp_path, LOG) == seqs(tmp_path, LEDGER) == [4, 9]
        await informer.exports(outbox, "deleted shop/a", "added shop/a", "updated shop/a")
        outbox.sinks["audit"].settle(12)
        await outbox.maintain()
        assert seqs(tmp_path, LOG) == seqs(tmp_path, LEDGER) == [9, 12], "also of changes in one batch"
        await informer.exports(outbox, "deleted shop/a", "deleted shop/b")
        outbox.sinks["audit"].settle(14)
        await outbox.maintain()
        assert seqs(tmp_path, LOG) == seqs(tmp_path, LEDGER) == []
        assert (await outbox.check()).problems == []


# ── When ─────────────────────────────────────────────────────────────────────


async def test_it_waits_until_as_much_can_go_as_there_are_objects(tmp_path: Path) -> None:
    async with opened(tmp_path, {}, cleaner_policy=CleanerPolicy(min_bytes=0, min_ratio=1.0)) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, *(f"added shop/{number}" for number in range(10)))
        await outbox.maintain()
        for changes in range(1, 10):
            await informer.exports(outbox, "updated shop/0")
            await outbox.maintain()
            assert len(seqs(tmp_path, LOG)) == 10 + changes
        await informer.exports(outbox, "updated shop/0")
        await outbox.maintain()
        assert len(seqs(tmp_path, LOG)) == 10


async def test_it_waits_until_it_is_worth_it(tmp_path: Path) -> None:
    async with opened(tmp_path, {}, cleaner_policy=CleanerPolicy(min_bytes=4 * 400, min_ratio=0.0)) as outbox:
        informer = await Informed().begin(outbox)
        kept = []
        for step in ("added", "updated", "updated", "updated", "updated", "updated"):
            await informer.exports(outbox, f"{step} shop/a")
            await outbox.maintain()
            kept.append(len(seqs(tmp_path, LOG)))
        assert kept == [1, 2, 3, 4, 1, 2], "a record takes some 400 bytes"


async def test_appends_during_a_trim_do_not_hide_its_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = CleanerPolicy(min_bytes=1, min_ratio=0.0)
    async with opened(tmp_path, {}, cleaner_policy=policy) as outbox:
        informer = await a_day(outbox)
        write = outbox._store.write

        async def write_behind_an_append(work: Any, **options: Any) -> Any:
            if getattr(work, "func", None) is cleaner.trim:
                monkeypatch.undo()
                await informer.exports(outbox, *(f"added shop/e{number}" for number in range(200)))
            return await write(work, **options)

        monkeypatch.setattr(outbox._store, "write", write_behind_an_append)
        await outbox.maintain()
        assert seqs(tmp_path, LOG)[:3] == [2, 4, 9]


async def test_what_could_have_gone_before_a_start_counts_after_it(tmp_path: Path) -> None:
    async with opened(tmp_path, {}, cleaner_policy=NEVER) as outbox:
        await a_day(outbox)
        await outbox.maintain()
    async with opened(tmp_path, {}, cleaner_policy=CleanerPolicy(min_bytes=4096, min_ratio=1.0)) as outbox:
        await outbox.maintain()
        assert seqs(tmp_path, LOG) == [2, 4], "with not one change since"


async def test_what_is_retained_is_not_waited_for(tmp_path: Path) -> None:
    retention = Retention(retain_bytes=5_000)
    async with opened(
        tmp_path, {}, retention=retention, cleaner_policy=CleanerPolicy(min_bytes=0, min_ratio=1.0)
    ) as outbox:
        informer = await Informed(padding=50).begin(outbox)
        await informer.exports(outbox, "added shop/a", "added shop/b")
        for _ in range(200):
            await informer.exports(outbox, "updated shop/a")
            await outbox.maintain()
            assert len(seqs(tmp_path, LOG)) <= outbox.records + 2 + 3, "at most twice the records of the ledger"
        assert 20 < outbox.records < 150


# ── Backfills ──────────────────────────────────────────────────────────────────


async def test_records_of_a_backfill_leave_after_it(tmp_path: Path) -> None:
    async with opened(tmp_path, {}) as outbox:
        informer = await a_day(outbox)
        await outbox.maintain()
    async with opened(tmp_path, {"late": StartPolicy.SNAPSHOT}) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "updated shop/a", "deleted shop/b", "added shop/e", "updated shop/e")
        outbox.sinks["late"].settle(12)
        await outbox.maintain()
        assert seqs(tmp_path, LOG) == [2, 4, 9, 12]
        assert seqs(tmp_path, PINNED) == [2, 4]
        assert (await outbox.check()).problems == []
        left = crashed(tmp_path, tmp_path / "left")
    async with opened(left, {"late": StartPolicy.SNAPSHOT}) as outbox:
        records, item = await outbox.sinks.read_backfill("late", 100)
        assert story(records) == ["snapshot", "added shop/b", "added shop/a", "snapshot"]
        assert isinstance(records[0], Snapshot)
        assert records[0].count == 2
        outbox.sinks["late"].settle_backfill(item)
        outbox.sinks.end_backfill("late")
        await outbox.maintain()
        assert seqs(left, LOG) == seqs(left, LEDGER) == [9, 12]
        assert seqs(left, PINNED) == []
        assert (await outbox.check()).problems == []


async def all_received(outbox: Outbox, sink: str) -> list[str]:
    records, item = await outbox.sinks.read_backfill(sink, 100)
    outbox.sinks[sink].settle_backfill(item)
    outbox.sinks.end_backfill(sink)
    return story(records)


@pytest.mark.parametrize("slow", [StartPolicy.SNAPSHOT, StartPolicy.NOW])
async def test_a_compacted_state_is_garbage_when_its_successor_is_gone(tmp_path: Path, slow: StartPolicy) -> None:
    """A sink may have received the ``added`` of ``b`` before the restart, so compaction keeps it."""
    live = {"live": StartPolicy.NOW}
    sinks = live | {"slow": slow}

    async def live_goes_on(outbox: Outbox) -> None:
        outbox.sinks["live"].settle(outbox.last)
        await outbox.maintain()

    async with opened(tmp_path, live if slow is StartPolicy.SNAPSHOT else sinks) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "added shop/b")
        await live_goes_on(outbox)
    async with opened(tmp_path, sinks) as outbox:
        informer = await Informed().begin(outbox)
        for steps in (["updated shop/a", "updated shop/b"], ["updated shop/a", "updated shop/b"], ["deleted shop/b"]):
            await informer.exports(outbox, *steps)
            await live_goes_on(outbox)
            await outbox.sinks.compact("slow", outbox.sinks["slow"].settled, outbox.last_at_start)
            await live_goes_on(outbox)
            assert (await outbox.check()).problems == []
            assert (await outbox.check()).objects == len(informer.known)
        assert seqs(tmp_path, PINNED) == [1, 2, 7]
        newest = informer.known["shop/a"]
    async with opened(tmp_path, {**sinks, "third": StartPolicy.SNAPSHOT}) as outbox:
        assert dict((await Informed().begin(outbox)).known) == {"shop/a": newest}
        assert await all_received(outbox, "third") == ["snapshot", "added shop/a", "snapshot"]
        assert "deleted shop/b" in await all_received(outbox, "slow")
        await live_goes_on(outbox)
        assert seqs(tmp_path, LOG) == seqs(tmp_path, LEDGER) == [newest.state]
        assert seqs(tmp_path, PINNED) == []
        assert (await outbox.check()).problems == []


# ── A crash ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("steps", range(1, 9))
async def test_a_clearing_that_a_crash_cuts_short_is_done_again(tmp_path: Path, steps: int) -> None:
    async with opened(tmp_path, {}, cleaner_policy=NEVER) as outbox:
        await a_day(outbox)
        await outbox.maintain()
        for _ in range(steps):
            assert await outbox._store.write(LogCleaner(SMALL_STEPS))
        left = crashed(tmp_path, tmp_path / "left")
        assert (await outbox.check()).problems == []
    async with opened(left, {}, cleaner_policy=EAGER) as outbox:
        assert (await outbox.check()).problems == []
        again = await Informed().begin(outbox)
        assert sorted(again.known) == ["shop/a", "shop/b"]
        await outbox.maintain()
        assert seqs(left, LOG) == seqs(left, LEDGER) == [2, 4]
        assert rows_of(left, "SELECT cleaner_checkpoint, log_start FROM meta") == [(9, 9)]


@pytest.fixture
async def uncleared(tmp_path: Path) -> Path:
    """The files of a crash: eight records, all settled, and no pass of the log cleaner yet."""
    async with opened(tmp_path, {}, cleaner_policy=NEVER) as outbox:
        await a_day(outbox)
        await outbox.maintain()
        return crashed(tmp_path, tmp_path / "left")


def test_a_step_that_is_rolled_back_has_not_happened(uncleared: Path) -> None:
    database = open_writer(uncleared / FILE)
    cleaner.prepare(database)
    more = True
    while more:
        database.execute("BEGIN IMMEDIATE")
        LogCleaner(SMALL_STEPS)(database)
        database.execute("ROLLBACK")
        with database:
            more = LogCleaner(SMALL_STEPS)(database)
    assert [row[0] for row in database.execute(LOG)] == [2, 4]
    database.close()


def test_without_room_for_a_cleaning_half_as_much_is_cleaned(uncleared: Path) -> None:
    database = open_writer(uncleared / FILE)
    cleaner.prepare(database)
    clear, left = LogCleaner(CleanerPolicy(removed=4)), []
    with database:
        clear.was_done(clear(database))
    for _ in range(3):
        database.execute("BEGIN IMMEDIATE")
        clear(database)
        left.append(8 - _count(database))
        database.execute("ROLLBACK")
    for _ in range(3):
        with database:
            clear.was_done(clear(database))
        left.append(8 - _count(database))
    database.close()
    assert left == [4, 2, 1, 1, 3, 6], "where there was room, twice as many are tried"


def _count(database: apsw.Connection) -> int:
    [(count,)] = database.execute("SELECT count(*) FROM log")
    assert isinstance(count, int)
    return count


# ── Who needs the ledger ─────────────────────────────────────────────────────


async def test_a_snapshot_and_deletes_before_cleaning_have_each_object_once(tmp_path: Path) -> None:
    async with opened(tmp_path, cleaner_policy=NEVER) as outbox:
        await a_day(outbox)
        left = crashed(tmp_path, tmp_path / "left")
        _, number = await outbox.ledger.adopt(PODS, [Scope("prod")])
        *_, first, second = await everything(outbox)
        assert (number, story([first, second])) == (2, ["deleted shop/b", "deleted shop/a"])
        assert isinstance(second, Delta)
        assert second.body == outbox.body(4)
        assert (await outbox.check()).problems == []
    async with opened(left, {**AUDIT, "late": StartPolicy.SNAPSHOT}) as outbox:
        records, _ = await outbox.sinks.read_backfill("late", 100)
    assert story(records) == ["snapshot", "added shop/b", "added shop/a", "snapshot"]


async def test_objects_that_change_hands_go_on_from_their_last_states(tmp_path: Path) -> None:
    everywhere, shop = Scope(), Scope("shop")
    async with opened(tmp_path, cleaner_policy=NEVER) as outbox:
        await a_day(outbox)
        found, left = await outbox.ledger.adopt(PODS, [shop])
        assert left == 0
        checkpoint = found[shop]
        assert checkpoint is not None
        assert sorted(checkpoint.objects) == ["shop/a", "shop/b"]
        await Informed(scope=shop, known=dict(checkpoint.objects)).exports(outbox, "updated shop/b")
        found, _ = await outbox.ledger.adopt(PODS, [everywhere])
        checkpoint = found[everywhere]
        assert checkpoint is not None
        assert sorted((key, known.state) for key, known in checkpoint.objects.items()) == [("shop/a", 4), ("shop/b", 9)]
        assert (await outbox.check()).problems == []
