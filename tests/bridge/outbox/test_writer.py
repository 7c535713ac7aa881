"""Group commit: in the order of submission, all or nothing, and no caller waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from bridge.model.admin import DiskFull, UnknownTarget
from bridge.outbox.errors import Damaged
from bridge.outbox.storage.database import open_writer
from bridge.outbox.storage.directory_lock import FILE
from bridge.outbox.storage.schema import FORMAT
from bridge.outbox.storage.state_directory import StateDirectory
from bridge.outbox.writer import ROOM_FOR_A_CHANGE, OutboxClosed, Writer
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.outbox import OutboxFull, OutboxHasRoom
from tests.kit.deadlines import BUSY, until

QUICK = 0.01
"""Seconds."""


class Disk(StateDirectory):
    """Says itself how much is free."""

    free = 1 << 40

    def free_bytes(self) -> int:
        return self.free


@pytest.fixture
def facts() -> list[Fact]:
    return []


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@pytest.fixture
async def writer(disk: Disk, facts: list[Fact]) -> AsyncIterator[Writer]:
    writer = Writer(open_writer(disk.file), disk, min_free=1000, report=facts.append, retry=QUICK)
    yield writer
    await writer.close()
    disk.release()


def insert(database: apsw.Connection, name: str) -> str:
    database.execute("INSERT INTO kinds (name) VALUES (?)", (name,))
    return name


def an_insert(name: str) -> Callable[[apsw.Connection], str]:
    return partial(insert, name=name)


def kinds(disk: Disk) -> list[str]:
    connection = apsw.Connection(str(disk.file))
    try:
        return [name for (name,) in connection.execute("SELECT name FROM kinds ORDER BY id")]
    finally:
        connection.close()


async def test_requests_are_done_and_answered_in_their_order(writer: Writer, disk: Disk) -> None:
    reported: list[str] = []
    names = [f"kind-{number}" for number in range(2000)]

    futures = [writer.submit(an_insert(name), committed=reported.append) for name in names]
    results = await asyncio.gather(*futures)

    assert results == reported == names == kinds(disk)


async def test_a_job_is_durable_before_its_hook_and_then_its_future_is_done(writer: Writer, disk: Disk) -> None:
    seen: list[tuple[list[str], bool]] = []
    future = writer.submit(an_insert("pods"), committed=lambda _: seen.append((kinds(disk), future.done())))

    await future

    assert seen == [(["pods"], False)]


async def test_jobs_that_wait_for_a_transaction_share_the_next(writer: Writer, disk: Disk) -> None:
    began, may_end = threading.Event(), threading.Event()

    def hold(_: apsw.Connection) -> None:
        began.set()
        may_end.wait(10 * BUSY)

    running = writer.submit(hold)
    await asyncio.to_thread(began.wait, 10 * BUSY)
    waiting = [writer.submit(an_insert(name)) for name in ("a", "b", "c")]
    seen = writer.submit(lambda _: kinds(disk))
    may_end.set()
    await asyncio.gather(running, *waiting, seen)

    assert seen.result() == [], "another connection sees no row before the commit of the last job"
    assert kinds(disk) == ["a", "b", "c"]


async def test_who_is_cancelled_has_it_done_all_the_same(writer: Writer, disk: Disk) -> None:
    reported: list[str] = []
    futures = [writer.submit(an_insert(name), committed=reported.append) for name in ("a", "b", "c")]
    futures[1].cancel()

    await asyncio.gather(futures[0], futures[2])

    assert reported == kinds(disk) == ["a", "b", "c"]


async def test_a_refusal_is_of_one_alone(writer: Writer, disk: Disk) -> None:
    def refuse(_: apsw.Connection) -> None:
        raise UnknownTarget("no such thing")

    reported: list[object] = []
    first, refused, last = (
        writer.submit(an_insert("a"), committed=reported.append),
        writer.submit(refuse, committed=reported.append),
        writer.submit(an_insert("c"), committed=reported.append),
    )
    with pytest.raises(UnknownTarget, match="no such thing"):
        await refused

    assert [await first, await last] == reported == kinds(disk) == ["a", "c"]


async def test_a_bug_undoes_the_transaction_and_is_reported_to_all(writer: Writer, disk: Disk) -> None:
    def wrong(database: apsw.Connection) -> None:
        insert(database, "half")
        raise ZeroDivisionError

    futures: list[asyncio.Future[Any]] = [
        writer.submit(an_insert("a")),
        writer.submit(wrong),
        writer.submit(an_insert("c")),
    ]

    assert [type(each) for each in await asyncio.gather(*futures, return_exceptions=True)] == [ZeroDivisionError] * 3
    assert kinds(disk) == []
    with pytest.raises(ZeroDivisionError):
        writer.submit(an_insert("later"))


async def test_what_is_asked_for_while_it_breaks_is_answered(writer: Writer) -> None:
    def wrong(_: apsw.Connection) -> None:
        raise ZeroDivisionError

    futures: list[asyncio.Future[Any]] = [writer.submit(wrong)]
    while True:
        try:
            futures.append(writer.submit(an_insert(f"kind-{len(futures)}")))
        except ZeroDivisionError:
            break
    async with asyncio.timeout(5 * BUSY):
        answers = await asyncio.gather(*futures, return_exceptions=True)

    assert {type(each) for each in answers} == {ZeroDivisionError}


async def test_damage_is_noted_for_the_next_start(writer: Writer, disk: Disk) -> None:
    def meet_damage(_: apsw.Connection) -> None:
        raise apsw.CorruptError("a page makes no sense")

    with pytest.raises(Damaged, match="moves it aside"):
        await writer.submit(meet_damage)

    mark = disk.mark()
    assert mark is not None
    assert "a page makes no sense" in mark.reason


async def test_what_was_asked_for_before_closing_is_done(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    writer = Writer(open_writer(disk.file), disk, min_free=0, report=print)
    futures = [writer.submit(an_insert(f"kind-{number}")) for number in range(50)]

    await writer.close()

    assert len(await asyncio.gather(*futures)) == len(kinds(disk)) == 50
    with pytest.raises(OutboxClosed):
        writer.submit(an_insert("later"))
    disk.release()


# ── No room ──────────────────────────────────────────────────────────────────


def fill(database: apsw.Connection) -> None:
    """No page more than there are."""
    database.pragma("max_page_count", 1)


def make_room(database: apsw.Connection) -> None:
    database.pragma("max_page_count", 1 << 30)


def put_much(database: apsw.Connection, name: str = "much") -> str:
    database.execute(
        "INSERT INTO log (seq, op, evidence, kind, resource, key, uid, version, time, epoch, body)"
        " VALUES ((SELECT coalesce(max(seq), 0) + 1 FROM log), '', '', 1, 1, '', '', '', '', 1, zeroblob(100000))"
    )
    return insert(database, name)


async def until_reported(facts: list[Fact], kind: type[Fact]) -> None:
    await until(lambda: any(isinstance(fact, kind) for fact in facts))


async def test_what_finds_no_room_waits_until_there_is_some(writer: Writer, disk: Disk, facts: list[Fact]) -> None:
    await writer.submit(fill)
    reported: list[str] = []
    waiting = [writer.submit(partial(put_much, name=name), committed=reported.append) for name in ("a", "b", "c")]
    await until_reported(facts, OutboxFull)
    assert writer.no_room
    assert kinds(disk) == []

    await writer.submit(make_room, shrinks=True)
    await asyncio.gather(*waiting)

    assert reported == kinds(disk) == ["a", "b", "c"]
    await until_reported(facts, OutboxHasRoom)
    assert [type(fact) for fact in facts] == [OutboxFull, OutboxHasRoom]
    assert not writer.no_room


async def test_what_finds_no_room_is_refused_and_never_done(writer: Writer, disk: Disk, facts: list[Fact]) -> None:
    await writer.submit(put_much)
    await writer.submit(fill)
    with pytest.raises(UnknownTarget, match="the disk of the state is full, nothing changed"):
        await writer.submit(partial(put_much, name="asked"), asked=True)
    assert facts == [], "nothing else waits for room"
    waiting = writer.submit(partial(put_much, name="next"))
    await until_reported(facts, OutboxFull)
    with pytest.raises(UnknownTarget):
        await writer.submit(partial(put_much, name="asked again"), asked=True)

    await writer.submit(lambda database: database.execute("DELETE FROM log"), shrinks=True)
    await waiting
    assert kinds(disk) == ["much", "next"]


async def test_what_an_operator_asks_for_is_done_where_it_fits(writer: Writer, disk: Disk, facts: list[Fact]) -> None:
    disk.free = 0
    waiting = writer.submit(an_insert("pods"))
    await until_reported(facts, OutboxFull)
    assert await writer.submit(an_insert("asked"), asked=True) == "asked"
    disk.free = 1000
    await waiting


@pytest.mark.parametrize("free", [0, ROOM_FOR_A_CHANGE - 1])
async def test_nothing_large_is_begun_without_room(writer: Writer, disk: Disk, facts: list[Fact], free: int) -> None:
    """Before anybody has noticed that the disk is full."""
    disk.free = free
    with pytest.raises(DiskFull, match=rf"full, nothing changed: .* has {free} bytes free"):
        await writer.find_room()
    assert facts == []
    disk.free = ROOM_FOR_A_CHANGE
    await writer.find_room()


async def test_nothing_large_is_begun_while_others_wait_for_room(writer: Writer, disk: Disk, facts: list[Fact]) -> None:
    disk.free = ROOM_FOR_A_CHANGE
    await writer.submit(put_much)
    await writer.submit(fill)
    waiting = writer.submit(partial(put_much, name="more"))
    await until_reported(facts, OutboxFull)
    with pytest.raises(DiskFull, match=r"nothing changed: .*full"):
        await writer.find_room()
    await writer.submit(lambda database: database.execute("DELETE FROM log"), shrinks=True)
    await waiting
    await writer.find_room()


async def test_what_is_to_be_kept_free_is_kept_free(writer: Writer, disk: Disk, facts: list[Fact]) -> None:
    disk.free = 999
    waiting = writer.submit(an_insert("pods"))
    await until_reported(facts, OutboxFull)
    await writer.submit(an_insert("settled"), shrinks=True)

    [full] = facts
    assert isinstance(full, OutboxFull)
    assert "999 bytes free" in full.reason
    assert "min_free_bytes" in full.reason
    disk.free = 1000
    await waiting
    assert kinds(disk) == ["settled", "pods"]


async def test_what_makes_room_is_done_once(writer: Writer, disk: Disk, facts: list[Fact]) -> None:
    """Also where the write-ahead log cannot be taken into the file afterwards."""
    done: list[str] = []

    def count(database: apsw.Connection) -> None:
        done.append("once")

    reader = apsw.Connection(str(disk.file))
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM kinds").fetchall()  # Holds up the checkpoint.
    disk.free = 0
    waiting = writer.submit(an_insert("pods"))
    await until_reported(facts, OutboxFull)
    await writer.submit(count, shrinks=True)
    reader.close()
    disk.free = 1000
    await waiting

    assert done == ["once"]


async def test_closing_without_room_is_quick_and_reports_the_undone(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    facts: list[Fact] = []
    writer = Writer(open_writer(disk.file), disk, min_free=1000, report=facts.append, retry=60)
    await writer.submit(an_insert("before"))
    disk.free = 0
    waiting = writer.submit(an_insert("pods"))
    await until_reported(facts, OutboxFull)
    saving = writer.submit(an_insert("cursors"), shrinks=True)

    async with asyncio.timeout(5 * BUSY):
        await writer.close()

    with pytest.raises(OutboxClosed):
        await waiting
    assert await saving == "cursors"
    assert kinds(disk) == ["before", "cursors"]
    disk.release()


async def test_a_job_right_before_closing_is_not_overlooked(tmp_path: Path) -> None:
    """The writer has looked for jobs that fit, and finds itself closed before it looks again."""
    disk = Disk(tmp_path)
    writer = Writer(open_writer(disk.file), disk, min_free=1000, report=lambda _: None, retry=60)
    looked, closed, look = asyncio.Event(), threading.Event(), writer._make_room

    def look_and_be_closed(group: list[Any]) -> list[Any]:
        left = look(group)
        if not closed.is_set():
            writer._loop.call_soon_threadsafe(looked.set)
            closed.wait(30 * BUSY)
        return left

    writer._make_room = look_and_be_closed  # type: ignore[method-assign]
    disk.free = 0
    waiting = writer.submit(an_insert("pods"))
    await looked.wait()
    saving = writer.submit(an_insert("cursors"), shrinks=True)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(writer.close())
        await asyncio.sleep(0)  # The writer is marked as closing.
        closed.set()

    with pytest.raises(OutboxClosed):
        await waiting
    await saving
    assert kinds(disk) == ["cursors"]
    disk.release()


async def test_closing_uses_room_that_came_meanwhile(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    facts: list[Fact] = []
    writer = Writer(open_writer(disk.file), disk, min_free=1000, report=facts.append, retry=60)
    disk.free = 0
    waiting = writer.submit(an_insert("pods"))
    await until_reported(facts, OutboxFull)
    disk.free = 1000

    async with asyncio.timeout(5 * BUSY):
        await writer.close()

    assert await waiting == "pods"
    assert kinds(disk) == ["pods"]
    disk.release()


async def test_the_file_is_made_as_it_is_meant_to_be(disk: Disk) -> None:
    connection = open_writer(disk.file)
    try:
        found = {
            name: connection.pragma(name)
            for name in ("page_size", "journal_mode", "synchronous", "auto_vacuum", "user_version", "application_id")
        }
    finally:
        connection.close()
        disk.release()

    assert found == {
        "page_size": 4096,
        "journal_mode": "wal",
        "synchronous": 2,
        "auto_vacuum": 2,
        "user_version": FORMAT,
        "application_id": 0x6B646F62,
    }
    assert disk.file.name == FILE
