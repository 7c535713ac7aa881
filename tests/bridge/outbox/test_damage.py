"""A damaged database is moved aside, once, and everything is exported again behind a Gap."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

from bridge.model.change import Evidence
from bridge.model.policies import StartPolicy
from bridge.model.record import Gap
from bridge.outbox import Outbox, Retention, look_at, opening
from bridge.outbox.errors import Damaged
from bridge.outbox.storage.database import PAGE_BYTES, connect_file, understood
from bridge.outbox.storage.directory_lock import FILE
from bridge.outbox.storage.state_directory import StateDirectory
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.outbox import OutboxRebuilt
from tests.bridge.outbox.opened import Taker, alter, crashed, everything, opened, rows_of, story
from tests.kit.informed import Informed
from tests.kit.pipelines import replay
from tests.kit.records import DEPLOYMENTS

TWO = {"audit": StartPolicy.SNAPSHOT, "live": StartPolicy.NOW}
MIDDLE = 28 * PAGE_BYTES


async def filled(directory: Path, objects: int = 200) -> None:
    """Some 600 KB of records and objects, all of it in the one file."""
    async with opened(directory, TWO) as outbox:
        informer = await Informed(padding=20).begin(outbox)
        for start in range(0, objects, 50):
            await informer.exports(outbox, *(f"added shop/web-{number}" for number in range(start, start + 50)))


def overwrite(file: Path, start: int, length: int) -> None:
    with file.open("r+b") as content:
        content.seek(start)
        content.write(os.urandom(length))


def overwrite_table(directory: Path, table: str) -> None:
    for (page,) in rows_of(directory, f"SELECT rootpage FROM sqlite_schema WHERE tbl_name = '{table}'"):
        overwrite(directory / FILE, (int(str(page)) - 1) * PAGE_BYTES, PAGE_BYTES)


async def rebuilt(directory: Path, sinks: dict[str, StartPolicy] = TWO) -> list[Fact]:
    """Open it, and see that it begins anew."""
    facts: list[Fact] = []
    async with opened(directory, sinks, facts=facts) as outbox:
        [gap] = await everything(outbox)
        assert isinstance(gap, Gap)
        assert gap.count is None
        assert {cursor.sink: cursor.settled for cursor in outbox.sinks.all} == dict.fromkeys(sinks, gap.sequence - 1)
        assert (await outbox.check()).problems == []
    return facts


async def runs_at_the_second_start(directory: Path) -> None:
    """Damage is noticed when it is opened, or at the first look at it; then the next start begins anew."""
    for _ in range(2):
        with suppress(Damaged):
            async with opened(directory, TWO) as outbox:
                informer = await Informed().begin(outbox)
                await everything(outbox)
                for known in informer.known.values():
                    outbox.body(known.state)  # type: ignore[arg-type]
                [new] = await informer.exports(
                    outbox, f"{'updated' if 'shop/new' in informer.known else 'added'} shop/new"
                )
                assert outbox.body(new.sequence) == new.body
                return
    pytest.fail("it is still damaged")


def spoil(directory: Path) -> None:
    (directory / FILE).write_bytes(os.urandom(50_000))


def asides(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir() if "aside" in each.name)


async def test_what_is_no_database_is_moved_aside_once(tmp_path: Path) -> None:
    spoil(tmp_path)

    facts = await rebuilt(tmp_path)

    [fact] = [fact for fact in facts if isinstance(fact, OutboxRebuilt)]
    assert "not a database" in fact.reason
    facts.clear()
    async with opened(tmp_path, TWO, facts=facts):
        assert not [fact for fact in facts if isinstance(fact, OutboxRebuilt)]
    [aside] = asides(tmp_path)
    assert str(tmp_path / aside) == fact.aside
    assert len((tmp_path / aside).read_bytes()) == 50_000


@pytest.mark.parametrize("page", [*range(12), 20, 40, 60])
async def test_a_page_of_rubbish_anywhere_ends_in_a_working_database(tmp_path: Path, page: int) -> None:
    await filled(tmp_path)
    overwrite(tmp_path / FILE, page * PAGE_BYTES, PAGE_BYTES)
    await runs_at_the_second_start(tmp_path)


@pytest.mark.parametrize("size", [0, 1, 100, 5000, PAGE_BYTES, 3 * PAGE_BYTES, MIDDLE, MIDDLE + 77])
async def test_a_file_that_was_cut_off_ends_in_a_database_that_works(tmp_path: Path, size: int) -> None:
    await filled(tmp_path)
    os.truncate(tmp_path / FILE, size)
    await runs_at_the_second_start(tmp_path)
    async with opened(tmp_path, TWO) as outbox:
        assert story(await everything(outbox)) == ["gap", "added shop/new"]
        assert outbox.first > 200
        assert (await outbox.check()).problems == []


async def test_without_its_write_ahead_log_it_is_opened_or_begins_anew(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/web")
        left = crashed(tmp_path, tmp_path / "left")
    (left / f"{FILE}-wal").unlink()

    async with opened(left) as outbox:
        assert (await outbox.check()).problems == []
        await (await Informed().begin(outbox)).exports(outbox, "added shop/web")


@pytest.mark.parametrize("harm", ["UPDATE log SET body = x'00112233'", "DELETE FROM log"])
async def test_damage_that_is_met_later_is_noted_for_the_next_start(tmp_path: Path, harm: str) -> None:
    await filled(tmp_path)
    alter(tmp_path, f"{harm} WHERE seq = 100")

    async with opened(tmp_path, TWO) as outbox:
        with pytest.raises(Damaged, match="record 100"):
            outbox.body(100)
    facts = await rebuilt(tmp_path)

    assert any("record 100" in fact.reason for fact in facts if isinstance(fact, OutboxRebuilt))
    async with opened(tmp_path, TWO) as outbox:
        assert outbox.last > 200, "numbers are not used again"


async def test_damage_met_in_a_transaction_ends_this_outbox_alone(tmp_path: Path) -> None:
    await filled(tmp_path)
    with pytest.raises(Damaged):  # noqa: PT012  # it is raised again at the end
        async with opened(tmp_path, TWO) as outbox:
            informer = await Informed().begin(outbox)
            await informer.exports(outbox, "updated shop/web-0")
            for sink in TWO:
                outbox.sinks[sink].settle(outbox.last)
            overwrite_table(tmp_path, "backfill_items")
            with pytest.raises(Damaged):
                await outbox.maintain()
            with pytest.raises(Damaged):
                await informer.exports(outbox, "updated shop/web-1")
    await rebuilt(tmp_path)


async def test_damage_met_by_a_look_at_the_files_is_known_as_such(tmp_path: Path) -> None:
    await filled(tmp_path)
    overwrite_table(tmp_path, "resources")
    with pytest.raises(Damaged), look_at(tmp_path) as look:  # noqa: PT012  # it is raised at the end of the look
        assert look is not None
        look.resources()


def test_a_full_disk_within_a_transaction_is_known_as_such(tmp_path: Path) -> None:
    with closing(connect_file(tmp_path / "x.db", apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.pragma("max_page_count", 4)
        with pytest.raises(apsw.FullError), understood(), connection:  # noqa: PT012  # raised at the end
            connection.execute("INSERT INTO t VALUES (1)")
            connection.execute("INSERT INTO t VALUES (randomblob(100000))")


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE log SET time = 'yesterday' WHERE seq = 7",
        "DELETE FROM meta",
        "DROP TABLE meta",
        "DROP TABLE dead_letters",
        "UPDATE cursors SET backfill = 'unknown'",
        "UPDATE meta SET last = 9223372036854775807",
    ],
)
async def test_contents_without_meaning_are_damage_and_no_crash_loop(tmp_path: Path, harm: str) -> None:
    await filled(tmp_path)
    alter(tmp_path, harm)
    await runs_at_the_second_start(tmp_path)


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE dictionaries SET content = x'00'",
        "UPDATE dictionaries SET content = zeroblob(length(content))",
        "UPDATE dictionaries SET content = substr(content, 1, length(content) / 2)",
        "UPDATE dictionaries SET content = CAST(substr(content, 1, 8) || hex(randomblob(20000)) AS BLOB)",
        "UPDATE dictionaries SET content = CAST(substr(content, 1, 300) || hex(zeroblob(20000)) AS BLOB)",
        "UPDATE dictionaries SET number = number + 1",
        "DELETE FROM dictionaries",
    ],
)
async def test_a_damaged_dictionary_is_damage_and_no_crash_loop(tmp_path: Path, harm: str) -> None:
    async with opened(tmp_path, TWO) as outbox:
        informer = await Informed(padding=2000).begin(outbox)
        for start in range(0, 1000, 200):
            await informer.exports(outbox, *(f"added shop/web-{number}" for number in range(start, start + 200)))
            await outbox.maintain()
        await informer.exports(outbox, "updated shop/web-1")
    assert rows_of(tmp_path, "SELECT count(*) FROM dictionaries") == [(1,)]
    alter(tmp_path, harm)
    await runs_at_the_second_start(tmp_path)
    async with opened(tmp_path, TWO) as outbox:
        assert (await outbox.check()).problems == []


async def test_every_sink_gets_the_gap_and_first_lists_as_sync(tmp_path: Path) -> None:
    spoil(tmp_path)

    async with opened(tmp_path, TWO) as outbox:
        informer = await listed(outbox)
        await informer.exports(outbox, "added shop/a", position=None)
        left = crashed(tmp_path, tmp_path / "left")
        await informer.exports(outbox, "added shop/b")
        await informer.exports(outbox, "added shop/c", "updated shop/a")
        later = await Informed(DEPLOYMENTS, evidence=Evidence.LISTED).begin(outbox)
        await later.exports(outbox, "added shop/d")

        changes = ["added shop/c", "updated shop/a", "added shop/d"]
        assert story(await everything(outbox)) == ["gap", "sync shop/a", "sync shop/b", *changes]
    async with opened(left, TWO) as outbox:
        await (await listed(outbox)).exports(outbox, "added shop/b")
        assert story(await everything(outbox)) == ["gap", "sync shop/a", "sync shop/b"]


async def listed(outbox: Outbox) -> Informed:
    return await Informed(evidence=Evidence.LISTED).begin(outbox)


async def test_a_gap_settled_before_any_list_is_still_followed_by_sync(tmp_path: Path) -> None:
    spoil(tmp_path)

    async with opened(tmp_path, TWO) as outbox:
        for sink in TWO:
            outbox.sinks[sink].settle(outbox.last)
        await outbox.maintain()
        informer = await listed(outbox)
        await informer.exports(outbox, "added shop/a")

        assert story(await everything(outbox)) == ["sync shop/a"]


async def test_a_gap_survives_compaction_and_a_replay(tmp_path: Path) -> None:
    spoil(tmp_path)

    async with opened(tmp_path, TWO, retention=Retention(retain_bytes=1 << 30)) as outbox:
        compacted, dropped = Taker(outbox, "audit"), Taker(outbox, "live")
        informer = await listed(outbox)
        await informer.exports(outbox, "added shop/a", "updated shop/a", "added shop/b")
        [gap, *_] = await everything(outbox)
        await compacted.feed.compact()
        await dropped.feed.drop(outbox.last - 1)

        found = await compacted.rest()
        assert found[0] == gap
        assert story(found) == ["gap", "updated shop/a", "sync shop/b"]
        found = await dropped.rest()
        assert found[0] == gap
        assert story(found) == ["gap", "gap", "sync shop/b"]
        await replay(outbox, compacted.feed, 0)
        assert (await compacted.rest())[0].sequence == gap.sequence


async def test_an_empty_first_list_ends_the_rebuilding_of_its_informer(tmp_path: Path) -> None:
    spoil(tmp_path)
    async with opened(tmp_path, TWO) as outbox:
        informer = await listed(outbox)
        await informer.exports(outbox)
        await outbox.maintain()
    async with opened(tmp_path, TWO) as outbox:
        await (await listed(outbox)).exports(outbox, "added shop/a")

        assert story(await everything(outbox)) == ["gap", "added shop/a"]


async def test_the_gap_waits_for_sinks_that_hear_of_it_later(tmp_path: Path) -> None:
    spoil(tmp_path)
    async with opened(tmp_path, TWO) as outbox:
        outbox.sinks["audit"].settle(outbox.last)
        await outbox.maintain()
    async with opened(tmp_path, TWO) as outbox:
        assert story((await outbox.read(outbox.sinks["live"].settled, 10)).items) == ["gap"]
        assert outbox.sinks.backlog_records("audit") == 0


async def test_damage_is_reported_where_the_marker_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    await filled(tmp_path)
    with pytest.raises(Damaged):  # noqa: PT012  # it is raised again at the end
        async with opened(tmp_path, TWO) as outbox:
            informer = await Informed().begin(outbox)
            await informer.exports(outbox, "updated shop/web-0")
            for sink in TWO:
                outbox.sinks[sink].settle(outbox.last)
            overwrite_table(tmp_path, "backfill_items")
            monkeypatch.setattr("bridge.outbox.storage.state_directory.open_private", no_room)
            with pytest.raises(Damaged):
                await outbox.maintain()


@pytest.mark.parametrize("after", ["move_aside", "open_writer", "begin_anew"])
async def test_a_crash_while_damage_is_replaced_does_not_hide_it(
    tmp_path: Path, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(tmp_path, objects=50)
    (tmp_path / FILE).write_bytes(b"no database at all" * 1000)
    where: object = StateDirectory if after == "move_aside" else opening
    done = getattr(where, after)

    def die_after(*given: object, **named: object) -> None:
        done(*given, **named)
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(where, after, die_after)
        with pytest.raises(Killed):
            await Outbox.open(tmp_path, TWO, report=lambda _: None)

    await rebuilt(tmp_path)
    facts: list[Fact] = []
    async with opened(tmp_path, TWO, facts=facts):
        assert not [fact for fact in facts if isinstance(fact, OutboxRebuilt)], "once"


async def test_a_crash_behind_the_making_of_the_new_database_uses_no_epoch_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(tmp_path, objects=50)
    alter(tmp_path, "UPDATE meta SET epoch = 7")
    directory = StateDirectory(tmp_path)
    directory.mark_damaged("a mark without numbers, as a start leaves it that finds damage")
    directory.release()

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(opening, "begin_anew", die)
        with pytest.raises(Killed):
            await Outbox.open(tmp_path, TWO, report=lambda _: None)

    await rebuilt(tmp_path)
    [(epoch,)] = rows_of(tmp_path, "SELECT epoch FROM meta")
    assert int(str(epoch)) > 7


async def test_numbers_grow_and_the_last_database_aside_stays_whatever_is_readable(tmp_path: Path) -> None:
    last = 0
    for content in (b"first", b"second", b"third"):
        (tmp_path / FILE).write_bytes(content * 1000)
        (tmp_path / f"{FILE}-wal").unlink(missing_ok=True)
        await rebuilt(tmp_path)
        async with opened(tmp_path, TWO) as outbox:
            assert outbox.last > last
            last = outbox.last

    [aside] = asides(tmp_path)
    assert (tmp_path / aside).read_bytes().startswith(b"third")


class Killed(BaseException):
    """In place of a signal."""
