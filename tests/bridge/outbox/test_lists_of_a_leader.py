"""A leader whose watch is behind what the leader before delivered, and that has to list before it has caught up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from bridge.facts import Fact
from bridge.facts.election import LeadershipResigned
from bridge.model.change import Evidence
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.model.versions.frontier import Frontier, informer_key
from tests.bridge.outbox.opened import crashed, joined, opened
from tests.bridge.outbox.test_standby import PODS_KEY, SINKS, Side, all_see, point, published, replicas
from tests.kit.informed import DEPLOYMENTS, PODS, Informed


async def lists(side: Side, *steps: str, position: str | None, evidence: Evidence = Evidence.RELISTED) -> None:
    """A page of a list (``position`` None), or its end."""
    side.pods.evidence = evidence
    batch = side.pods.batch([side.pods.change(each) for each in steps], position)
    batch.listed = position is not None
    side.pods.offload(batch, await side.outbox.append(batch))


class Resigning:
    """The part of an elector: renews the Lease a last time, and leaves it."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.lease: list[Frontier] = []
        side.standby.resign = self.resign

    async def resign(self) -> None:
        self.lease.append(published(self.side, last=True))
        self.side.standby.step_down()


async def lead_and_deliver(sides: Sequence[Side]) -> None:
    """The first replica leads, and has delivered what all have seen: the pod shop/b, up to version 100."""
    first = sides[0]
    await first.standby.take_over(1, None)
    await all_see(sides, "added shop/b", position="100")
    for sink in SINKS:
        await first.delivers(sink)


async def lagging_leader(sides: Sequence[Side], *, killed: bool = False) -> Resigning:
    """The first replica has delivered the pod shop/a, of version 110; the second one leads, and has not seen it.
    ``killed``: before the first one could publish that."""
    first, second = sides
    await lead_and_deliver(sides)
    found = published(first)
    second.standby.observe(found)
    await first.sees("added shop/a", position="110")
    for sink in SINKS:
        await first.delivers(sink)
    if not killed:
        found = published(first, last=True)
    assert found.of("audit", PODS_KEY) == point(100 if killed else 110)
    first.standby.step_down()
    await second.standby.take_over(2, found, released=not killed)
    assert not second.standby.owed, "it is exact"
    return Resigning(second)


@pytest.mark.parametrize("pages", [[], ["updated shop/b"]], ids=["no page", "a page"])
async def test_it_leaves_the_lease_to_one_that_has_seen_it(tmp_path: Path, pages: list[str]) -> None:
    facts: list[Fact] = []
    async with replicas(tmp_path, facts=facts) as [first, second]:
        lease = (await lagging_leader([first, second])).lease
        await first.sees("deleted shop/a", position="120")
        for page in pages:
            await lists(second, page, position=None)
        await lists(second, position="130")

        assert [each for each in facts if isinstance(each, LeadershipResigned)] == [LeadershipResigned(2, "pods")]
        assert not second.standby.leading
        assert not second.standby.exact("audit")
        assert [each.of("audit", PODS_KEY) for each in lease] == [point(110)]
        first.standby.observe(lease[0])
        assert first.standby.exact("audit")
        await first.standby.take_over(3, lease[0])
        assert await first.delivers("audit") == ["deleted shop/a"]


