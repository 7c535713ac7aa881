"""Objects whose dead letters another replica has: their later records wait, under every leader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from bridge.delivery.parking import Parking
from bridge.facts import Fact, KeptElsewhere, discard
from bridge.model.dead_letter import NewDeadLetter
from bridge.model.policies import OnRejected
from bridge.model.primitives.shard import ALL_OBJECTS, Shard
from bridge.model.record import Delta
from bridge.model.status import PauseCause
from bridge.model.versions.frontier import Frontier, SinkFrontier
from bridge.model.versions.held import MOST_HELD, HeldObjects, digest_of, digests_in
from bridge.model.versions.joining import joined as joined_frontiers
from bridge.model.versions.selection_frontier import SelectionFrontier
from bridge.outbox.standby.progress import Owing, Replica, blank, owing, with_room
from tests.bridge.outbox.opened import crashed, joined, opened
from tests.bridge.outbox.test_standby import SINKS, Side, published, replicas


async def rejects(side: Side, records: Sequence[Delta], sink: str = "audit") -> None:
    letters = [NewDeadLetter(each, "no", parked=False) for each in records]
    await side.outbox.sinks.dead_letters[sink].add_dead_letters(letters)


def waiting(side: Side, records: Sequence[Delta], sink: str = "audit") -> list[str]:
    """The objects of the records that are not delivered."""
    parking = Parking(sink, side.outbox.sinks.dead_letters[sink], OnRejected.PARK, discard)
    return [record.ordering_key[1] for record in parking.split(records)[1] if isinstance(record, Delta)]


async def test_later_records_of_300_objects_wait(tmp_path: Path) -> None:
    facts: list[Fact] = []
    async with replicas(tmp_path, facts=facts) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await rejects(leader, await leader.sees(*(f"added shop/{each}" for each in range(300)), position="900"))
        await follower.standby.take_over(2, published(leader))
        later = await follower.sees(*(f"added shop/{each}" for each in range(301)), position="900")
        assert waiting(follower, later) == [f"shop/{each}" for each in range(300)]
        assert [each.what for each in facts if isinstance(each, KeptElsewhere)] == ["300 dead letters"]
        assert follower.outbox.sinks["audit"].paused is PauseCause.NONE


async def test_a_parked_record_waits_for_one_on_another_replica(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await rejects(leader, await leader.sees("added shop/a", position="110"))
        await follower.standby.take_over(2, published(leader))
        dead = follower.outbox.sinks.dead_letters["audit"]
        for each in await follower.sees("added shop/a", "updated shop/a", position="110"):
            await dead.add_dead_letters([NewDeadLetter(each, "parked", parked=True)])
        assert not dead.retrying, "nobody has delivered the record in front"
        assert await dead.next_retries(10) == []


async def test_they_wait_after_a_restart_of_the_new_leader(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await rejects(leader, await leader.sees("added shop/a", position="110"))
        await follower.standby.take_over(2, published(leader))
        found = published(follower)
        left = crashed(tmp_path / "1", tmp_path / "left")
    async with opened(left, SINKS) as outbox:
        side = Side(outbox, await joined(outbox, "kubedelta-1_2"))
        await side.pods.begin(outbox)
        await side.standby.take_over(3, found)
        later = await side.sees("added shop/a", "added shop/b", position="110")
        assert waiting(side, later) == ["shop/a"]


async def test_a_replica_that_leads_again_has_its_own(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await rejects(leader, await leader.sees("added shop/a", position="110"))
        await follower.standby.take_over(2, published(leader))
        assert published(follower).kept.keys() == {"kubedelta-0"}
        leader.standby.step_down()
        await leader.standby.take_over(3, published(follower))
        assert published(leader).kept == {}


async def test_what_another_leader_delivered_waits_no_more(tmp_path: Path) -> None:
    """A leader whose digests of an earlier term are out of date."""
    async with replicas(tmp_path) as [one, other]:
        await one.standby.take_over(1, None)
        await rejects(one, await one.sees("added shop/a", position="110"))
        await other.standby.take_over(2, published(one))
        one.standby.step_down()
        await one.standby.take_over(3, published(other))
        other.standby.step_down()
        await one.outbox.sinks.dead_letters["audit"].delivered([1])
        await other.standby.take_over(4, published(one))
        assert waiting(other, await other.sees("added shop/a", position="110")) == []


def beyond(found: Frontier) -> Frontier:
    """The sink audit has more objects than the Lease has room for."""
    audit = replace(found.sinks["audit"], objects=MOST_HELD + 1, dead_letters=MOST_HELD + 1, parked=b"")
    return replace(found, sinks={**found.sinks, "audit": audit})


async def test_a_sink_with_too_many_objects_is_paused(tmp_path: Path) -> None:
    facts: list[Fact] = []
    async with replicas(tmp_path, facts=facts) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await follower.standby.take_over(2, beyond(published(leader)))
        sinks = follower.outbox.sinks
        assert (sinks["audit"].paused, sinks["slow"].paused) == (PauseCause.OPERATOR, PauseCause.NONE)
        [kept] = [each.what for each in facts if isinstance(each, KeptElsewhere)]
        assert kept.startswith(
            "8193 dead letters of 8193 objects, more than the Lease can name: the sink is paused until"
        )
        assert published(follower).sinks["audit"].paused == PauseCause.OPERATOR.value, "for the next leader, too"


async def test_a_leader_that_starts_again_is_not_paused_for_its_own(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        found = beyond(published(leader))
        leader.standby.step_down()
        await leader.standby.take_over(2, found)
        assert leader.outbox.sinks["audit"].paused is PauseCause.NONE


async def test_a_sink_that_passes_them_holds_nothing_back(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        await rejects(leader, await leader.sees("added shop/a", position="110"))
        leader.standby.configured.passing = {"audit"}
        audit = published(leader).sinks["audit"]
        assert (audit.dead_letters, audit.objects, audit.parked) == (1, 0, b"")


def test_the_sinks_with_the_fewest_objects_are_named() -> None:
    few, many = owing_of(3, "few"), owing_of(MOST_HELD, "many")
    assert with_room({"many": many, "few": few}) == {"few": few, "many": replace(many, digests=b"")}
    assert with_room({"many": many}) == {"many": many}


def owing_of(objects: int, name: str) -> Owing:
    held = HeldObjects()
    for number in range(objects):
        held.add(("pods", f"{name}/{number}"), 1)
    return owing(objects, held, None, SelectionFrontier(), parks=True)


def test_the_objects_of_joined_shards_wait_in_the_heir() -> None:
    one, other = (
        replace(
            blank(Replica("prod", f"kubedelta-{each}_1", "1"), each + 1),
            sinks={"audit": sink_of("shop/a", f"b/{each}")},
        )
        for each in (0, 1)
    )
    shards = [(Shard(2, 0), one), (Shard(2, 1), other)]
    found = joined_frontiers(shards, ALL_OBJECTS).frontier.sinks["audit"]
    assert digests_in(found.parked) == {digest_of(("pods", key)) for key in ("shop/a", "b/0", "b/1")}
    assert (found.objects, found.names_all_parked) == (3, True)
    less = replace(other, sinks={"audit": SinkFrontier(objects=9000)})
    assert not joined_frontiers([shards[0], (Shard(2, 1), less)], ALL_OBJECTS).frontier.sinks["audit"].names_all_parked


def sink_of(*keys: str) -> SinkFrontier:
    return SinkFrontier(parked=b"".join(digest_of(("pods", key)) for key in keys), objects=len(keys))


def test_a_digest_becomes_a_name_with_a_dead_letter_here() -> None:
    key, other = ("pods", "shop/a"), ("pods", "shop/b")
    objects = HeldObjects()
    assert not objects
    objects.add(other, 7)
    objects.hold({digest_of(key), digest_of(other)}, whole=True)
    assert (objects[key], objects[other], objects.count, list(objects)) == (0, 7, 2, [other])
    packed = objects.packed
    objects.add(key, 9)
    assert (objects[key], objects.count, objects.packed) == (0, 2, packed)
    objects.remove(key)
    assert key not in objects
    assert objects.packed == digest_of(other)


def test_too_many_objects_are_counted_alone() -> None:
    objects = HeldObjects()
    objects.hold([number.to_bytes(8) for number in range(MOST_HELD + 1)], whole=True)
    assert (objects.count, objects.packed) == (MOST_HELD + 1, b"")
    objects.hold([bytes(8)], whole=False)
    assert objects.count == MOST_HELD + 1
    objects.hold([bytes(8)], whole=True)
    assert (objects.count, objects.packed) == (1, bytes(8))
