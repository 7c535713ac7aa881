"""Two replicas, each with its own outbox: one leads, the other follows, and takes over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random
from string import printable

import pytest
from msgspec.structs import replace

from bridge.facts import Fact, KeptElsewhere
from bridge.model.change import Evidence
from bridge.model.dead_letter import NewDeadLetter
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, Record
from bridge.model.resource import Scope
from bridge.model.versions import frontier
from bridge.model.versions.frontier import Frontier, Point, informer_key
from bridge.model.versions.held import digest_of
from bridge.outbox import Outbox, Standby
from tests.bridge.outbox.opened import crashed, feeds_of, joined, opened, rows_of, story
from tests.kit.informed import PODS, Informed

SINKS = dict.fromkeys(("audit", "slow"), StartPolicy.NOW)
PODS_KEY = informer_key("pods", Scope())
SHOP_A = digest_of(("pods", "shop/a"))


class Side:
    """A replica whose informer sees the versions of both: 100, 101, …"""

    def __init__(self, outbox: Outbox, standby: Standby) -> None:
        self.outbox = outbox
        self.standby = standby
        self.pods = Informed()

    async def sees(self, *steps: str, position: str | None) -> Sequence[Delta]:
        return await self.pods.exports(self.outbox, *steps, position=position)

    async def delivers(self, sink: str, most: int = 100) -> list[str]:
        """Takes at most so many records, and settles them."""
        processor, feeds = feeds_of(self.outbox).processor, feeds_of(self.outbox)
        feed = feeds.feed(sink)
        found: list[Record] = []
        while len(found) < most and not feed.exhausted:
            fetch = await feed.take(most - len(found))
            found += fetch.items
            feed.settle(fetch)
        assert sink in processor.listeners
        feeds.end(sink)
        return story(found)


@asynccontextmanager
async def replicas(root: Path, number: int = 2, facts: list[Fact] | None = None) -> AsyncIterator[list[Side]]:
    async with AsyncExitStack() as stack:
        sides = []
        for each in range(number):
            (root / str(each)).mkdir()
            outbox = await stack.enter_async_context(opened(root / str(each), SINKS, facts=facts))
            side = Side(outbox, await joined(outbox, f"kubedelta-{each}_1"))
            await side.pods.begin(outbox)
            await side.sees(position="90")
            sides.append(side)
        yield sides


async def all_see(sides: Sequence[Side], *steps: str, position: str | None) -> None:
    first = next(iter(sides)).pods.versions
    number = next(first)
    for side in sides:
        side.pods.versions = count(number)
        await side.sees(*steps, position=position)


def published(side: Side, *, last: bool = False) -> Frontier:
    """As it comes out of the Lease."""
    found = frontier.decode(frontier.encode(side.standby.published(last=last)))
    side.standby.renewed()
    return found


def point(version: int) -> Point:
    return Point(1, str(version))


async def test_a_follower_lets_go_of_what_the_leader_delivered(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", "added shop/b", position="110")
        await all_see([leader, follower], "updated shop/a", position="120")
        await leader.delivers("audit")
        await leader.delivers("slow", 2)
        found = published(leader)
        assert (found.term, found.by, found.cluster, found.sequence) == (1, "kubedelta-0_1", "prod", 3)
        assert found.of("audit", PODS_KEY) == point(120)
        assert found.of("slow", PODS_KEY) == point(110)

        follower.standby.observe(found)
        assert [follower.outbox.sinks[sink].settled for sink in SINKS] == [3, 2]
        await follower.outbox.maintain()
        assert follower.outbox.first == 3

        await leader.delivers("slow")
        follower.standby.observe(published(leader))
        await follower.outbox.maintain()
        assert follower.outbox.records == 0


async def test_a_follower_without_frontier_keeps_everything(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        await leader.delivers("audit")
        await follower.outbox.maintain()
        assert follower.outbox.first == 1


async def test_a_frontier_in_a_longer_form_stops_no_replica(tmp_path: Path) -> None:
    """Whoever may update the Lease may write a frontier that is too long once it is compressed."""
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        noise = Random(1)
        settings = {"".join(noise.choices(printable[:94], k=512)): "" for _ in range(500)}
        found = replace(published(leader), settings=settings)
        with pytest.raises(ValueError, match="an annotation holds"):
            frontier.encode(found)
        follower.standby.observe(found)
        await follower.standby.take_over(2, found)
        assert follower.standby.term == 2


async def test_a_frontier_without_positions_has_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", "added shop/b", position="110")
        await leader.delivers("audit")
        with monkeypatch.context() as narrow:
            narrow.setattr(frontier, "MOST_CHARACTERS", 10)
            text, _ = frontier.fitted(leader.standby.published())
        found = frontier.decode(text)
        follower.standby.observe(found)
        assert not follower.standby.exact("audit")
        await follower.standby.take_over(2, found)
        assert follower.standby.ahead >= found.sequence == 2
        assert await follower.delivers("audit") == ["added shop/a", "added shop/b", "gap"]


async def test_the_next_leader_goes_on_behind_the_frontier(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        await leader.delivers("audit")
        found = published(leader)
        await all_see([leader, follower], "updated shop/a", position="120")
        await leader.delivers("audit")  # Not published any more.
        leader.standby.step_down()

        await follower.standby.take_over(2, found)
        assert await follower.delivers("audit") == ["updated shop/a"]
        assert await follower.delivers("slow") == ["added shop/a", "updated shop/a"]
        now = published(follower)
        assert (now.term, now.by) == (2, "kubedelta-1_1")
        assert now.of("slow", PODS_KEY) == point(120)
        leader.standby.observe(now)
        assert leader.outbox.sinks["slow"].settled == 2


async def test_a_replica_that_lags_skips_what_was_delivered(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await leader.sees("added shop/a", "added shop/b", position="110")
        await leader.sees("updated shop/a", position="120")
        await leader.delivers("audit")
        found = published(leader)
        leader.standby.step_down()

        await follower.standby.take_over(2, found)
        await follower.sees("added shop/a", position="102")
        await follower.sees("added shop/b", "updated shop/a", position="115")
        assert published(follower).of("audit", PODS_KEY) == point(120), "it never goes back"
        follower.pods.versions = count(125)
        await follower.sees("updated shop/a", "updated shop/a", position="130")
        assert await follower.delivers("audit") == ["updated shop/a", "updated shop/a"]
        assert len(await follower.delivers("slow")) == 5
        assert published(follower).of("audit", PODS_KEY) == point(130)


async def test_a_batch_may_be_delivered_in_part(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await leader.sees("added shop/a", position="101")
        await leader.delivers("audit")
        found = published(leader)
        await follower.sees("added shop/a", "added shop/b", position="110")
        follower.standby.observe(found)
        assert follower.outbox.sinks["audit"].settled == 0
        await follower.standby.take_over(2, found)
        assert await follower.delivers("audit") == ["added shop/b"]
        assert await follower.delivers("slow") == ["added shop/a", "added shop/b"]


async def test_a_standby_is_exact_once_its_list_is_passed(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        assert leader.standby.exact("audit")
        assert not follower.standby.exact("audit"), "it knows no leader"
        await leader.sees("added shop/a", position="110")
        follower.pods.evidence = Evidence.LISTED
        await follower.sees("added shop/a", position=None)
        await leader.delivers("audit")
        follower.standby.observe(published(leader))
        assert not follower.standby.exact("audit"), "its list is under way"
        await follower.sees(position="115")
        assert not follower.standby.exact("audit"), "the leader has not come so far"
        await leader.sees(position="115")
        follower.standby.observe(published(leader))
        assert follower.standby.exact("audit")
        assert not follower.standby.exact("slow"), "the leader has delivered nothing to it"


@pytest.mark.parametrize("steps", [(), ("updated shop/a",)], ids=["without a difference", "in one batch"])
async def test_a_standby_that_listed_anew_is_not_exact(tmp_path: Path, steps: tuple[str, ...]) -> None:
    """Objects may have come and gone meanwhile, which the leader has watched."""
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        await leader.delivers("audit")
        follower.standby.observe(published(leader))
        assert follower.standby.exact("audit")
        batch = follower.pods.batch([follower.pods.change(step) for step in steps], "120")
        batch.listed = True
        await follower.outbox.append(batch)
        follower.standby.observe(published(leader))
        assert not follower.standby.exact("audit")
        await leader.sees("added shop/b", "deleted shop/b", position="120")
        await leader.delivers("audit")
        follower.standby.observe(published(leader))
        assert follower.standby.exact("audit")


async def test_a_replica_that_is_not_exact_says_so_by_a_gap(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await leader.sees("added shop/a", position="110")
        await leader.delivers("audit")
        follower.pods.evidence = Evidence.LISTED
        await follower.sees("added shop/a", position=None)
        await follower.sees(position="120")
        await follower.standby.take_over(2, published(leader))
        assert await follower.delivers("audit") == ["added shop/a", "gap"]
        await follower.sees("updated shop/a", position="130")
        assert published(follower).of("slow", PODS_KEY) == point(90), "nothing is settled before the Gap"
        assert await follower.delivers("slow") == ["added shop/a", "gap", "updated shop/a"]
        assert published(follower).of("slow", PODS_KEY) == point(130)
        assert not (await follower.outbox.check()).problems


async def test_numbers_ascend_over_leaders(tmp_path: Path) -> None:
    async with replicas(tmp_path, 3) as [first, second, third]:
        await first.standby.take_over(1, None)
        assert first.standby.ahead == 0
        await all_see([first, second, third], *(f"added shop/{each}" for each in "abcdef"), position="200")
        await first.delivers("audit")
        found = published(first)
        await second.standby.take_over(2, found)
        assert second.outbox.sinks["slow"].settled + second.standby.ahead >= found.sequence
        ahead = second.standby.ahead
        again = published(second)
        assert again.sequence == 6 + ahead
        await second.standby.take_over(3, again)
        assert second.standby.ahead == ahead, "no other replica has led since"
        await third.standby.take_over(4, published(second))
        assert third.outbox.sinks["slow"].settled + third.standby.ahead >= again.sequence


async def test_numbers_begin_at_the_clock_without_a_lease(tmp_path: Path) -> None:
    async with opened(tmp_path, SINKS) as outbox:
        standby = await joined(outbox, number_now=lambda: 5_000)
        await standby.take_over(7, None)
        assert standby.ahead == 5_000


async def test_a_takeover_survives_a_crash(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", "added shop/b", position="110")
        await leader.delivers("audit")
        found = published(leader)
        await follower.standby.take_over(2, found)
        copy = crashed(tmp_path / "1", tmp_path / "copy")
        ahead = follower.standby.ahead
    async with opened(copy, SINKS) as outbox:
        standby = await joined(outbox, "kubedelta-1_2")
        assert (standby.term, standby.ahead, standby.leading) == (2, ahead, False)
        assert [outbox.sinks[sink].settled for sink in SINKS] == [2, 0]
        with pytest.raises(ValueError, match="term 2 does not come after term 2"):
            await standby.take_over(2, None)
        await standby.take_over(3, None)
        assert standby.published().of("audit", PODS_KEY) == point(110), "the saved frontier stands in for the Lease's"


async def test_a_follower_remembers_the_newest_term(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(6, None)
        follower.standby.observe(published(leader))
        assert follower.standby.term == 6
        await follower.sees("added shop/a", position="110")
        copy = crashed(tmp_path / "1", tmp_path / "copy")
    async with opened(copy, SINKS) as outbox:
        assert (await joined(outbox)).term == 6


async def test_the_frontier_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        await leader.delivers("audit")
        found = frontier.decode(frontier.encode(leader.standby.published()).replace('"prod"', '"other"'))
        follower.standby.observe(found)
        assert follower.outbox.sinks["audit"].settled == 0
        with pytest.raises(ValueError, match="the frontier of cluster other, and this bridge is for prod: give each"):
            await follower.standby.take_over(2, found)


async def test_a_compacted_backlog_of_a_follower_is_let_go(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", "added shop/b", position="110")
        await all_see([leader, follower], "updated shop/a", position="120")
        feed = feeds_of(follower.outbox).feed("slow")
        assert await feed.compact() == (3, 3), "any record may have been delivered"
        feeds_of(follower.outbox).end("slow")
        await leader.delivers("slow", 2)
        follower.standby.observe(published(leader))
        await follower.outbox.maintain()
        assert follower.outbox.sinks["slow"].backfill is not None
        assert not follower.standby.exact("slow"), "a takeover would send a Gap"
        assert follower.standby.exact("audit")
        copy = crashed(tmp_path / "1", tmp_path / "copy")

        await leader.delivers("slow")
        follower.standby.observe(published(leader))
        assert follower.outbox.sinks["slow"].backfill is None
        assert follower.outbox.sinks["slow"].settled == 3
        assert follower.standby.exact("slow")
        found = published(leader)
    async with opened(copy, SINKS) as outbox:
        standby = await joined(outbox)
        await Informed().begin(outbox)
        await standby.take_over(2, found)
        assert outbox.sinks["slow"].backfill is None


async def test_a_gap_stands_behind_a_leader_without_a_frontier(tmp_path: Path) -> None:
    """Somebody has removed the frontier from the Lease, or it cannot be read."""
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader], "added shop/a", position="110")
        await leader.delivers("audit")
        found = published(leader)
        assert found.term == 1
        await follower.sees("added shop/b", position="120")
        await follower.standby.take_over(2, None)
        assert await follower.delivers("audit") == ["added shop/b", "gap"]
        assert set(follower.standby.owed) == {*SINKS}


async def test_a_replica_that_led_last_needs_no_frontier(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, _follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader], "added shop/a", position="110")
        await leader.outbox.maintain()
        copy = crashed(tmp_path / "0", tmp_path / "copy")
    async with opened(copy, SINKS) as outbox:
        again = Side(outbox, await joined(outbox))
        await again.pods.begin(outbox)
        await again.standby.take_over(2, None)
        assert await again.delivers("audit") == ["added shop/a"]
        assert not again.standby.owed


async def test_a_compacted_backlog_has_a_gap_behind_it(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", "added shop/b", position="110")
        await all_see([leader, follower], "updated shop/a", position="120")
        await leader.delivers("slow", 2)
        feed = feeds_of(follower.outbox).feed("slow")
        await feed.compact()
        feeds_of(follower.outbox).end("slow")
        await follower.standby.take_over(2, published(leader))
        assert await follower.delivers("slow") == ["updated shop/a", "gap"]


async def test_a_snapshot_begins_anew_under_another_leader(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        await leader.delivers("audit")
        await leader.outbox.registration.begin({"late": StartPolicy.SNAPSHOT}, (), before=False)
        await follower.outbox.registration.begin({"late": StartPolicy.NOW}, (), before=False)
        assert await leader.delivers("late", 1) == ["snapshot"]
        found = published(leader)
        assert found.sinks["late"].backfill == "snapshot"
        await follower.standby.take_over(2, found)
        assert await follower.delivers("late") == ["snapshot", "added shop/a", "snapshot"]
        assert published(follower).sinks["late"].backfill == ""


async def test_dead_letters_are_published_by_number(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        [rejected] = await leader.sees("added shop/a", position="110")
        dead_letters = leader.outbox.sinks.dead_letters["audit"]
        await dead_letters.add_dead_letters([NewDeadLetter(rejected, "too large", parked=False)])
        found = published(leader).sinks["audit"]
        assert (found.dead_letters, found.objects, found.parked) == (1, 1, SHOP_A)


async def test_objects_with_dead_letters_elsewhere_are_held_back(tmp_path: Path) -> None:
    facts: list[Fact] = []
    async with replicas(tmp_path, facts=facts) as [leader, follower]:
        await leader.standby.take_over(1, None)
        [rejected] = await leader.sees("added shop/a", position="110")
        await leader.outbox.sinks.dead_letters["audit"].add_dead_letters([NewDeadLetter(rejected, "no", parked=False)])
        await follower.standby.take_over(2, published(leader))
        held = follower.outbox.sinks.dead_letters["audit"]
        assert ("pods", "shop/a") in held.keys
        assert KeptElsewhere("audit", "1 dead letters", "kubedelta-0_1") in facts
        assert published(follower).sinks["audit"].parked == SHOP_A
        assert published(follower).kept.keys() == {"kubedelta-0"}

        [later] = await follower.sees("added shop/a", position="110")
        await held.add_dead_letters([NewDeadLetter(later, "parked", parked=True)])
        await held.drop(None)
        assert not held.keys


async def test_a_leader_that_starts_again_has_its_own_dead_letters(tmp_path: Path) -> None:
    facts: list[Fact] = []
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        [rejected] = await leader.sees("added shop/a", position="110")
        await leader.outbox.sinks.dead_letters["audit"].add_dead_letters([NewDeadLetter(rejected, "no", parked=False)])
        found = published(leader)
        ahead = leader.standby.ahead
        left = crashed(tmp_path / "0", tmp_path / "left")
    async with opened(left, SINKS, facts=facts) as outbox:
        standby = await joined(outbox, "kubedelta-0_2")
        await Informed().begin(outbox)
        await standby.take_over(2, found)
        assert standby.ahead == ahead
        assert not [each for each in facts if isinstance(each, KeptElsewhere)]


async def test_a_copied_directory_has_not_led(tmp_path: Path) -> None:
    """The leader went on after the copy: the copy lacks what came and went, and must not use its numbers again."""
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        await leader.sees("added shop/a", position="110")
        copy = crashed(tmp_path / "0", tmp_path / "copy")
        await leader.sees("added shop/b", "added shop/c", position="120")
        await leader.delivers("audit")
        found = published(leader)
    async with opened(copy, SINKS) as outbox:
        side = Side(outbox, await joined(outbox, "kubedelta-7_1"))
        await side.pods.begin(outbox)
        side.pods.evidence = Evidence.RELISTED
        await side.sees("updated shop/a", position=None)
        await side.standby.take_over(2, found)
        assert outbox.last + side.standby.ahead > found.sequence
        assert (await side.delivers("audit"))[-1] == "gap"


@pytest.mark.parametrize("starts", [1, 2])
async def test_a_backup_of_the_own_directory_has_not_led(tmp_path: Path, starts: int) -> None:
    """Term and replica are the same, and records came after the backup; its numbers grow before it takes over."""
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        await leader.sees("added shop/a", position="110")
        backup = crashed(tmp_path / "0", tmp_path / "backup")
        await leader.sees("added shop/b", "added shop/c", position="120")
        await leader.delivers("audit")
        found = published(leader)
    for start in range(1, starts + 1):
        async with opened(backup, SINKS) as outbox:
            side = Side(outbox, await joined(outbox, f"kubedelta-0_{start + 1}"))
            await side.pods.begin(outbox)
            side.pods.evidence, side.pods.versions = Evidence.RELISTED, count(100 + 30 * start)
            await side.sees(*["updated shop/a"] * 5, position=None)
            if start == starts:
                await side.standby.take_over(2, found)
                assert side.standby.ahead > found.sequence
                assert (await side.delivers("audit"))[-1] == "gap"


async def test_a_replay_ends_with_its_leader(tmp_path: Path) -> None:
    facts: list[Fact] = []
    async with replicas(tmp_path, facts=facts) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        feed = feeds_of(leader.outbox).feed("audit")
        feed.settle(await feed.take(10))
        await feed.replay(0, None, None)
        found = published(leader)
        assert (found.sinks["audit"].backfill, found.replays) == ("replay", 1)
        await follower.standby.take_over(2, found)
        assert follower.outbox.sinks["audit"].backfill is None
        assert [each.what for each in facts if isinstance(each, KeptElsewhere)] == [
            "a replay under way; ask for it again"
        ]


async def test_a_follower_goes_on_in_the_epoch_of_the_leader(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        leader.pods.epoch = 3
        await leader.sees("added shop/a", position="110")
        await leader.delivers("audit")
        await follower.sees("added shop/a", position="105")
        follower.standby.observe(published(leader))
        [earlier] = await follower.sees("updated shop/a", position="110")
        assert earlier.epoch == 3
        follower.standby.observe(published(leader))
        assert follower.standby.exact("audit")
        assert follower.outbox.sinks["audit"].settled == 2
        found = published(leader)
        copy = crashed(tmp_path / "1", tmp_path / "copy")
    async with opened(copy, SINKS) as outbox:
        standby = await joined(outbox)
        assert (await Informed().begin(outbox)).epoch == 3
        standby.observe(found)
        assert standby.exact("audit")


async def test_waiting_batches_go_along_into_a_later_epoch(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        leader.pods.epoch = 3
        await all_see([leader, follower], "added shop/a", position="110")
        await all_see([leader, follower], "updated shop/a", position="120")
        await leader.delivers("audit")
        await leader.delivers("slow", 1)
        follower.standby.observe(published(leader))
        await follower.outbox.maintain()
        await follower.standby.take_over(2, published(leader))
        assert published(follower).of("slow", PODS_KEY) == Point(3, "110")
        copy = crashed(tmp_path / "1", tmp_path / "copy")
    async with opened(copy, SINKS) as outbox:
        standby = await joined(outbox, "kubedelta-1_2")
        await Informed().begin(outbox)
        await standby.take_over(3, None)
        assert standby.published().of("slow", PODS_KEY) == Point(3, "110")


async def test_a_batch_on_its_way_goes_along(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        leader.pods.epoch = 3
        await all_see([leader, follower], "added shop/a", position="110")
        await leader.sees("updated shop/a", position="130")
        await leader.delivers("audit")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follower.sees("updated shop/a", position="120"))
            await asyncio.sleep(0)
            follower.standby.observe(published(leader))
        await follower.outbox.maintain()
        assert rows_of(tmp_path / "1", "SELECT DISTINCT epoch FROM waypoints WHERE since IS NOT NULL") == [(3,)]
        follower.standby.observe(published(leader))
        assert follower.standby.exact("audit")
        assert follower.outbox.sinks["audit"].settled == 2


async def test_a_follower_ahead_of_the_leader_keeps_its_epoch(tmp_path: Path) -> None:
    """The leader's server may have been restored from a backup, which the follower is about to notice."""
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await follower.sees("added shop/a", position="200")
        leader.pods.epoch = 2
        await leader.sees("added shop/a", position="110")
        await leader.delivers("audit")
        follower.standby.observe(published(leader))
        [later] = await follower.sees("updated shop/a", position="210")
        assert later.epoch == 1
        assert follower.outbox.sinks["audit"].settled == 0