async def test_it_leads_again_with_a_gap_and_a_snapshot(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        lease = (await lagging_leader([first, second])).lease
        await lists(second, "updated shop/b", position="130")
        await second.standby.take_over(3, lease[0], released=True)
        assert set(second.standby.owed) == {*SINKS}
        assert await second.delivers("audit") == ["updated shop/b", "gap"]
        await lists(second, position="140")
        assert len(lease) == 1, "the sinks get a snapshot in any case"
        assert published(second).of("audit", PODS_KEY) == point(140)


@pytest.mark.parametrize("bound", [None, 115], ids=["no bound yet", "a bound"])
async def test_it_may_lack_what_a_killed_leader_never_published(tmp_path: Path, bound: int | None) -> None:
    async with replicas(tmp_path) as [first, second]:
        lease = (await lagging_leader([first, second], killed=True)).lease
        others = second.standby.others
        if bound is not None:
            others.bound({PODS_KEY: point(bound)}, others.takeovers)
        await lists(second, position="130")
        assert not second.standby.leading
        await second.standby.take_over(3, lease[0], released=True)
        assert set(second.standby.owed) == {*SINKS}


async def test_it_goes_on_behind_the_bound_of_a_killed_leader(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        lease = (await lagging_leader([first, second], killed=True)).lease
        others = second.standby.others
        others.bound({PODS_KEY: point(115)}, others.takeovers)
        assert published(second).bounds == {PODS_KEY: point(115)}
        second.pods.versions = iter([109, 110])
        await second.sees("added shop/a", position="110")
        await second.sees(position="116")
        await lists(second, "deleted shop/a", position="130")
        assert (lease, second.standby.leading) == ([], True)
        for sink in SINKS:
            await second.delivers(sink)
        assert published(second).bounds == {}, "all sinks are behind it"


async def test_the_next_leader_knows_the_bound(tmp_path: Path) -> None:
    async with replicas(tmp_path, number=3) as [first, second, third]:
        await lagging_leader([first, second], killed=True)
        others = second.standby.others
        others.bound({PODS_KEY: point(115)}, others.takeovers)
        found = published(second, last=True)
        second.standby.step_down()
        await third.sees(position="100")
        await third.standby.take_over(3, found, released=True)
        assert not third.standby.owed, "it is exact"
        lease = Resigning(third).lease
        await lists(third, position="130")
        assert len(lease) == 1


async def test_a_bound_of_an_earlier_takeover_is_no_bound(tmp_path: Path) -> None:
    """The answer came when another replica had led in between."""
    async with replicas(tmp_path) as [first, second]:
        await lagging_leader([first, second], killed=True)
        others = second.standby.others
        takeover = others.takeovers
        behind_another = replace(published(second), term=3, by="kubedelta-2_1")
        second.standby.step_down()
        await second.standby.take_over(4, behind_another)
        others.bound({PODS_KEY: point(115)}, takeover)
        assert others.without_bound == {PODS_KEY}


@pytest.mark.parametrize(("reached", "owed"), [("114", {*SINKS}), ("116", set())], ids=["behind it", "beyond it"])
async def test_a_restart_keeps_the_bound(tmp_path: Path, reached: str, owed: set[str]) -> None:
    async with replicas(tmp_path) as [first, second]:
        await lagging_leader([first, second], killed=True)
        others = second.standby.others
        others.bound({PODS_KEY: point(115)}, others.takeovers)
        found = published(second)
        await second.outbox.maintain()
        directory = crashed(tmp_path / "1", tmp_path / "copy")
    async with opened(directory, SINKS) as outbox:
        again = Side(outbox, await joined(outbox, "kubedelta-1_2"))
        await again.pods.begin(outbox)
        await again.sees(position=reached)
        await lists(again, position="130")
        await again.standby.take_over(3, found)
        assert set(again.standby.owed) == owed


async def test_a_last_frontier_behind_a_silent_holder_is_not_the_last(tmp_path: Path) -> None:
    """A holder that published nothing may have delivered."""
    async with replicas(tmp_path) as [first, second]:
        await lead_and_deliver([first, second])
        found = published(first, last=True)
        assert found.final
        assert found.bounds == {}
        first.standby.step_down()
        await second.standby.take_over(3, found, released=False)
        assert second.standby.others.without_bound == {PODS_KEY}
        second.standby.step_down()
        assert not second.standby.others.unbounded.is_set(), "a follower asks for nothing"
        second.standby.others.bound({PODS_KEY: point(115)}, second.standby.others.takeovers)
        assert second.standby.others.without_bound == {PODS_KEY}


async def test_a_leader_that_ends_in_a_list_has_no_bound(tmp_path: Path) -> None:
    """Objects of the list may be at the destination, and the list has no version yet."""
    async with replicas(tmp_path) as [first, _second]:
        await first.standby.take_over(1, None)
        await first.sees("added shop/b", position="100")
        await lists(first, "updated shop/b", position=None)
        assert published(first, last=True).bounds == {PODS_KEY: None}


async def test_a_new_informer_is_in_the_lease_before_its_first_list(tmp_path: Path) -> None:
    """Another replica could not know that objects of it were delivered."""
    async with replicas(tmp_path) as [first, _second]:
        await first.standby.take_over(1, None)
        published(first)
        named: list[set[str]] = []

        async def confirm() -> None:
            named.append({*published(first).informers})

        first.standby.confirm = confirm
        deployments = await Informed(DEPLOYMENTS).begin(first.outbox)
        deployments.evidence = Evidence.LISTED
        for position in ("100", "110"):
            batch = deployments.batch([], position)
            batch.listed = True
            await first.outbox.append(batch)
        await lists(first, "added shop/b", position="120")
        assert named == [{PODS_KEY, informer_key(DEPLOYMENTS.name, Scope())}], "once, and for no known informer"


async def test_a_backlog_bounds_what_a_leader_left_in_order(tmp_path: Path) -> None:
    """A request that was under way at its end may have stored more than the leader settled."""
    async with replicas(tmp_path) as [first, second]:
        await lead_and_deliver([first, second])
        await first.sees("added shop/a", position="110")
        await first.delivers("audit")
        found = published(first, last=True)
        assert found.final
        assert found.bounds == {PODS_KEY: point(110)}
        first.standby.step_down()
        second.standby.observe(found)
        await second.standby.take_over(2, found, released=True)
        assert published(second).final is False
        lease = Resigning(second).lease
        await lists(second, position="130")
        assert len(lease) == 1


@pytest.mark.parametrize("page", [False, True], ids=["before the list", "behind a page"])
async def test_it_remembers_that_after_a_kill(tmp_path: Path, page: bool) -> None:
    async with replicas(tmp_path) as [first, second]:
        lease = (await lagging_leader([first, second])).lease
        if page:
            await lists(second, "updated shop/b", position=None)
        else:
            await second.outbox.ledger.discard_positions([(PODS, Scope())], restored=False)
            lease.append(published(second))
        directory = crashed(tmp_path / "1", tmp_path / "copy")
    async with opened(directory, SINKS) as outbox:
        again = Side(outbox, await joined(outbox, "kubedelta-1_2"))
        await again.pods.begin(outbox)
        await again.standby.take_over(3, lease[0])
        assert set(again.standby.owed) == {*SINKS}


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
async def test_a_takeover_under_way_is_called_off(tmp_path: Path, again: bool) -> None:
    """``again``: it had listed too early before, too."""
    async with replicas(tmp_path) as [first, second]:
        await first.standby.take_over(1, None)
        await all_see([first, second], "added shop/b", position="100")
        await first.sees("added shop/a", position="110")
        for sink in SINKS:
            await first.delivers(sink)
        found = published(first)
        resigned = asyncio.Event()

        async def resign() -> None:
            resigned.set()

        second.standby.resign = resign
        if again:
            second.standby.others.note()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(second.standby.take_over(2, found))
            await asyncio.sleep(0)
            assert not second.standby.leading
            await lists(second, position="130")
            assert resigned.is_set()
        assert second.standby.others.overtaken, "the next takeover sends a Gap"


async def test_what_a_destination_has_counts_as_the_lease_does(tmp_path: Path) -> None:
    """With exactly once: the former leader's last transaction came behind its last renewal."""
    async with replicas(tmp_path) as [first, second]:
        await lead_and_deliver([first, second])
        await second.standby.take_over(2, published(first))
        lease = Resigning(second).lease
        second.standby.others.learn("audit", {PODS_KEY: point(110)})
        await second.outbox.maintain()
        directory = crashed(tmp_path / "1", tmp_path / "copy")
        await lists(second, position="130")
        assert [(each.of("audit", PODS_KEY), each.of("slow", PODS_KEY)) for each in lease] == [(point(100), point(100))]
    async with opened(directory, SINKS) as outbox:
        again = Side(outbox, await joined(outbox, "kubedelta-1_2"))
        known = again.standby.others.frontier
        assert known is not None
        assert (known.of("audit", PODS_KEY), known.of("slow", PODS_KEY)) == (point(110), point(100)), "it is saved"


async def test_one_that_has_caught_up_goes_on(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        lease = (await lagging_leader([first, second])).lease
        second.pods.versions = iter([109, 110])
        await second.sees("added shop/a", position="110")
        await lists(second, "deleted shop/a", position="130")
        assert second.standby.leading
        assert not lease
        records = [each for each in (await second.outbox.read(0, 100)).items if isinstance(each, Delta)]
        assert [(each.op, each.evidence) for each in records][-1] == ("deleted", Evidence.RELISTED)


async def test_one_that_leads_again_after_a_restart_goes_on(tmp_path: Path) -> None:
    """Its own progress in the Lease is further than the position that was saved before the kill."""
    async with replicas(tmp_path) as [first, second]:
        await lagging_leader([first, second])
        second.pods.versions = iter([109, 110])
        await second.sees("added shop/a", position="110")
        directory = crashed(tmp_path / "1", tmp_path / "copy")
        for sink in SINKS:
            await second.delivers(sink)
        await second.sees(position="125")
        found = published(second)
        assert found.of("audit", PODS_KEY) == point(125)
    async with opened(directory, SINKS) as outbox:
        again = Side(outbox, await joined(outbox, "kubedelta-1_2"))
        await again.pods.begin(outbox)
        await again.standby.take_over(3, found)
        lease = Resigning(again).lease
        await lists(again, "updated shop/b", position="130")
        assert (lease, again.standby.leading, again.standby.owed) == ([], True, {})


async def test_a_resync_is_no_reason(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        lease = (await lagging_leader([first, second])).lease
        await second.sees("sync shop/b", position=None)
        assert (lease, second.standby.leading) == ([], True)
