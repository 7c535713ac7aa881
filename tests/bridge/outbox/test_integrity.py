"""Errors while the state is read: values that the outbox cannot have written are damage, everything else is a bug."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bridge.model.policies import StartPolicy
from bridge.model.record import NewDeadLetter
from bridge.model.resource import Scope
from bridge.outbox import Outbox
from bridge.outbox.errors import Damaged, UnknownFormat
from bridge.outbox.storage import database
from bridge.outbox.storage.database import PAGE_BYTES
from bridge.outbox.storage.directory_lock import FILE
from bridge.outbox.storage.schema import FORMAT
from bridge.outbox.storage.state_directory import MARK
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.outbox import OutboxRebuilt
from tests.bridge.outbox.opened import alter, everything, opened, rows_of, story
from tests.kit.damage import loosely
from tests.kit.informed import Informed
from tests.kit.records import PODS, a_delta

AUDIT = {"audit": StartPolicy.SNAPSHOT}


async def filled(directory: Path) -> None:
    async with opened(directory, AUDIT) as outbox:
        informer = await Informed(padding=200).begin(outbox)
        await informer.exports(outbox, *(f"added shop/web-{number}" for number in range(50)))
        await outbox.sinks.dead_letters["audit"].add_dead_letters(
            [NewDeadLetter(a_delta(1), "too large", parked=False)]
        )


async def leave(outbox: Outbox) -> object:
    return await outbox.ledger.adopt(PODS, [Scope("elsewhere")])


async def look_up(outbox: Outbox) -> object:
    return [outbox.body(number) for number in range(1, 51)]


async def list_letters(outbox: Outbox) -> object:
    return await outbox.dead_letters(None, 0, 100)


async def retry_letters(outbox: Outbox) -> object:
    dead_letters = outbox.sinks.dead_letters["audit"]
    await dead_letters.retry(None)
    return await dead_letters.next_retries(10)


async def list_objects(outbox: Outbox) -> object:
    informer = await Informed().begin(outbox)
    return await informer.exports(outbox, *(f"updated {key}" for key, _ in list(informer.known.items())))


UTF_8 = "CAST(x'77ff' AS TEXT)"

HARMS: dict[str, tuple[str, str, Callable[[Outbox], Any]]] = {
    "a text that is no UTF-8, of an object that leaves": ("ledger", f"UPDATE ledger SET uid = {UTF_8}", leave),
    "bytes in place of a text, of an object that leaves": ("ledger", "UPDATE ledger SET key = x'7765'", leave),
    "a text in place of a number": ("ledger", "UPDATE ledger SET replaces = 'none' WHERE seq = 9", leave),
    "bytes in place of a text, in a record": ("log", "UPDATE log SET uid = x'00' WHERE seq = 9", everything),
    "NULL in place of a body": ("log", "UPDATE log SET body = NULL WHERE seq = 9", look_up),
    "NULL in place of every body": ("log", "UPDATE log SET body = NULL", look_up),
    "a number in place of a body": ("log", "UPDATE log SET body = 7 WHERE seq = 9", look_up),
    "a text in place of a body": ("log", "UPDATE log SET body = 'seven' WHERE seq = 9", everything),
    "a resource that is not there": ("log", "UPDATE log SET resource = 99 WHERE seq = 9", everything),
    "a dead letter whose reason is no UTF-8": (
        "dead_letters",
        f"UPDATE dead_letters SET reason = {UTF_8}",
        list_letters,
    ),
    "a dead letter whose record is a text": ("dead_letters", "UPDATE dead_letters SET record = 'seven'", retry_letters),
    "a dead letter whose record is rubbish": (
        "dead_letters",
        "UPDATE dead_letters SET record = x'28b52ffd'",
        retry_letters,
    ),
    "a version that is no text": ("ledger", "UPDATE ledger SET version = x'07'", list_objects),
    "a number that was given before": ("meta", "UPDATE meta SET last = 7", list_objects),
    "a cursor that is no number": ("cursors", "UPDATE cursors SET settled = 'all'", everything),
    "a cursor beyond the log": ("cursors", "UPDATE cursors SET settled = 1000", everything),
    "an epoch that is bytes": ("informers", "UPDATE informers SET epoch = x'01'", list_objects),
    "a kind whose name is no UTF-8": ("kinds", f"UPDATE kinds SET name = {UTF_8}", list_objects),
    "a resource whose group is bytes": ("resources", "UPDATE resources SET api_group = x'01'", everything),
}


@pytest.mark.parametrize(("table", "statement", "use"), HARMS.values(), ids=HARMS.keys())
async def test_impossible_contents_are_moved_aside_wherever_met(
    tmp_path: Path, table: str, statement: str, use: Callable[[Outbox], Any]
) -> None:
    await filled(tmp_path)
    loosely(tmp_path, table, statement)

    facts: list[Fact] = []
    with suppress(Damaged):
        async with opened(tmp_path, AUDIT, facts=facts) as outbox:
            if not is_anew(facts):
                await use(outbox)
                raise RuntimeError("whatever comes of it")
    async with opened(tmp_path, AUDIT, facts=facts) as outbox:
        assert story(await everything(outbox)) == ["gap"]
        assert (await outbox.check()).problems == []
    assert is_anew(facts)


@pytest.mark.parametrize(
    "column", ["cursors.absent_seconds", "cursors.settled", "informers.rebuilding", "meta.rebuilt"]
)
async def test_a_silent_wrong_type_is_noticed_at_the_start(tmp_path: Path, column: str) -> None:
    await filled(tmp_path)
    table, _, name = column.partition(".")
    loosely(tmp_path, table, f"UPDATE {table} SET {name} = {'NULL' if name == 'absent_seconds' else 2.5}")

    facts: list[Fact] = []
    async with opened(tmp_path, AUDIT, facts=facts):
        assert is_anew(facts)


def is_anew(facts: list[Fact]) -> bool:
    return any(isinstance(fact, OutboxRebuilt) for fact in facts)


async def test_a_bug_throws_nothing_away(tmp_path: Path) -> None:
    await filled(tmp_path)
    with pytest.raises(ZeroDivisionError):
        async with opened(tmp_path, AUDIT):
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        async with opened(tmp_path, AUDIT):
            raise ExceptionGroup("two at once", [ZeroDivisionError(), KeyError("shop/web")])

    with pytest.raises(ZeroDivisionError):
        async with opened(tmp_path, AUDIT) as outbox:
            await outbox._store.write(lambda _: 1 / 0)

    assert not (tmp_path / MARK).exists()
    async with opened(tmp_path, AUDIT) as outbox:
        assert outbox.last == 50


async def test_damage_among_other_errors_is_damage(tmp_path: Path) -> None:
    await filled(tmp_path)
    with pytest.raises(Damaged, match="record 7"):
        async with opened(tmp_path, AUDIT):
            raise ExceptionGroup("two at once", [ZeroDivisionError(), ExceptionGroup("", [Damaged("record 7")])])

    facts: list[Fact] = []
    async with opened(tmp_path, AUDIT, facts=facts):
        assert is_anew(facts)


async def test_damage_that_nobody_waited_for_is_raised_at_the_end(tmp_path: Path) -> None:
    def meet_damage(_: object) -> None:
        raise Damaged("page 7")

    await filled(tmp_path)
    with pytest.raises(Damaged, match="page 7"):  # noqa: PT012  # when all of it has ended
        async with opened(tmp_path, AUDIT) as outbox:
            outbox._store.write(meet_damage)
            await asyncio.to_thread(outbox._store.writer._thread.join, 30)

    assert (tmp_path / MARK).exists()


async def test_damage_met_by_an_admin_command_also_ends_the_outbox(tmp_path: Path) -> None:
    await filled(tmp_path)
    loosely(tmp_path, "dead_letters", f"UPDATE dead_letters SET reason = {UTF_8}")

    with pytest.raises(Damaged, match="'utf-8' codec can't decode"):  # noqa: PT012  # two ends of one thing
        async with opened(tmp_path, AUDIT) as outbox:
            with pytest.raises(UnicodeDecodeError):
                await outbox.dead_letters(None, 0, 100)
            await outbox.run()


async def test_a_question_that_is_a_bug_ends_nothing(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with opened(tmp_path, AUDIT) as outbox:
        with pytest.raises(ZeroDivisionError):
            await outbox._store.ask(lambda _: 1 / 0)
        await outbox._examine_suspicion()


@pytest.mark.parametrize(("table", "statement"), [(table, statement) for table, statement, _ in HARMS.values()])
async def test_who_only_looks_hears_of_it_and_the_check_finds_it(tmp_path: Path, table: str, statement: str) -> None:
    await filled(tmp_path)
    loosely(tmp_path, table, statement)

    with pytest.raises(Damaged):  # noqa: PT012  # while it is opened, or by the check
        async with await Outbox.open(tmp_path, {}, report=lambda _: None, only_existing=True) as outbox:
            [problem, *_] = (await outbox.check()).problems
            raise Damaged(problem)
    assert not list(tmp_path.glob("*aside*"))  # noqa: ASYNC240


# ── Pages ────────────────────────────────────────────────────────────────────


async def test_a_bit_that_flips_in_a_number_is_noticed(tmp_path: Path) -> None:
    """As a number it would be as good as any other."""
    await filled(tmp_path)
    before = (tmp_path / FILE).read_bytes()
    [(page,)] = rows_of(tmp_path, "SELECT rootpage FROM sqlite_schema WHERE name = 'cursors'")
    end = int(str(page)) * PAGE_BYTES
    at = before.index(b"audit", end - PAGE_BYTES, end) + len(b"audit")
    (tmp_path / FILE).write_bytes(before[:at] + bytes([before[at] ^ 1]) + before[at + 1 :])

    facts: list[Fact] = []
    async with opened(tmp_path, AUDIT, facts=facts):
        assert is_anew(facts)


async def test_any_sqlite_reads_a_database_whose_pages_have_checksums(tmp_path: Path) -> None:
    await filled(tmp_path)
    script = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM log').fetchone())"
    read = subprocess.run([sys.executable, "-c", script, str(tmp_path / FILE)], capture_output=True)  # noqa: ASYNC221

    assert read.stdout == b"50\n"


async def test_a_database_without_them_goes_on_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setattr(database, "_VFS", None)
        await filled(tmp_path)
    assert rows_of(tmp_path, "PRAGMA integrity_check") == [("ok",)]

    async with opened(tmp_path, AUDIT) as outbox:
        assert outbox.last == 50
        assert (await outbox.check()).problems == []


# ── The header ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("statement", [f"PRAGMA user_version = {FORMAT ^ 16}", "PRAGMA application_id = 1"])
async def test_a_header_that_belies_its_tables_is_damage(tmp_path: Path, statement: str) -> None:
    await filled(tmp_path)
    alter(tmp_path, statement)

    facts: list[Fact] = []
    async with opened(tmp_path, AUDIT, facts=facts):
        assert is_anew(facts)


async def test_a_newer_format_is_refused_and_not_moved_aside(tmp_path: Path) -> None:
    await filled(tmp_path)
    loosely(tmp_path, "pinned", "SELECT 1")
    alter(
        tmp_path,
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE FUTURE TABLE pinned (seq)'"
        f" WHERE name = 'pinned'; PRAGMA user_version = {FORMAT + 1}",
    )

    with pytest.raises(UnknownFormat, match="written by another kubedelta"):
        async with opened(tmp_path, AUDIT):
            pass


async def test_a_header_that_says_read_only_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_VFS", None)
    await filled(tmp_path)
    with (tmp_path / FILE).open("r+b") as file:
        file.seek(18)
        file.write(b"\x42")

    facts: list[Fact] = []
    async with opened(tmp_path, AUDIT, facts=facts):
        assert is_anew(facts)
