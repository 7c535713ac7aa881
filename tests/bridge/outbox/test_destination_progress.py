"""Whether progress that a destination has stored is that of this state directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bridge.delivery.sink_feed import TransactionFeed
from bridge.model.policies import StartPolicy
from bridge.model.progress import LARGEST, Progress, decode_progress, encode_progress
from bridge.model.record import NewDeadLetter, RetriedDeadLetter
from bridge.outbox import Outbox
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.delivery import ProgressRead
from tests.bridge.outbox.opened import AUDIT, crashed, feeds_of, opened
from tests.kit.informed import Informed


async def begun(outbox: Outbox, committed: Progress | None, facts: list[Fact], sink: str = "audit") -> TransactionFeed:
    feed = feeds_of(outbox).feed(sink, TransactionFeed)
    assert isinstance(feed, TransactionFeed)
    await feed.begin()
    if (read := await feed.recover(committed)) is not None:
        facts.append(read)
    return feed


async def stored(feed: TransactionFeed, limit: int) -> tuple[list[int], Progress]:
    """Delivered, and not settled: as right before a crash."""
    fetch = await feed.take(limit)
    feed.hand_over(fetch)
    return [record.sequence for record in fetch.items], feed.progress()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    return tmp_path


def read(facts: Sequence[Fact]) -> list[ProgressRead]:
    return [fact for fact in facts if isinstance(fact, ProgressRead)]


async def test_a_cursor_on_disk_moves_forward_to_what_is_stored(folder: Path) -> None:
    facts: list[Fact] = []
    async with opened(folder / "first") as outbox:
        informer = await Informed().begin(outbox)
        first = [each.sequence for each in await informer.exports(outbox, *(f"added shop/p{n}" for n in range(5)))]
        delivered, progress = await stored(await begun(outbox, None, facts), 3)
        left = crashed(folder / "first", folder / "left")
    async with opened(left) as outbox:
        feed = await begun(outbox, decode_progress(encode_progress(progress)), facts)
        rest = await feed.take(100)

    assert delivered == first[:3]
    assert [record.sequence for record in rest.items] == first[3:]
    assert read(facts) == [ProgressRead("audit", 3)]


async def test_progress_of_another_state_is_reported_and_not_used(folder: Path) -> None:
    facts: list[Fact] = []
    async with opened(folder / "first") as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "added shop/b")
        _, progress = await stored(await begun(outbox, None, facts), 2)
    async with opened(folder / "second") as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "added shop/b")
        again = await (await begun(outbox, progress, facts)).take(100)

    assert len(again.items) == 2
    assert read(facts) == [ProgressRead("audit", 0, "a bridge with another state directory has stored it")]


async def test_a_restored_copy_does_not_take_later_numbers_for_its_own(folder: Path) -> None:
    """Its records have numbers that the destination knows of other records: none may be passed over."""
    facts: list[Fact] = []
    async with opened(folder / "first") as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a")
        feed = await begun(outbox, None, facts)
        backup = crashed(folder / "first", folder / "backup")
        await informer.exports(outbox, "added shop/lost-1", "added shop/lost-2")
        _, progress = await stored(feed, 3)
    async with opened(backup) as outbox:  # Its destination is away: only the start is noted.
        await outbox.sinks.progress.begin()
        await (await Informed().begin(outbox)).exports(outbox, *(f"added shop/new-{n}" for n in range(4)))
    async with opened(backup) as outbox:
        again = await (await begun(outbox, progress, facts)).take(100)

    assert len(again.items) == 5
    assert "restored from a copy" in read(facts)[0].unknown


async def test_a_sink_that_was_forgotten_and_came_back_begins_anew(tmp_path: Path) -> None:
    facts: list[Fact] = []
    async with opened(tmp_path) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "added shop/b")
        _, progress = await stored(await begun(outbox, None, facts), 2)
    async with opened(tmp_path, {"other": StartPolicy.NOW}) as outbox:
        await outbox.sinks.count_absence(1e9, 1.0)
    async with opened(tmp_path, AUDIT) as outbox:
        snapshot = await (await begun(outbox, progress, facts)).take(100)

    assert len(snapshot.items) == 4, "two objects between two notices"
    assert read(facts) == [ProgressRead("audit", 0, "it is of an earlier sink of this name")]


async def test_a_delivered_dead_letter_is_none_after_a_crash(folder: Path) -> None:
    facts: list[Fact] = []
    async with opened(folder / "first") as outbox:
        deltas = await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "added shop/b")
        feed = await begun(outbox, None, facts)
        letters = outbox.sinks.dead_letters["audit"]
        await letters.add_dead_letters([NewDeadLetter(each, "too large", parked=False) for each in deltas])
        feed.settle(await feed.take(2))
        await outbox.maintain()
        feed.hand_over_letters([RetriedDeadLetter(1, deltas[0])])
        left = crashed(folder / "first", folder / "left")
        progress = feed.progress()
    async with opened(left) as outbox:
        await begun(outbox, progress, facts)
        assert len(outbox.sinks.dead_letters["audit"]) == 1


@pytest.mark.parametrize(
    ("stored_bytes", "why"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"v":2,"out":1}', "version 2"),
        (b"[" * 100_000, "Expected `object`"),
        (b" " * (LARGEST + 1), "are the most"),
    ],
)
def test_progress_that_cannot_be_read_is_a_value_error(stored_bytes: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode_progress(stored_bytes)
