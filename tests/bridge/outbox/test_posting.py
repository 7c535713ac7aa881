"""The ledger follows the log: later, out of the log alone, and before anybody needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from bridge.model.record import Delta, Snapshot
from bridge.model.resource import Scope
from bridge.outbox import Outbox, Start, posting
from bridge.outbox.database import FILE, open_writer
from bridge.outbox.posting import Post, Rhythm
from tests.bridge.outbox.opened import AUDIT, crashed, everything, opened, rows_of, story
from tests.kit.informed import PODS, Informed

LEDGER = "SELECT kind, key, informer, uid, version, seq FROM objects"
LOG = "SELECT seq FROM log"
BUSY = Rhythm(few=0, many=5, cleared=5, part=0.0)
"""A load at which posting waits until there is something to be posted."""
NEVER = Rhythm(few=0, many=1 << 40, cleared=1 << 40)


async def a_day(outbox: Outbox) -> Informed:
    """Eight records: of ``a`` and ``b`` last states are left, ``c`` and ``d`` came and went."""
    informer = await Informed().begin(outbox)
    await informer.tells(outbox, "added shop/a", "added shop/b", "added shop/c")
    await informer.tells(outbox, "updated shop/a", "sync shop/b", "deleted shop/c")
    await informer.tells(outbox, "added shop/d", "deleted shop/d")
    return informer


# ── When ─────────────────────────────────────────────────────────────────────


async def test_few_changes_are_posted_with_the_next_tick(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await a_day(outbox)
        assert rows_of(tmp_path, LEDGER) == []
        await outbox.tidy()
        assert [row[1] for row in rows_of(tmp_path, LEDGER)] == ["shop/a", "shop/b"]


async def test_under_load_they_are_posted_once_there_are_many(tmp_path: Path) -> None:
    async with opened(tmp_path, rhythm=BUSY) as outbox:
        informer = await Informed().begin(outbox)
        for number in range(4):
            await informer.tells(outbox, f"added shop/{number}")
            await outbox.tidy()
        assert rows_of(tmp_path, LEDGER) == []
        await informer.tells(outbox, "added shop/4")
        await outbox.tidy()
        assert len(rows_of(tmp_path, LEDGER)) == 5


async def test_a_load_that_ends_leaves_nothing_to_be_posted(tmp_path: Path) -> None:
    async with opened(tmp_path, rhythm=Rhythm(few=2, many=100)) as outbox:
        await a_day(outbox)
        await outbox.tidy()
        assert rows_of(tmp_path, LEDGER) == []
        await outbox.tidy()
        assert len(rows_of(tmp_path, LEDGER)) == 2


async def test_at_the_end_everything_is_posted(tmp_path: Path) -> None:
    async with opened(tmp_path, rhythm=NEVER) as outbox:
        await a_day(outbox)
    assert rows_of(tmp_path, "SELECT posted, last FROM meta") == [(8, 8)]
    assert len(rows_of(tmp_path, LEDGER)) == 2


# ── A crash ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("posted_before", [0, 1, 2])
async def test_after_a_crash_before_posting_the_next_start_knows_what_a_posted_one_would(
    tmp_path: Path, posted_before: int
) -> None:
    async with opened(tmp_path, rhythm=NEVER) as outbox:
        informer = await Informed().begin(outbox)
        for number in range(3):
            await informer.tells(outbox, f"added shop/{number}", "added shop/a", position="100")
            await informer.tells(outbox, "updated shop/a", "deleted shop/a", position="200")
            if number < posted_before:
                await outbox._store.write(Post(3))
        left = crashed(tmp_path, tmp_path / "left")
        assert rows_of(left, "SELECT posted, last FROM meta") == [(3 * posted_before, 12)]
    async with opened(left) as outbox:
        assert (await outbox.check()).problems == []
        assert outbox.last == 12
    for query in (LEDGER, LOG, "SELECT seq FROM superseded", "SELECT posted, trimmed FROM meta"):
        assert rows_of(left, query) == rows_of(tmp_path, query)
    assert [row[1] for row in rows_of(left, LEDGER)] == ["shop/0", "shop/1", "shop/2"]


async def test_a_crash_leaks_no_record(tmp_path: Path) -> None:
    async with opened(tmp_path, rhythm=BUSY) as outbox:
        informer = await a_day(outbox)
        outbox.sinks.settle("audit", outbox.last)
        await outbox.tidy()
        await informer.tells(outbox, "updated shop/a")
        await outbox.tidy()
        left = crashed(tmp_path, tmp_path / "left")
    async with opened(left) as outbox:
        outbox.sinks.settle("audit", outbox.last)
        await outbox.tidy()
        assert outbox.records == 0
    assert rows_of(left, LOG) == [(2,), (9,)], "the last states of a and b"


# ── Who needs the ledger ─────────────────────────────────────────────────────


async def test_a_snapshot_that_is_planned_while_much_is_not_posted_has_every_object(tmp_path: Path) -> None:
    async with opened(tmp_path, rhythm=NEVER) as outbox:
        await a_day(outbox)
        left = crashed(tmp_path, tmp_path / "left")
    async with opened(left, {**AUDIT, "late": Start.SNAPSHOT}) as outbox:
        told, _ = await outbox.sinks.read_errand("late", 100)
    assert story(told) == ["snapshot", "added shop/b", "added shop/a", "snapshot"]
    assert isinstance(told[0], Snapshot)
    assert told[0].count == 2


async def test_an_informer_that_begins_knows_what_is_not_posted(tmp_path: Path) -> None:
    async with opened(tmp_path, rhythm=NEVER) as outbox:
        informer = await a_day(outbox)
        again = await Informed().begin(outbox)
        assert again.known == informer.known


async def test_objects_that_leave_are_told_with_a_state_that_is_not_posted(tmp_path: Path) -> None:
    shop, prod = Scope("shop"), Scope("prod")
    async with opened(tmp_path, rhythm=NEVER) as outbox:
        await outbox.ledger.adopt(PODS, [shop])
        informer = Informed(scope=shop)
        await informer.tells(outbox, "added shop/a", "added shop/b")
        [newest] = await informer.tells(outbox, "updated shop/a")
        _, left = await outbox.ledger.adopt(PODS, [prod])
        *_, first, second = await everything(outbox)
        assert left == 2
        assert story([first, second]) == ["deleted shop/b", "deleted shop/a"]
        assert isinstance(second, Delta)
        assert (second.resource_version, second.body) == (newest.resource_version, newest.body)
        found, left = await outbox.ledger.adopt(PODS, [prod])
        remembered = found[prod]
        assert remembered is not None
        assert (remembered.objects, left) == ([], 0)
        assert (await outbox.check()).problems == []


async def test_objects_that_change_hands_are_those_that_are_not_posted(tmp_path: Path) -> None:
    everywhere, shop = Scope(), Scope("shop")
    async with opened(tmp_path, rhythm=NEVER) as outbox:
        await a_day(outbox)
        found, left = await outbox.ledger.adopt(PODS, [shop])
        assert left == 0
        remembered = found[shop]
        assert remembered is not None
        assert sorted(key for key, _ in remembered.objects) == ["shop/a", "shop/b"]
        await Informed(scope=shop, known=dict(remembered.objects)).tells(outbox, "updated shop/b")
        found, _ = await outbox.ledger.adopt(PODS, [everywhere])
        assert (await outbox.check()).problems == []


async def test_what_a_resource_told_before_it_went_is_posted_before_its_number_goes(tmp_path: Path) -> None:
    async with opened(tmp_path, rhythm=NEVER) as outbox:
        informer = await a_day(outbox)
        await outbox._store.write(posting.post_all)
        async with outbox.ledger.retiring(PODS, Scope()):
            await informer.tells(outbox, "deleted shop/a", "deleted shop/b")
        assert (await outbox.check()).problems == []
        assert rows_of(tmp_path, LEDGER) == []


# ── What leaves ──────────────────────────────────────────────────────────────


async def test_a_trim_stops_at_what_is_posted(tmp_path: Path) -> None:
    async with opened(tmp_path, rhythm=BUSY) as outbox:
        await a_day(outbox)
        outbox.sinks.settle("audit", 8)
        await outbox.tidy()
        assert outbox.records == 0
        informer = await Informed().begin(outbox)
        await informer.tells(outbox, "updated shop/a", "updated shop/a")
        outbox.sinks.settle("audit", 10)
        await outbox.tidy()
        assert (outbox.first, outbox.records) == (9, 2)


async def test_what_is_superseded_leaves_and_the_last_states_stay(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await a_day(outbox)
        await outbox.tidy()
        assert len(rows_of(tmp_path, LOG)) == 8, "a sink has settled none"
        outbox.sinks.settle("audit", 8)
        await outbox.tidy()
        assert rows_of(tmp_path, LOG) == [(2,), (4,)]
        informer = await Informed().begin(outbox)
        await informer.tells(outbox, "updated shop/b")
        await outbox.tidy()
        assert rows_of(tmp_path, LOG) == [(4,), (9,)]
        assert (await outbox.check()).problems == []


async def test_under_load_what_is_superseded_leaves_once_it_is_many(tmp_path: Path) -> None:
    async with opened(tmp_path, {}, rhythm=Rhythm(few=0, many=1, cleared=2, part=2.0)) as outbox:
        await a_day(outbox)
        await outbox.tidy()
        await outbox.tidy()
        assert rows_of(tmp_path, LOG) == [(2,), (4,)]
        informer = await Informed().begin(outbox)
        for left in (3, 4, 5, 2):
            await informer.tells(outbox, "updated shop/a")
            await outbox.tidy()
            assert len(rows_of(tmp_path, LOG)) == left, "two objects: four that are superseded are many"


# ── All or nothing ───────────────────────────────────────────────────────────


@pytest.fixture
async def unposted(tmp_path: Path) -> AsyncIterator[apsw.Connection]:
    """A database with eight records, none of them posted."""
    async with opened(tmp_path, rhythm=NEVER) as outbox:
        await a_day(outbox)
        left = crashed(tmp_path, tmp_path / "left")
    database = open_writer(left / FILE)
    posting.prepare(database)
    yield database
    database.close()


async def test_a_posting_that_is_rolled_back_has_not_happened(unposted: apsw.Connection) -> None:
    for _ in range(2):
        unposted.execute("BEGIN IMMEDIATE")
        assert posting.post_all(unposted) == 8
        unposted.execute("ROLLBACK")
        assert unposted.execute(LEDGER).fetchall() == []
    with unposted:
        posting.post_all(unposted)
    assert [row[1] for row in unposted.execute(LEDGER)] == ["shop/a", "shop/b"]
    assert [row[0] for row in unposted.execute("SELECT seq FROM superseded")] == [1, 3, 5, 6, 7, 8]


async def test_where_there_is_no_room_for_a_posting_a_smaller_one_is_tried(unposted: apsw.Connection) -> None:
    post, reached = Post(4), []
    for _ in range(2):
        unposted.execute("BEGIN IMMEDIATE")
        reached.append(post(unposted))
        unposted.execute("ROLLBACK")
    for _ in range(3):
        with unposted:
            reached.append(post(unposted))
    assert reached == [4, 2, 1, 2, 3]
