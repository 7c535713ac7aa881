"""Files are removed, replaced or moved under a running outbox: it ends, and the next start writes a Gap."""

# ruff: noqa: ASYNC220, ASYNC240, PT012  # the tests are about files and processes

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.model.policies import StartPolicy
from bridge.model.record import Gap
from bridge.outbox import Outbox
from bridge.outbox import outbox as outbox_module
from bridge.outbox.errors import Damaged, StateUnusable
from bridge.outbox.storage.directory_lock import FILE, LOCK
from bridge.outbox.storage.state_directory import MARK, StateDirectory
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.outbox import OutboxRebuilt
from tests.bridge.outbox.opened import alter, crashed, everything, opened, rows_of, story
from tests.kit.informed import Informed
from tests.kit.records import DEPLOYMENTS

AUDIT = {"audit": StartPolicy.SNAPSHOT}
NAMES = (FILE, f"{FILE}-wal", f"{FILE}-shm")

READER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READWRITE)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM log").fetchall()
print("reads", flush=True)
sys.stdin.read()
"""


def remove_everything(directory: Path) -> None:
    for each in directory.iterdir():
        each.unlink()


def replace(directory: Path) -> None:
    shutil.copy(directory / FILE, directory / "copy")
    (directory / "copy").replace(directory / FILE)


def make_anew(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


def remove(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).unlink()


HARMS: dict[str, Callable[[Path], object]] = {
    **{f"{name} is removed": remove(name) for name in NAMES},
    "everything is removed": remove_everything,
    "the database is replaced by a copy": replace,
    "the database is emptied": lambda directory: os.truncate(directory / FILE, 0),
    "the directory is made anew": make_anew,
}


@pytest.fixture(autouse=True)
def looks_for_missing_files_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "TICK", 0.01)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    directory = tmp_path / "state"
    directory.mkdir()
    return directory


async def filled(outbox: Outbox) -> Informed:
    informer = await Informed(epoch=3).begin(outbox)
    await informer.exports(outbox, "added shop/a", "added shop/b", "updated shop/a")
    return informer


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
async def test_files_that_vanish_end_the_outbox_and_the_next_has_a_gap(
    state: Path, harm: Callable[[Path], object]
) -> None:
    with pytest.raises(Damaged, match="the next start begins behind record 3, and every sink gets a Gap first"):
        async with opened(state, AUDIT) as outbox:
            informer = await Informed(epoch=3).begin(outbox)
            await informer.exports(outbox, "added shop/a", "added shop/b", "updated shop/a")
            harm(state)
            await outbox.run()

    facts: list[Fact] = []
    async with opened(state, AUDIT, facts=facts) as outbox:
        [gap] = await everything(outbox)
        assert isinstance(gap, Gap)
        assert 3 < gap.sequence < 3_000_000, "behind the exported records, and not made of the time"
        await Informed().begin(outbox)
        assert rows_of(state, "SELECT epoch FROM kinds") == [(5,)], "behind every epoch that may have begun"
        assert (await outbox.check()).problems == []
    [rebuilt] = [fact for fact in facts if isinstance(fact, OutboxRebuilt)]
    assert rebuilt.sinks == ("audit",)


@pytest.mark.parametrize("content", [b'{"reason":"\xff","last":3}', b"[" * 60_000, b"\xff", b""])
async def test_a_mark_that_cannot_be_read_is_a_mark(state: Path, content: bytes) -> None:
    (state / MARK).write_bytes(content)

    facts: list[Fact] = []
    async with opened(state, AUDIT, facts=facts):
        assert [type(fact) for fact in facts if isinstance(fact, OutboxRebuilt)] == [OutboxRebuilt]
    assert not (state / MARK).exists()


async def test_nothing_is_taken_for_gone_while_all_goes_on(state: Path) -> None:
    async with opened(state) as outbox:
        informer = await filled(outbox)
        for number in range(200):
            await informer.exports(outbox, f"added shop/c{number}")
            await outbox.maintain()
        (state / LOCK).unlink()
        alter(state, "UPDATE meta SET rebuilt = 0")
        assert outbox._store.state_directory.gone() == ""


async def test_an_orderly_end_without_its_files_leaves_the_mark_too(state: Path) -> None:
    outbox = await Outbox.open(state, AUDIT, report=lambda _: None)
    await filled(outbox)
    remove_everything(state)

    with pytest.raises(Damaged, match="was removed while it was in use"):
        await outbox.close()

    async with opened(state, AUDIT) as outbox:
        assert story(await everything(outbox)) == ["gap"]


async def test_a_vanished_directory_is_reported_with_what_it_costs(
    state: Path,
) -> None:
    with pytest.raises(Damaged, match=r"The next start finds no mark there.*The last record was 3, in epoch 4 at most"):
        async with opened(state) as outbox:
            await filled(outbox)
            shutil.rmtree(state)
            await outbox.run()
    assert not state.exists()


async def test_a_moved_directory_keeps_its_files_and_goes_on(state: Path, tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="move it back"):
        async with opened(state) as outbox:
            informer = await filled(outbox)
            state.rename(tmp_path / "moved")
            await informer.exports(outbox, "added shop/c")
            await outbox.run()

    async with opened(tmp_path / "moved") as outbox:
        assert story(await everything(outbox))[-1] == "added shop/c"


async def test_another_bridges_state_in_its_place_is_let_alone(state: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with opened(other, {"theirs": StartPolicy.NOW}) as theirs:
        await (await Informed(DEPLOYMENTS).begin(theirs)).exports(theirs, "added shop/theirs")
        with pytest.raises(Damaged, match="The next start finds no mark there"):
            async with opened(state) as outbox:
                await filled(outbox)
                state.rename(tmp_path / "moved")
                other.rename(state)
                await outbox.run()
        assert {*NAMES} <= {each.name for each in state.iterdir()}, "SQLite removes files by their names"
        assert not (state / MARK).exists()
        assert story(await everything(theirs)) == ["added shop/theirs"]
        state.rename(other)


async def test_a_check_of_a_vanished_state_does_not_pass(state: Path) -> None:
    with pytest.raises(Damaged):
        async with opened(state) as outbox:
            await filled(outbox)
            await outbox.check()
            remove_everything(state)
            [problem] = (await outbox.check()).problems
            assert "outbox.db was removed while it was in use" in problem


async def test_a_database_whose_log_alone_is_left_is_damage(state: Path, tmp_path: Path) -> None:
    async with opened(state) as outbox:
        await filled(outbox)
        left = crashed(state, tmp_path / "left")
    (left / FILE).unlink()

    with pytest.raises(Damaged, match=r"is missing, and outbox\.db-wal is there"):
        await Outbox.open(left, {}, report=lambda _: None, only_existing=True)
    async with opened(left) as outbox:
        assert story(await everything(outbox)) == ["gap"]


async def test_a_reader_sees_the_mark_where_nothing_else_is_left(state: Path) -> None:
    with pytest.raises(Damaged):
        async with opened(state) as outbox:
            await filled(outbox)
            remove_everything(state)
            await outbox.run()

    with pytest.raises(Damaged, match="was removed while it was in use"):
        await Outbox.open(state, {}, report=lambda _: None, only_existing=True)


# ── Who holds it ─────────────────────────────────────────────────────────────


async def test_a_removed_lock_lets_nobody_in(state: Path) -> None:
    async with opened(state):
        (state / LOCK).unlink()
        with pytest.raises(StateUnusable, match="is held by another process"):
            StateDirectory(state)
        (state / LOCK).touch()
        with pytest.raises(StateUnusable, match="is held by another process"):
            StateDirectory(state)


async def test_a_reading_process_blocks_no_start_write_or_end(state: Path) -> None:
    async with opened(state) as outbox:
        await filled(outbox)
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(state / FILE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reads\n"
        for number in range(2):
            async with opened(state) as outbox:
                informer = await Informed().begin(outbox)
                await informer.exports(outbox, f"added shop/new{number}")
                await outbox.maintain()
    finally:
        reader.kill()
        reader.communicate()
