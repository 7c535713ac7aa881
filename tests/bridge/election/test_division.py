"""Another number of shards: who may take whose objects over, as the Leases say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.election.division.heirs import HEIRS, Heirs, heirs_of, text_of
from bridge.election.division.inheriting import Begin, DivisionRefused, Follow, Former, Inherit, Step, next_step
from bridge.election.division.inheritor import Inheritor
from bridge.election.lease import (
    LAST_TERM,
    Lease,
    LeaseHolder,
    MalformedLease,
    created,
    inherited,
    is_handed_over,
    lease_of,
    released,
    with_heirs,
)
from bridge.facts import Fact, ShardInherited, ShardWaits
from bridge.model.primitives.shard import ALL_OBJECTS, Division, Shard
from bridge.model.versions import frontier
from bridge.model.versions.frontier import Frontier, Point, SinkFrontier
from bridge.model.versions.joining import Joined
from tests.bridge.election.lease_store import FakeLeaseApi, LeaseStore
from tests.kit.virtual_time import run_in_virtual_time

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def lease(term: int, holder: str = "pod", heirs: Heirs | None = None, text: str = "") -> Lease:
    claim = LeaseHolder(holder=holder, seconds=15, term=term)
    body = json.loads(created(claim, "apps", "x", text, NOW))
    body["metadata"]["resourceVersion"] = "7"
    body["metadata"]["annotations"][HEIRS] = text_of(heirs)
    return lease_of(json.dumps(body).encode())


def handed_over(term: int, of: int) -> Lease:
    return lease(term, "", Heirs(of, {"0": "a"}, done=True))


def step(mine: Division, own: Lease | None, former_of: int, *leases: Lease | None, highest_term: int = 0) -> Step:
    former = [Former(each, f"x{each.suffix}") for each in (Division(former_of, n) for n in mine.heirs(former_of))]
    return next_step(mine, own, list(zip(former, leases, strict=True)), highest_term)


ONE_OF_FOUR = Division(4, 1)


def test_a_shard_follows_a_former_one_that_delivers() -> None:
    assert step(ONE_OF_FOUR, None, 2, lease(3)) == Follow("")
    assert step(ONE_OF_FOUR, lease(0, ""), 2, lease(3)) == Follow(""), "a Lease that an operator made"


def test_it_inherits_what_was_handed_over() -> None:
    assert step(ONE_OF_FOUR, None, 2, handed_over(3, 4)) == Inherit(3)
    assert step(Division(2, 0), None, 4, handed_over(3, 2), handed_over(9, 2)) == Inherit(9)
    assert step(Division(2, 0), None, 4, handed_over(3, 2), lease(9)) == Follow("")


def test_it_goes_on_with_what_it_has_inherited() -> None:
    assert step(ONE_OF_FOUR, lease(4), 2, handed_over(3, 4)) == Begin()
    assert step(ONE_OF_FOUR, lease(4), 2, None) == Begin()


@pytest.mark.parametrize("former", [None, lease(0, ""), lease(3, ""), lease(3, "", Heirs(4, {"1": "a"}))])
def test_it_waits_for_a_holder(former: Lease | None) -> None:
    found = step(ONE_OF_FOUR, None, 2, former)
    assert isinstance(found, Follow)
    assert "x-0-of-2" in found.waits_for


def test_objects_come_back() -> None:
    assert step(ONE_OF_FOUR, handed_over(3, 2), 2, handed_over(5, 4)) == Inherit(5)
    earlier = step(ONE_OF_FOUR, handed_over(3, 2), 2, handed_over(3, 4))
    assert isinstance(earlier, Follow), "it was handed over before it came to us, and not since"
    assert "no leader yet" in earlier.waits_for


def test_a_bridge_that_was_left_over_is_refused() -> None:
    with pytest.raises(DivisionRefused, match="begin with an empty state directory"):
        step(ONE_OF_FOUR, handed_over(3, 2), 2, lease(5), highest_term=3)
    with pytest.raises(DivisionRefused, match="handed over to 8 shards: stop this bridge"):
        step(ONE_OF_FOUR, handed_over(3, 8), 2, lease(5))
    assert step(ONE_OF_FOUR, handed_over(3, 2), 2, lease(5), highest_term=5) == Follow("")


def test_a_term_to_which_no_election_comes_is_passed_over() -> None:
    """Whoever may write a Lease could end all later elections with it."""
    poisoned = step(Division(2, 0), None, 4, handed_over(3, 2), handed_over(LAST_TERM, 2))
    assert isinstance(poisoned, Follow)
    assert "into the annotation kubedelta/term" in poisoned.waits_for
    assert step(ONE_OF_FOUR, handed_over(LAST_TERM, 2), 2, handed_over(5, 4), highest_term=5) == Inherit(5)


def test_one_change_at_a_time() -> None:
    with pytest.raises(DivisionRefused, match=r"set shard\.former to 8"):
        step(ONE_OF_FOUR, None, 2, handed_over(3, 8))
    with pytest.raises(DivisionRefused, match="is being handed over to a bridge with all objects: finish"):
        step(ONE_OF_FOUR, None, 2, lease(3, heirs=Heirs(1, {"0": "a"})))
    assert step(ONE_OF_FOUR, None, 2, lease(3, heirs=Heirs(1))) == Follow(""), "nobody is entered any more"


def test_two_divisions_that_deliver_are_refused() -> None:
    with pytest.raises(DivisionRefused, match="pod holds its Lease x-0-of-2 again: stop that"):
        step(ONE_OF_FOUR, lease(4), 2, lease(3))


@given(st.integers(0, 8), st.integers(0, 8), st.data())
def test_heirs_have_the_objects_of_a_shard(bits: int, others: int, data: st.DataObject) -> None:
    mine = Division(1 << bits, data.draw(st.integers(0, (1 << bits) - 1)))
    uid, of = data.draw(st.text()), 1 << others

    def has(division: Division) -> bool:
        return division.shard is None or division.shard.contains(uid, "a/b")

    heirs = [Division(of, index) for index in mine.heirs(of)]
    assert not has(mine) or sum(map(has, heirs)) == 1
    assert all(mine.index in each.heirs(mine.of) for each in heirs)
    strangers = set(range(of)) - set(mine.heirs(of))
    assert not has(mine) or not any(has(Division(of, index)) for index in strangers)


def test_an_heir_is_entered_and_taken_away() -> None:
    heirs = Heirs(4).named(0, "a").named(1, "b")
    assert heirs.are_ready(Division(2, 0))
    assert not heirs.are_ready(Division(2, 1))
    assert heirs.without(1, "c") == heirs, "another replica of the same shard"
    assert not heirs.without(1, "b").are_ready(Division(2, 0))
    assert heirs_of(text_of(heirs)) == heirs
    assert heirs_of("") is None


@pytest.mark.parametrize("text", ["{", '{"of":0}', '{"of":4,"ready":{"0":"' + "x" * 600 + '"}}', "[" * 200_000])
def test_a_malformed_annotation_is_named(text: str) -> None:
    body = json.loads(created(LeaseHolder(holder="a", seconds=1, term=1), "apps", "x", "", NOW))
    body["metadata"] |= {"resourceVersion": "7", "annotations": {HEIRS: text}}
    with pytest.raises(MalformedLease, match=HEIRS):
        lease_of(json.dumps(body).encode())


def test_a_release_for_good_is_known() -> None:
    held = lease(3, heirs=Heirs(1, {"0": "a"}))
    body = json.loads(released(held, held.term, "f", NOW, for_good=True))
    body["metadata"]["resourceVersion"] = "8"
    after = lease_of(json.dumps(body).encode())
    assert (is_handed_over(after), after.holder, after.frontier, after.term) == (True, "", "f", 3)


# ── The inheritor, in virtual time ───────────────────────────────────────────


class FakeHeir:
    def __init__(self) -> None:
        self.term = 0
        self.is_exact = False
        self.followed: list[Joined] = []

    def follow(self, former: Joined) -> None:
        self.followed.append(former)

    def exact(self) -> bool:
        return self.is_exact


class Scene:
    """Two shards are joined."""

    def __init__(self) -> None:
        self.own = LeaseStore()
        self.former = [LeaseStore(), LeaseStore()]
        self.heir = FakeHeir()
        self.facts: list[Fact] = []
        self.api = FakeLeaseApi(self.own)
        self.inheritor = Inheritor(
            ALL_OBJECTS,
            "pod-0",
            ("apps", "x"),
            self.api,
            [
                (Former(Division(2, index), f"x-{index}-of-2"), FakeLeaseApi(store))
                for index, store in enumerate(self.former)
            ],
            self.heir,
            pause=2.0,
            timeout=5.0,
            report=self.facts.append,
        )

    def hold(self, index: int, version: int, term: int, published: int | None = None) -> None:
        """``published``: the term of the frontier, if the holder has not published its own yet."""
        found = Frontier(
            1,
            "prod",
            published or term,
            "a",
            "1.0",
            100 * term,
            informers={"pods": Point(1, str(version))},
            sinks={"s": SinkFrontier()},
        )
        claim = LeaseHolder(holder=f"holder-{index}", seconds=15, term=term)
        self.former[index].write(json.loads(created(claim, "apps", "x", frontier.encode(found), NOW)))

    def heirs(self, index: int) -> Heirs | None:
        return heirs_of(self.former[index].annotation(HEIRS))

    def hand_over(self, index: int) -> None:
        held = lease_of(json.dumps(self.former[index].body).encode())
        self.former[index].write(json.loads(released(held, held.term, held.frontier, NOW, for_good=True)))


def play(story: Coroutine[Any, Any, None]) -> None:
    run_in_virtual_time(story)


def test_shards_are_joined_once_both_have_ended() -> None:
    async def story() -> None:
        scene = Scene()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(scene.inheritor.run())
            await asyncio.sleep(10)
            assert [type(each) for each in scene.facts] == [ShardWaits]
            scene.hold(0, 10, term=4)
            scene.hold(1, 12, term=9)
            await asyncio.sleep(10)
            assert scene.heirs(0) is scene.heirs(1) is None
            scene.heir.is_exact = True
            await asyncio.sleep(5)
            assert [scene.heirs(index) for index in (0, 1)] == [Heirs(1, {"0": "pod-0"})] * 2
            scene.heir.is_exact = False
            await asyncio.sleep(5)
            assert [scene.heirs(index) for index in (0, 1)] == [Heirs(1)] * 2
            scene.heir.is_exact = True
            await asyncio.sleep(5)
            scene.hand_over(1)
            await asyncio.sleep(5)
            assert not running.done()
            scene.api.lose_answers = 1
            scene.hand_over(0)
        own = lease_of(json.dumps(scene.own.body).encode())
        found = frontier.decode(own.frontier)
        assert (own.term, own.holder, own.heirs) == (9, "", None)
        assert (found.of("s", "pods"), found.sequence) == (Point(1, "10"), 900)
        assert [(each.shard, each.of("s", "pods")) for each in found.parts] == [
            (Shard(2, 0), Point(1, "10")),
            (Shard(2, 1), Point(1, "12")),
        ]
        assert len([each for each in scene.facts if isinstance(each, ShardInherited)]) <= 1

    play(story())


def test_an_inherited_frontier_is_not_followed() -> None:
    """Its term is one of ours: the state directory would pass for one from before the hand-over."""

    async def story() -> None:
        scene = Scene()
        scene.own.write(dict(handed_over(3, 2).whole))
        scene.hold(0, 10, term=4, published=3)
        scene.hold(1, 12, term=5)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scene.inheritor.run())
            await asyncio.sleep(5)
            assert scene.heir.followed == []
            scene.hold(0, 10, term=4)
            await asyncio.sleep(5)
            assert {each.frontier.term for each in scene.heir.followed} == {5}
            scene.inheritor.stop()

    play(story())


def test_a_frontier_of_a_term_that_never_was_is_not_followed() -> None:
    async def story() -> None:
        scene = Scene()
        scene.hold(0, 10, term=4, published=1 << 53)
        scene.hold(1, 12, term=5)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scene.inheritor.run())
            await asyncio.sleep(5)
            scene.inheritor.stop()
        assert scene.heir.followed == []
        assert "which its Lease x-0-of-2 never had" in str(scene.facts)

    play(story())


def test_a_replica_that_ends_is_taken_away() -> None:
    async def story() -> None:
        scene = Scene()
        scene.hold(0, 10, term=4)
        scene.hold(1, 12, term=9)
        scene.heir.is_exact = True
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scene.inheritor.run())
            await asyncio.sleep(5)
            assert scene.heirs(0) == Heirs(1, {"0": "pod-0"})
            scene.inheritor.stop()
        assert scene.heirs(0) == scene.heirs(1) == Heirs(1)
        assert scene.own.body is None

    play(story())


def test_an_own_lease_is_taken_back_without_its_heirs() -> None:
    before = handed_over(3, 2)
    body = json.loads(inherited(before, "apps", "x", 8, "f", NOW))
    body["metadata"]["resourceVersion"] = "8"
    after = lease_of(json.dumps(body).encode())
    assert (after.term, after.frontier, after.heirs, after.holder) == (8, "f", None, "")
    assert json.loads(with_heirs(before, Heirs(4)))["spec"] == json.loads(json.dumps(before.whole["spec"]))
