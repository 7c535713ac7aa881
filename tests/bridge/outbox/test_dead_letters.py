"""Dead letters: rejected records, and the records parked behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from bridge.model.admin import UnknownTarget
from bridge.model.record import NewDeadLetter, Record
from bridge.outbox import Outbox
from bridge.outbox.consumers.dead_letters import DeadLetters
from tests.bridge.outbox.opened import AUDIT, crashed, opened
from tests.kit.records import a_delta, a_gap, a_snapshot

WEB, DB = ("pods", "shop/web"), ("pods", "shop/db")


def rejected(sequence: int, key: str = "shop/web", reason: str = "too large") -> NewDeadLetter:
    return NewDeadLetter(a_delta(sequence, key=key), reason, parked=False)


def parked(sequence: int, key: str = "shop/web") -> NewDeadLetter:
    return NewDeadLetter(a_delta(sequence, key=key), "an earlier record was rejected", parked=True)


def of(outbox: Outbox) -> DeadLetters:
    return outbox.sinks.dead_letters["audit"]


async def waiting(outbox: Outbox) -> list[tuple[int, int, bool, bool]]:
    """Number, sequence, parked, retrying of each."""
    found = await outbox.dead_letters("audit", 0, 1000)
    return [(each.number, each.sequence, each.parked, each.retrying) for each in found]


async def retried(outbox: Outbox, limit: int = 100) -> list[int]:
    return [dead_letter.number for dead_letter in await of(outbox).next_retries(limit)]


async def test_added_dead_letters_survive_a_crash(tmp_path: Path) -> None:
    records: Sequence[Record] = [a_delta(1, before=b"{}"), a_gap(2, 3), a_snapshot()]
    answers = ["no such schema: ä\nline 2", "", ""]
    async with opened(tmp_path) as outbox:
        new = zip(records, answers, strict=True)
        await of(outbox).add_dead_letters([NewDeadLetter(each, "why", parked=False, answer=it) for each, it in new])
        left = crashed(tmp_path, tmp_path / "left")

    async with opened(left) as outbox:
        dead_letters = of(outbox)
        assert (len(dead_letters), dead_letters.parked, dead_letters.retrying) == (3, 0, False)
        assert [await outbox.dead_letter(number) for number in (1, 2, 3)] == records
        assert [each.answer for each in await outbox.dead_letters("audit", 0, 10)] == answers
        assert dead_letters.keys == {("pods", "shop/web-1"): 1}
        assert (await outbox.check()).dead_letters == 3


async def test_a_record_that_is_a_letter_already_stays_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(1), parked(2)])
        await of(outbox).add_dead_letters([rejected(1, reason="otherwise"), parked(2), parked(3)])

        found = await outbox.dead_letters("audit", 0, 10)
        assert (found[0].number, found[0].reason) == (1, "too large")
        assert [each.sequence for each in found] == [1, 2, 3]
        assert (len(of(outbox)), of(outbox).parked) == (3, 2)


async def test_dead_letters_are_listed_in_pages(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(number, f"shop/p{number}") for number in range(1, 8)])

        assert [each.number for each in await outbox.dead_letters("audit", 0, 3)] == [1, 2, 3]
        assert [each.number for each in await outbox.dead_letters(None, 3, 100)] == [4, 5, 6, 7]
        assert await outbox.dead_letters("another", 0, 100) == []


async def test_a_chain_is_what_a_retry_of_its_first_letter_takes(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        gaps = [NewDeadLetter(a_gap(number, number), "no", parked=False) for number in (20, 21)]
        apart = [rejected(2, "shop/db"), rejected(3, "shop/db")]
        letters = [rejected(1), *apart, *(parked(number) for number in range(4, 10)), *gaps, rejected(30)]
        await of(outbox).add_dead_letters(letters)

        chains = await outbox.dead_letter_chains("audit", 0, 100)
        found = [(each.first.number, each.rejected, each.parked) for each in chains]
        assert found == [(1, 2, 6), (2, 1, 0), (3, 1, 0), (10, 1, 0), (11, 1, 0)]
        assert [each.first.number for each in await outbox.dead_letter_chains(None, 2, 2)] == [3, 10]
        assert await outbox.dead_letter_chains("another", 0, 100) == []
        for number, of_it, behind in found:
            assert await of(outbox).retry([number]) == of_it + behind
        assert await of(outbox).retry([1, 4, 2, 2]) == 9


async def test_one_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, AUDIT | {"live": AUDIT["audit"]}) as outbox:
        await of(outbox).add_dead_letters([rejected(1)])
        with pytest.raises(UnknownTarget, match="no dead letter 7"):
            await outbox.dead_letter(7)
        for ask in (outbox.sinks.dead_letters["live"].retry, outbox.sinks.dead_letters["live"].drop):
            with pytest.raises(UnknownTarget, match="sink live has no dead letter 1"):
                await ask([1])
        assert await waiting(outbox) == [(1, 1, False, False)]


async def test_retry_takes_the_whole_chain_of_its_object_in_order(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        apart = [rejected(2, "shop/db"), rejected(5, "shop/db")]
        await of(outbox).add_dead_letters([rejected(1), apart[0], parked(3), parked(4), apart[1]])
        assert await of(outbox).retry([4]) == 3
        assert of(outbox).retrying
        assert await retried(outbox, limit=2) == [1, 3]
        assert await of(outbox).retry([5]) == 1, "with ``pass``, records of one object are rejected each by itself"
        left = crashed(tmp_path, tmp_path / "left")
    async with opened(left) as outbox:
        assert of(outbox).retrying
        assert await retried(outbox) == [1, 3, 4, 5]


async def test_what_was_delivered_is_a_letter_no_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(1), parked(2), rejected(3, "shop/db")])
        await of(outbox).retry(None)
        await of(outbox).delivered([1, 2])

        assert of(outbox).keys == {DB: 3}
        assert (len(of(outbox)), of(outbox).parked) == (1, 0)
        assert await retried(outbox) == [3]
        await of(outbox).delivered([3])
        assert await retried(outbox) == []
        assert not of(outbox).retrying


async def test_one_that_is_rejected_again_stays_with_those_behind_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(1), parked(2), rejected(3, "shop/db"), parked(4, "shop/db")])
        await of(outbox).retry(None)
        await of(outbox).rejected_again(1, "still too large", "413: at most 1 MB")

        assert await retried(outbox) == [3, 4]
        [first, *_] = await outbox.dead_letters("audit", 0, 10)
        assert (first.reason, first.parked, first.retrying) == ("still too large", False, False)
        assert first.answer == "413: at most 1 MB"


async def test_a_parked_one_that_is_rejected_is_parked_no_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(1), parked(2), parked(3)])
        await of(outbox).retry(None)
        await of(outbox).delivered([1])
        await of(outbox).rejected_again(2, "this one too", "")

        assert await waiting(outbox) == [(2, 2, False, False), (3, 3, True, False)]
        assert (len(of(outbox)), of(outbox).parked, dict(of(outbox).keys)) == (2, 1, {WEB: 2})


@pytest.mark.parametrize(
    ("behind", "dropped", "again"),
    [
        ([parked(2), parked(3)], 1, [2, 3]),
        ([parked(2), parked(3)], 2, []),
        ([parked(2), rejected(3), parked(4)], 1, [2]),
    ],
)
async def test_drop_releases_what_is_parked_up_to_the_next_rejected_one(
    tmp_path: Path, behind: list[NewDeadLetter], dropped: int, again: list[int]
) -> None:
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(1), *behind])

        assert await of(outbox).drop([dropped]) == 1
        assert of(outbox).retrying is bool(again)
        assert await retried(outbox) == again
        assert of(outbox).keys == {WEB: 2 if dropped == 1 else 1}


async def test_drop_of_all_leaves_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(1), parked(2), NewDeadLetter(a_gap(), "why", parked=False)])

        assert await of(outbox).drop(None) == 3
        assert (len(of(outbox)), of(outbox).parked, dict(of(outbox).keys), of(outbox).retrying) == (0, 0, {}, False)


async def test_numbers_are_not_used_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(1)])
        await of(outbox).drop(None)
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(2)])
        assert await waiting(outbox) == [(2, 2, False, False)]


@pytest.mark.parametrize(("operator", "again"), [("retry", [1, 2]), ("drop", [2])])
async def test_records_parked_behind_what_an_operator_saw_to_are_retried(
    tmp_path: Path, operator: str, again: list[int]
) -> None:
    """Nobody would ask for it: the operator asked before it came."""
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(1)])
        await getattr(of(outbox), operator)([1])
        await of(outbox).add_dead_letters([parked(2)])

        assert of(outbox).retrying
        assert await retried(outbox) == again


async def test_letters_of_a_removed_sink_can_be_listed_and_dropped(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(1)])
    async with opened(tmp_path, {}) as outbox:
        await outbox.sinks.count_absence(10.0, 5.0)
    async with opened(tmp_path, {}) as outbox:
        assert [each.sink for each in await outbox.dead_letters(None, 0, 10)] == ["audit"]
        assert await outbox.sinks.dead_letters["audit"].drop(None) == 1


async def test_an_addition_whose_caller_is_cancelled_can_be_dropped(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        async with asyncio.TaskGroup() as tasks:
            adding = tasks.create_task(of(outbox).add_dead_letters([rejected(1)]))
            await asyncio.sleep(0)
            adding.cancel()
        await of(outbox).add_dead_letters([rejected(1)])

        assert await of(outbox).drop(None) == 1
        assert await waiting(outbox) == []


@pytest.mark.parametrize(("operator", "left"), [("drop", [2, 3]), ("retry", [1, 2, 3])])
async def test_a_sink_with_too_many_waits_for_an_operator(
    tmp_path: Path, operator: str, left: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.outbox.consumers.dead_letters.MOST", 2)
    async with opened(tmp_path) as outbox:
        await of(outbox).add_dead_letters([rejected(1), rejected(2, "shop/db")])
        async with asyncio.TaskGroup() as tasks:
            adding = tasks.create_task(of(outbox).add_dead_letters([rejected(3, "shop/new")]))
            await outbox.maintain()
            assert not adding.done()
            assert len(await waiting(outbox)) == 2
            await getattr(of(outbox), operator)([1])
        assert [number for number, *_ in await waiting(outbox)] == left