async def test_a_leader_that_lists_publishes_no_older_epoch(tmp_path: Path) -> None:
    """Of what it knew before it noticed the restore, which the former leader had noticed."""
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await follower.sees("added shop/a", position="200")
        leader.pods.epoch = 2
        await leader.sees("added shop/a", position="107")
        await leader.delivers("audit")
        await follower.standby.take_over(2, published(leader))
        await follower.outbox.ledger.discard_positions([(PODS, Scope())], restored=True)
        await follower.delivers("audit")
        assert published(follower).of("audit", PODS_KEY) == Point(2, "107")


async def test_a_snapshot_after_a_takeover_loses_nothing(tmp_path: Path) -> None:
    """This replica lags: the snapshot sets an object back, so that its later change must come once more."""
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await leader.sees("added shop/a", position="101")
        await leader.sees("updated shop/a", position="102")
        await leader.delivers("audit")
        await follower.sees("added shop/a", position="101")
        await follower.standby.take_over(2, published(leader))
        feed = feeds_of(follower.outbox).feed("audit")
        async with feed.changing_backfill() as taken:
            states = await follower.outbox.snapshots.states_as_of("audit", taken, None, None)
            await follower.outbox.snapshots.begin("audit", taken, states, None, scheduled=False)
        feeds_of(follower.outbox).end("audit")
        assert await follower.delivers("audit") == ["snapshot", "sync shop/a", "snapshot"]
        await follower.sees("updated shop/a", position="102")
        assert await follower.delivers("audit") == ["updated shop/a"]


async def test_only_a_leader_publishes(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        with pytest.raises(RuntimeError, match="a follower has no progress"):
            follower.standby.published()
        leader.standby.step_down()
        with pytest.raises(RuntimeError, match="a follower has no progress"):
            leader.standby.published()


async def test_the_takeover_is_one_transaction(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        await leader.delivers("audit")
        await follower.standby.take_over(2, published(leader))
        copy = crashed(tmp_path / "1", tmp_path / "copy")
    [[term, text]] = rows_of(copy, "SELECT term, frontier FROM meta")
    assert term == 2
    assert frontier.decode(str(text)).term == 1
    assert rows_of(copy, "SELECT sink, settled FROM cursors ORDER BY sink") == [("audit", 1), ("slow", 0)]
