"""A sink that delivers in transactions gets a dead letter once the Lease names its object, and whoever may have dead
letters is asked: so a record is stored once, also by a retry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from bridge.model.primitives.shard import ALL_OBJECTS, Shard
from bridge.model.record import Delta
from bridge.model.versions.frontier import Frontier, SinkFrontier
from bridge.model.versions.held import KeptLetters
from bridge.model.versions.joining import joined as joined_shards
from bridge.model.versions.progress import Progress, SharedProgress
from bridge.pipelines.feeds import TransactionFeed
from tests.bridge.outbox.test_destination_progress import StoredProgress
from tests.bridge.outbox.test_letters import (
    AUDIT,
    NAME,
    URL,
    fetch,
    led_by,
    listed,
    opens,
    rejects,
    shared,
    transacted,
)
from tests.bridge.outbox.test_standby import Side, published, replicas


class Lease:
    """What the replicas publish."""

    def __init__(self, *sides: Side) -> None:
        self.frontiers: list[Frontier] = []
        for side in sides:
            side.standby.configured.address = URL
            side.standby.confirm = partial(self.renew, side)

    @property
    def of_audit(self) -> Sequence[SinkFrontier]:
        return [each.sinks[AUDIT] for each in self.frontiers]

    async def renew(self, side: Side, *, also_ending: bool = False) -> None:
        self.frontiers.append(published(side))


async def taken(feed: TransactionFeed, most: int = 100) -> list[Delta]:
    """The next records, handed over; none are left if nothing comes."""
    if feed.exhausted:
        return []
    feed.hand_over(found := await feed.take(most))
    return [each for each in found.items if isinstance(each, Delta)]


async def test_the_lease_names_an_object_before_its_dead_letter(tmp_path: Path) -> None:
    """Killed in between, a replica leaves no dead letter that others deliver."""
    async with replicas(tmp_path) as [leader, _]:
        lease = Lease(leader)
        await leader.standby.take_over(1, None)
        feed = await opens(leader, None)
        a, again, b = await leader.sees("added shop/a", "updated shop/a", "added shop/b", position="110")
        await feed.name_letters([a])
        assert [(each.dead_letters, each.objects) for each in lease.of_audit] == [(1, 1)]
        await rejects(leader, [a])
        await feed.name_letters([again])
        assert len(lease.frontiers) == 1, "its object has a name already"
        await rejects(leader, [again], parked=True)
        await feed.name_letters([b])
        assert [(each.dead_letters, each.objects) for each in lease.of_audit][1:] == [(3, 2)]


async def test_a_sink_that_opens_anew_expects_nothing(tmp_path: Path) -> None:
    """The record may be delivered the next time."""
    async with replicas(tmp_path) as [leader, _]:
        lease = Lease(leader)
        await leader.standby.take_over(1, None)
        feed = await opens(leader, None)
        await feed.name_letters(await leader.sees("added shop/a", position="110"))
        await opens(leader, None)
        await lease.renew(leader)
        assert [(each.dead_letters, each.objects) for each in lease.of_audit] == [(1, 1), (0, 0)]


async def test_a_record_behind_another_replicas_names_its_own(tmp_path: Path) -> None:
    """The next leader has to know that this replica has some of the object, too. It counts once."""
    async with replicas(tmp_path) as [former, leader]:
        lease = Lease(leader)
        await former.standby.take_over(1, None)
        await rejects(former, await former.sees("added shop/a", position="110"))
        await led_by(former, leader)
        feed = await opens(leader, None)
        await feed.name_letters(await leader.sees("updated shop/a", position="120"))
        assert [(each.dead_letters, each.objects) for each in lease.of_audit] == [(1, 1)]
        assert lease.frontiers[0].sinks[AUDIT].names_all_parked


@pytest.mark.parametrize("is_named", [True, False])
async def test_a_leader_names_what_it_finds_on_its_disk(tmp_path: Path, is_named: bool) -> None:
    """It was killed before its renewal; its next transaction would go past the dead letter."""
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        found = published(leader)
        await rejects(leader, await leader.sees("added shop/a", position="110"))
        if is_named:
            found = published(leader)
        leader.standby.step_down()
        lease = Lease(leader)
        await leader.standby.take_over(2, found)
        await opens(leader, None)
        assert len(lease.frontiers) == (0 if is_named else 1)


async def test_what_only_its_own_leader_rejected_stays(tmp_path: Path) -> None:
    """Nobody else has led since."""
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        found = published(leader)
        await rejects(leader, await leader.sees("added shop/a", position="110"))
        leader.standby.step_down()
        await leader.standby.take_over(2, found)
        assert await listed(leader) == [("added", "shop/a")]


async def test_a_leader_fetches_once_the_lease_has_its_term(tmp_path: Path) -> None:
    """Else the next leader would not know that this one may have some."""
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        former.standby.configured.address = URL
        await rejects(former, await former.sees("added shop/a", position="110"))
        await leader.standby.take_over(2, published(former))
        assert leader.standby.published().kept.keys() == {NAME}
        assert shared(leader).wanted == {}
        leader.standby.renewed()
        assert shared(leader).wanted.keys() == {NAME}


@pytest.mark.parametrize("has_address", [True, False])
async def test_the_next_leader_asks_one_that_may_have_some(tmp_path: Path, has_address: bool) -> None:
    """It was killed behind a fetch, before the renewal that would have said so."""
    async with replicas(tmp_path, 3) as [first, second, third]:
        await first.standby.take_over(1, None)
        await rejects(first, await first.sees("added shop/a", position="110"))
        second.standby.configured.address = f"{URL}1" if has_address else ""
        await led_by(first, second)
        found = published(second)
        await fetch(second, first)
        assert await listed(second) == [("added", "shop/a")]
        assert all(each.dead_letters == 0 for each in found.sinks.values())
        second.standby.step_down()
        await third.standby.take_over(3, found)
        assert published(third).kept.keys() == ({NAME, "kubedelta-1"} if has_address else {NAME})


@pytest.mark.parametrize("answers", [True, False])
async def test_a_former_shards_destination_names_them(tmp_path: Path, answers: bool) -> None:
    """Its replica was killed in a retry, and was away until the shard handed over."""
    async with replicas(tmp_path, 2) as [former, heir]:
        former.outbox.sinks.shard = Shard(2, 0)
        await former.standby.take_over(1, None)
        await rejects(former, await former.sees("added shop/a", "added shop/b", position="110"))
        feed = await opens(former, None)
        await former.outbox.sinks.dead_letters[AUDIT].retry([1])
        progress, _ = await transacted(former, feed)
        former.standby.configured.address = URL
        parts = [(former.outbox.sinks.shard, published(former))]
        heir.standby.configured.transactional = {AUDIT}
        await heir.standby.take_over(2, joined_shards(parts, ALL_OBJECTS).frontier)
        assert published(heir).kept == {NAME: KeptLetters(URL, former=True)}

        sink = await opened_beside(heir, [progress] if answers else None)
        page = await shared(former).page(0)
        assert bool(await shared(heir).take(page)) is not answers
        assert await listed(heir) == [("added", "shop/b")] * answers
        if answers:
            assert await shared(heir).take(page) == ""
            assert sink.asked == 1, "once a term"


async def opened_beside(side: Side, others: list[Progress] | None) -> StoredProgress:
    """The leader's sink opens at a destination that has nothing of its shard yet."""
    feed = await opens(side, Progress(frontier=SharedProgress()))
    sink = feed.sink_with_progress
    assert isinstance(sink, StoredProgress)
    sink.others = others
    return sink
