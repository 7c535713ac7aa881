"""The write-ahead log of a killed process: the states that a crash may leave, and others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridge.outbox.storage.directory_lock import FILE, WAL
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.outbox import OutboxRebuilt
from tests.bridge.outbox.opened import AUDIT, crashed, everything, opened, story
from tests.kit.informed import Informed

FRAME = 24 + 4096
WORK = ["added shop/a", "updated shop/a", "added shop/b", "updated shop/b", "updated shop/a"]


@pytest.fixture
async def left(tmp_path: Path) -> Path:
    """By a process that was killed after five transactions, whose log is all there is of them."""
    (tmp_path / "state").mkdir()
    async with opened(tmp_path / "state"):
        pass
    async with opened(tmp_path / "state") as outbox:
        informer = await Informed().begin(outbox)
        for step in WORK:
            await informer.exports(outbox, step)
        return crashed(tmp_path / "state", tmp_path / "left")


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 4
    file.write_bytes(content)


def frames(log: Path) -> int:
    return (log.stat().st_size - 32) // FRAME


async def found(directory: Path) -> tuple[list[str], bool]:
    facts: list[Fact] = []
    async with opened(directory, AUDIT, facts=facts) as outbox:
        return story(await everything(outbox)), any(isinstance(fact, OutboxRebuilt) for fact in facts)


async def test_a_log_that_is_whole_is_taken(left: Path) -> None:
    assert await found(left) == (WORK, False)


async def test_a_half_written_last_transaction_never_happened(left: Path) -> None:
    os.truncate(left / WAL, (left / WAL).stat().st_size - FRAME)
    assert await found(left) == (WORK[:-1], False)


async def test_a_last_transaction_written_out_of_order_never_happened(left: Path) -> None:
    flip(left / WAL, 32 + (frames(left / WAL) - 1) * FRAME + 1000)
    assert await found(left) == (WORK[:-1], False)


@pytest.mark.parametrize("part", [0, 1 / 3, 2 / 3])
@pytest.mark.parametrize("where", [0, 10, 20, 500])
async def test_an_unreadable_committed_transaction_is_damage(left: Path, part: float, where: int) -> None:
    """In the number of the frame's page, its salt, its checksum, or the page."""
    flip(left / WAL, 32 + int(frames(left / WAL) * part) * FRAME + where)
    assert await found(left) == (["gap"], True)


@pytest.mark.parametrize("where", range(0, 32, 4))
async def test_an_unreadable_header_of_the_log_is_damage(left: Path, where: int) -> None:
    flip(left / WAL, where)
    assert await found(left) == (["gap"], True)


async def test_what_is_left_of_an_older_log_is_none_of_this_one(tmp_path: Path) -> None:
    """A log begins anew at its beginning, when the database has all of it."""
    async with opened(tmp_path) as outbox:
        informer = await Informed(padding=5000).begin(outbox)
        for number in range(20):
            await informer.exports(outbox, f"added shop/{number}")
        await outbox._store.write(lambda _: None)
        outbox._store.writer._connection.wal_checkpoint()
        await informer.exports(outbox, "added shop/last")
        copy = crashed(tmp_path, tmp_path / "left")
    assert frames(copy / WAL) > 20
    assert (await found(copy))[1] is False
    assert FILE in {each.name for each in copy.iterdir()}
