"""The store behind the API server is restored from a backup, with the Lease in it, and what leaders delivered since is
undone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.model.versions import frontier
from bridge.model.versions.frontier import Frontier, Point
from bridge.outbox import Outbox
from tests.bridge.outbox.opened import crashed, joined, opened
from tests.bridge.outbox.test_lists_of_a_leader import lagging_leader, lists
from tests.bridge.outbox.test_standby import PODS_KEY, SINKS, Side, all_see, point, published, replicas
from tests.kit.informed import PODS


async def notices(side: Side) -> None:
    """Its informer finds another history, and is about to list."""
    await side.outbox.ledger.discard_positions([(PODS, Scope())], restored=True)
    side.pods.epoch += 1


async def epochs_in_log(outbox: Outbox) -> list[int]:
    found = (await outbox.read(0, 100)).items
    return [each.epoch for each in found if isinstance(each, Delta)]


async def followed_back(first: Side, second: Side) -> Frontier:
    """The second replica follows the first one, and sees that the Lease went back to this frontier."""
    await first.standby.take_over(1, None)
    await all_see([first, second], "added shop/b", position="100")
    before = published(first)
    second.standby.observe(before)
    await first.sees("added shop/a", position="110")
    for sink in SINKS:
        await first.delivers(sink)
    second.standby.observe(published(first))
    second.standby.observe(before)
    assert second.standby.exact("audit"), "by its own lists"
    return before


@asynccontextmanager
async def again(directory: Path) -> AsyncIterator[Side]:
    """The next process of a replica, on the files that a kill left."""
    async with opened(directory, SINKS) as outbox:
        side = Side(outbox, await joined(outbox, "kubedelta-1_2"))
        side.pods.epoch = (await side.pods.begin(outbox)).epoch
        yield side


async def test_a_follower_saw_that_the_lease_went_back(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        before = await followed_back(first, second)
        await second.standby.take_over(2, before)
        assert set(second.standby.owed) == {*SINKS}
        assert await second.delivers("audit") == ["gap"]
        assert not published(second).restored, "the sinks have the Gap"


async def test_it_remembers_that_after_a_restart(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        before = await followed_back(first, second)
        await second.outbox.maintain()
        directory = crashed(tmp_path / "1", tmp_path / "copy")
    async with again(directory) as side:
        await side.standby.take_over(2, before)
        assert set(side.standby.owed) == {*SINKS}


async def test_a_takeover_sees_that_the_lease_went_back(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        await first.standby.take_over(1, None)
        before = published(first)
        second.standby.observe(published(first))
        await second.standby.take_over(2, before)
        assert set(second.standby.owed) == {*SINKS}


async def test_a_leader_that_may_lack_something_leaves_the_lease(tmp_path: Path) -> None:
    """A killed leader has delivered the pod shop/a, which the restore undoes."""
    async with replicas(tmp_path, 3) as [first, second, third]:
        await third.sees("added shop/b", position="100")
        await lagging_leader([first, second], killed=True)
        before = second.standby.found
        assert before is not None
        found = published(second)
        third.standby.observe(found)
        await second.sees(position="130")
        assert not second.standby.others.lost(found), "the Lease did not go back"
        assert second.standby.others.lost(before), "it had not passed the bound at its last renewal"
        left = published(second, last=True)
        assert left.restored
        assert left.of("audit", PODS_KEY) is None
        await third.standby.take_over(3, left, released=True)
        assert set(third.standby.owed) == {*SINKS}
        assert third.standby.selected.waypoints.reached[PODS_KEY].epoch > 1


async def test_a_leader_that_had_everything_stays(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        await lagging_leader([first, second], killed=True)
        others, before = second.standby.others, published(second)
        others.bound({PODS_KEY: point(115)}, others.takeovers)
        await second.sees("added shop/a", position="115")
        published(second)
        assert not others.lost(before)
        assert not published(second).restored


async def test_a_bound_counts_where_an_epoch_begins(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        lease = (await lagging_leader([first, second], killed=True)).lease
        second.standby.others.bound({PODS_KEY: point(115)}, second.standby.others.takeovers)
        await notices(second)
        await lists(second, position="105")
        assert not second.standby.leading
        await second.standby.take_over(3, lease[0], released=True)
        assert set(second.standby.owed) == {*SINKS}


async def test_it_remembers_a_bound_after_a_kill_in_the_epoch(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        await lagging_leader([first, second], killed=True)
        found = published(second)
        await notices(second)
        directory = crashed(tmp_path / "1", tmp_path / "copy")
    async with again(directory) as side:
        await side.standby.take_over(3, found)
        assert set(side.standby.owed) == {*SINKS}


async def test_a_leader_says_nothing_of_an_epoch_before(tmp_path: Path) -> None:
    """The restored store uses the versions of that epoch again."""
    async with replicas(tmp_path) as [first, second]:
        await first.standby.take_over(1, None)
        await all_see([first, second], "added shop/b", position="100")
        await first.delivers("audit")
        assert published(first).of("audit", PODS_KEY) == point(100)
        await notices(first)
        found = published(first)
        assert found.of("audit", PODS_KEY) is None
        second.standby.observe(found)
        assert not second.standby.exact("audit")
        await lists(first, position="95")
        await first.delivers("audit")
        assert published(first).of("audit", PODS_KEY) == Point(2, "95")


async def test_ids_behind_a_restore_are_new(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        await first.standby.take_over(1, None)
        before = published(first)
        first.pods.epoch = 7
        await first.sees("added shop/a", position="110")
        await first.delivers("audit")
        second.standby.observe(published(first))
        await second.sees("added shop/b", position="105")
        await second.standby.take_over(2, before)
        directory = crashed(tmp_path / "1", tmp_path / "copy")
        await second.sees("updated shop/b", position="110")
        [waiting, later] = await epochs_in_log(second.outbox)
        assert waiting == later > 7
        await second.delivers("audit")
        assert published(second).of("audit", PODS_KEY) == Point(later, "110")
        second.standby.step_down()
        assert second.standby.selected.waypoints.listed(PODS_KEY) == Point(later, "90")
    async with again(directory) as side:
        assert side.pods.epoch == later


async def test_an_earlier_version_numbers_no_renewals(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        await first.standby.take_over(1, None)
        text = frontier.encode(first.standby.published())
        found = frontier.decode(text.replace('"renewal":1,', ""))
        assert found.renewal == 0
        second.standby.observe(found)
        await second.standby.take_over(2, found)
        assert not second.standby.owed
