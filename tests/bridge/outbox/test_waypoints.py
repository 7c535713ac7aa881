"""Waypoints: which records of an informer stand behind which of its versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.model.versions.frontier import Point, informer_key
from bridge.outbox.standby.coverage.exactness import watches_the_same
from bridge.outbox.standby.progress import Replica, advanced, blank
from bridge.outbox.waypoints import index
from bridge.outbox.waypoints.index import ALL, UNKNOWN, Batch, Waypoint, Waypoints
from tests.bridge.outbox.opened import joined, opened, rows_of
from tests.kit.informed import DEPLOYMENTS, PODS, Informed


def at(version: int | None, epoch: int = 1) -> Point | None:
    return None if version is None else Point(epoch, str(version))


def points(**versions: int) -> index.PointOf:
    return lambda informer: at(versions.get(informer))


def walked(*batches: tuple[str, int, int, int | None, int | None]) -> Waypoints:
    """Of informers ``a`` and ``b``: informer, first, last, since, reached."""
    waypoints = Waypoints()
    waypoints.begin("pods", {"a": (at(1), at(1)), "b": (at(1), at(1))})
    for informer, first, last, since, reached in batches:
        waypoints.passed(first, last, Waypoint(informer, at(since), at(reached)))
    return waypoints


def test_a_sink_has_settled_what_no_batch_waits_for() -> None:
    waypoints = walked(("a", 1, 3, 1, 10), ("b", 4, 4, 1, 11), ("a", 5, 6, 10, 12))
    assert waypoints.settled(0) == waypoints.settled(2) == {"a": at(1), "b": at(1)}
    assert waypoints.settled(3) == {"a": at(10), "b": at(1)}
    assert waypoints.settled(5) == {"a": at(10), "b": at(11)}
    assert waypoints.settled(6) == {"a": at(12), "b": at(11)}


def test_a_bookmark_moves_what_is_settled() -> None:
    waypoints = walked(("a", 1, 1, 1, 10))
    waypoints.reach("a", at(20))
    waypoints.reach("b", at(21))
    assert waypoints.settled(0) == {"a": at(1), "b": at(21)}
    assert waypoints.settled(1) == {"a": at(20), "b": at(21)}


def test_a_list_under_way_moves_nothing() -> None:
    waypoints = walked(("a", 1, 1, 1, 10), ("a", 2, 3, 10, None), ("a", 4, 5, None, None))
    assert waypoints.settled(5)["a"] == at(10)
    assert waypoints.settled(3) == {"b": at(1)}, "the middle of a list is no point"
    waypoints.passed(6, 6, Waypoint("a", None, at(30)))
    assert waypoints.settled(6)["a"] == at(30)
    assert waypoints.listed("a") == at(30)


def test_unknown_records_hold_every_informer() -> None:
    waypoints = walked((UNKNOWN, 1, 4, None, None), ("a", 5, 5, 1, 10))
    assert waypoints.settled(3) == {}
    assert waypoints.settled(5) == {"a": at(10), "b": at(1)}


def test_a_follower_lets_go_of_whole_batches() -> None:
    waypoints = walked(("a", 1, 3, 1, 10), ("b", 4, 4, 1, 11), ("a", 5, 6, 10, 12))
    none: tuple[str, ...] = ()
    assert waypoints.settled_through(0, 6, points(), none) == 0
    assert waypoints.settled_through(0, 6, points(a=9, b=11), none) == 0
    assert waypoints.settled_through(0, 6, points(a=10), none) == 3
    assert waypoints.settled_through(0, 6, points(a=11, b=11), none) == 4
    assert waypoints.settled_through(0, 6, points(a=12, b=10), none) == 3
    assert waypoints.settled_through(0, 6, points(a=12, b=11), none) == 6
    assert waypoints.settled_through(5, 6, points(), none) == 5, "it never goes back"


def test_a_listed_batch_needs_the_point_behind_it() -> None:
    waypoints = walked(("a", 1, 1, 1, None), ("a", 2, 2, None, None), ("a", 3, 3, None, 30), ("a", 4, 4, 30, 31))
    assert waypoints.settled_before("a", points(a=29), ()) == 1
    assert waypoints.settled_before("a", points(a=30), ()) == 4
    assert waypoints.settled_before("a", points(a=31), ()) == ALL


def test_a_list_is_covered_by_its_point() -> None:
    waypoints = walked(("a", 1, 2, None, None), ("a", 3, 4, None, None))
    waypoints.reach("a", at(20))
    waypoints.reach("a", at(30))
    assert waypoints.settled_through(0, 4, points(a=19), ()) == 0
    assert waypoints.settled_through(0, 4, points(a=20), ()) == 4
    waypoints.passed(5, 6, Waypoint("a", at(30), at(40)))
    assert waypoints.settled_through(0, 6, points(a=20), ()) == 4
    assert waypoints.settled_before("a", points(a=20), ()) == 5


def test_a_list_under_way_is_not_covered() -> None:
    waypoints = walked(("a", 1, 1, 1, 10), ("a", 2, 2, 10, None), ("a", 3, 3, None, None))
    assert waypoints.settled_before("a", points(a=50), ()) == 2


def test_another_epoch_covers_nothing() -> None:
    waypoints = walked(("a", 1, 1, 1, 10))
    assert waypoints.settled_before("a", lambda _: at(99, epoch=2), ()) == 0
    waypoints.passed(2, 2, Waypoint("a", at(10), None))
    waypoints.passed(3, 3, Waypoint("a", None, at(5, epoch=2)))
    waypoints.passed(4, 4, Waypoint("a", at(5, epoch=2), at(6, epoch=2)))
    assert waypoints.settled_before("a", lambda _: at(5, epoch=2), ()) == 4


def test_an_informer_that_left_is_settled_by_name() -> None:
    waypoints = walked(("a", 1, 1, 1, 10), ("a/1", 2, 2, None, None), ("b", 3, 3, 1, 10))
    assert list(waypoints.retired(1)) == []
    assert list(waypoints.retired(2)) == ["a/1"]
    assert waypoints.settled_through(0, 3, points(b=10), {"a", "a/1"}) == 0, "it runs here"
    waypoints.begin("pods", {"b": (at(10), at(10))})
    assert waypoints.ended == {"a"}
    assert waypoints.settled_through(0, 3, points(b=10), {"a", "a/1"}) == 3
    assert waypoints.settled_through(0, 3, points(b=10), ()) == 0


REPLICA = Replica("prod", "kubedelta-0_1", "1")


@pytest.mark.parametrize(
    ("informers", "retired", "same"),
    [
        ({"a": at(1)}, (), True),
        ({"a": at(1), "b": at(1)}, (), True),
        ({"a": at(1), "gone": at(1)}, (), False),
        ({"a": at(1), "gone": None}, (), False),
        ({"a": at(1)}, ("b/1",), False),
        ({"a": at(1)}, ("b/2",), False),
        ({"a": at(1)}, ("b/0",), True),
        ({"a": at(1)}, ("b/x",), False),
        ({"a": at(1), "b": at(1)}, ("b/1",), True),
        ({"a": at(1)}, ("gone/1",), True),
    ],
)
def test_replicas_may_watch_other_objects(
    informers: dict[str, Point | None], retired: tuple[str, ...], same: bool
) -> None:
    found = replace(blank(REPLICA, 1), informers=informers, retired=retired)
    assert watches_the_same(walked(), found) is same


def test_an_informer_that_left_is_published_until_settled() -> None:
    found = replace(blank(REPLICA, 1), informers={"a": at(5), "gone": at(5, epoch=2)})
    for retired, published in (((), {"a", "b", "gone"}), (("gone/1",), {"a", "b", "gone"}), (("gone/2",), {"a", "b"})):
        assert advanced(replace(found, retired=retired), walked(), [], {}, {}).informers.keys() == published
    back = replace(found, retired=("a/1",))
    assert "a" in advanced(back, walked(), [], {}, {}).informers, "it runs again"


def test_unknown_records_are_covered_with_all_informers() -> None:
    waypoints = walked((UNKNOWN, 1, 4, None, None), ("a", 5, 5, 1, 10), ("b", 6, 6, 1, 11))
    assert waypoints.settled_through(0, 6, points(a=10), ()) == 0
    assert waypoints.settled_through(0, 6, points(a=10, b=1), ()) == 5
    assert waypoints.settled_through(0, 6, points(a=10, b=11), ()) == 6


def test_many_waypoints_are_joined() -> None:
    waypoints = walked(*(("a", each, each, each - 1, each) for each in range(1, 5001)))
    assert waypoints.settled(5000)["a"] == at(5000)
    joined = waypoints.settled(2500)["a"]
    assert joined is not None
    assert 2400 < int(joined.version) <= 2500
    before = waypoints.settled_before("a", points(a=2500), ())
    assert 2400 < before <= 2501
    waypoints.trim(4999)
    assert waypoints.settled(4999)["a"] == at(4999)


async def test_waypoints_are_on_disk_with_their_records(tmp_path: Path) -> None:
    key = informer_key("pods", Scope())
    async with opened(tmp_path) as outbox:
        await joined(outbox)
        pods = await Informed().begin(outbox)
        await pods.exports(outbox, "added shop/a", "added shop/b", position=None)
        await pods.exports(outbox, "added shop/c", position="200")
        await pods.exports(outbox, "updated shop/a", position="203")
    assert rows_of(tmp_path, "SELECT first, last, informer, epoch, since FROM waypoints ORDER BY last") == [
        (1, 2, key, None, None),
        (3, 3, key, None, None),
        (4, 4, key, 1, "200"),
    ]
    async with opened(tmp_path) as outbox:
        outbox.sinks["audit"].settle(3)
        await outbox.maintain()
    assert rows_of(tmp_path, "SELECT first, last FROM waypoints") == [(4, 4)]


def test_batches_that_were_trimmed_come_back() -> None:
    since_then = [Batch(1, 3, "a", at(1)), Batch(4, 4, "b", at(1)), Batch(5, 6, "a", at(10)), Batch(7, 7, "a", at(12))]
    waypoints = walked(("a", 1, 3, 1, 10), ("b", 4, 4, 1, 11), ("a", 5, 6, 10, 12), ("a", 7, 7, 12, 13))
    waypoints.trim(6)
    assert waypoints.settled_through(0, 7, points(a=12), ()) == 6, "whoever settled them needs none"
    waypoints.recall(since_then)
    assert waypoints.settled_through(0, 7, points(a=10, b=1), ()) == 3
    assert waypoints.settled_through(0, 7, points(a=12, b=11), ()) == 6
    assert waypoints.settled(0) == {"a": at(1), "b": at(1)}
    assert waypoints.settled(6) == {"a": at(12), "b": at(11)}
    assert waypoints.settled(7) == {"a": at(13), "b": at(11)}


def test_a_batch_that_is_known_does_not_come_back() -> None:
    waypoints = walked(("a", 1, 1, 1, None))
    waypoints.trim(1)
    waypoints.passed(2, 2, Waypoint("a", None, None))
    waypoints.recall([Batch(1, 1, "a", at(1)), Batch(2, 2, "a", None)])
    waypoints.reach("a", at(30))
    assert waypoints.settled_before("a", points(a=29), ()) == 1
    assert waypoints.settled_before("a", points(a=30), ()) == ALL
    waypoints.passed(3, 3, Waypoint("a", at(30), at(31)))
    assert waypoints.settled_before("a", points(a=30), ()) == 3


def test_many_that_come_back_are_joined() -> None:
    waypoints = walked(*(("a", each, each, each - 1, each) for each in range(1, 5001)))
    waypoints.trim(5000)
    waypoints.recall(Batch(each, each, "a", at(each - 1)) for each in range(1, 5001))
    joined = waypoints.settled(2500)["a"]
    assert joined is not None
    assert 2400 < int(joined.version) <= 2500


async def test_without_an_election_there_are_no_waypoints(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        pods = await Informed().begin(outbox)
        await pods.exports(outbox, "added shop/a")
    assert rows_of(tmp_path, "SELECT * FROM waypoints") == []


async def test_records_of_a_run_without_election_are_noted(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await joined(outbox)
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a")
    async with opened(tmp_path) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "updated shop/a", "added shop/b")
    async with opened(tmp_path) as outbox:
        await joined(outbox)
    found = rows_of(tmp_path, "SELECT first, last, informer <> '' FROM waypoints ORDER BY last")
    assert found == [(1, 1, 1), (2, 3, 0)]


async def test_deletes_of_an_informer_that_left_have_its_name(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await joined(outbox)
        shop, other = Informed(scope=Scope("shop")), Informed(DEPLOYMENTS)
        await outbox.ledger.adopt(PODS, [Scope("shop"), Scope("bar")])
        await other.begin(outbox)
        await shop.exports(outbox, "added shop/a", "added shop/b")
        bar = Informed(scope=Scope("bar"))
        await bar.exports(outbox, "added bar/a")
        await outbox.ledger.adopt(PODS, [Scope("else")])
        async with outbox.ledger.removing(DEPLOYMENTS, Scope()):
            await other.exports(outbox, "added shop/web", "deleted shop/web")
        records = (await outbox.read(3, 10)).items
    assert [(each.op, each.key) for each in records if isinstance(each, Delta)] == [
        ("deleted", "shop/a"),
        ("deleted", "shop/b"),
        ("deleted", "bar/a"),
        ("added", "shop/web"),
        ("deleted", "shop/web"),
    ]
    names = [informer_key("pods", Scope("shop")), informer_key("pods", Scope("bar"))]
    web = informer_key("deployments.apps", Scope())
    found = rows_of(tmp_path, "SELECT first, last, informer FROM waypoints WHERE first > 3 ORDER BY last")
    assert found == [(4, 5, f"{names[0]}/1"), (6, 6, f"{names[1]}/1"), (7, 8, f"{web}/1")]


def test_a_batch_says_where_it_stands() -> None:
    waypoints = Waypoints([Batch(1, 2, "a", None), Batch(3, 3, "b", at(4))])
    assert waypoints.noted == {"a", "b"}
    assert waypoints.settled(3) == {}, "no informer runs yet"
