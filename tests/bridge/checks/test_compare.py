"""What is a difference, and what is merely on its way."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.checks.compare import Candidate, Coverage, Difference, DifferenceKind, Holdings, differences
from bridge.model.change import Op
from bridge.model.formats.object_paths import object_name
from bridge.model.formats.stored_record import FOREIGN, StoredKind, StoredVersion
from bridge.model.primitives.shard import Shard
from bridge.model.resource import Resource, Scope
from bridge.plan.cluster_view import Version
from bridge.plan.plan import Wanted
from sinks.reader import ReadFilter
from tests.kit.examples import examples
from tests.kit.records import CLUSTER_ROLES, DEPLOYMENTS, PODS

EVERYTHING = Scope()
WIDGET = "prod/acme.io/widgets/shop/one"


def covering(*names: str, listed: Sequence[tuple[Resource, Scope]] = ((PODS, EVERYTHING),)) -> Coverage:
    served = {PODS, DEPLOYMENTS, CLUSTER_ROLES, *(resource for resource, _ in listed)}
    return Coverage([Wanted(name) for name in names or ("pods",)], listed, served)


def covers(coverage: Coverage, key: str) -> bool:
    name = object_name(key)
    assert name is not None
    return coverage.covers(name)


def pod(name: str) -> str:
    return f"prod/core/pods/shop/{name}"


def delta_of(key: str, version: int, op: Op = Op.UPDATED, uid: str = "u1") -> StoredVersion:
    return StoredVersion(StoredKind.OBJECT, key, op, uid, str(version))


def v(version: int, uid: str = "u1") -> Version:
    return Version(uid, str(version))


# ── What is stored ─────────────────────────────────────────────────────────────


def test_the_last_word_on_an_object_counts() -> None:
    holdings = Holdings("prod", covering())
    a, b, c = (pod(name) for name in "abc")
    holdings.take([delta_of(a, 1, Op.ADDED), delta_of(b, 2), delta_of(a, 5), delta_of(b, 6, Op.DELETED)])
    holdings.take([delta_of(c, 7, Op.DELETED), delta_of(c, 8, Op.ADDED, uid="u2"), delta_of(a, 4)])

    assert holdings.objects == {a: v(4), c: v(8, "u2")}


def test_what_is_no_object_of_ours_is_counted_and_not_held() -> None:
    holdings = Holdings("prod", covering())
    gaps = StoredVersion(StoredKind.GAP, "prod"), StoredVersion(StoredKind.GAP, "other")
    holdings.take([*gaps, StoredVersion(StoredKind.NOTICE, "prod"), FOREIGN])
    holdings.take([delta_of("other/core/pods/shop/a", 1), delta_of("no key", 1)])
    holdings.take([delta_of("prod/core/secrets/shop/a", 1)])
    holdings.take([delta_of("prod/apps/deployments/shop/a", 1)] * 2)

    assert holdings.objects == {}
    assert (holdings.records, holdings.gaps, holdings.foreign) == (9, 1, 4)
    assert holdings.uncovered == {"secrets": 1, "deployments.apps": 2}


# ── What is compared ─────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("key", "is_covered"),
    [
        ("prod/core/pods/shop/a", True),
        ("prod/core/pods/bank/a", False),
        ("prod/rbac.authorization.k8s.io/clusterroles/_/admin", True),
        ("prod/apps/deployments/shop/a", False),
    ],
)
def test_only_configured_resources_and_namespaces_are_compared(key: str, is_covered: bool) -> None:
    coverage = covering("pods", "clusterroles", listed=[(PODS, Scope("shop")), (CLUSTER_ROLES, EVERYTHING)])
    assert covers(coverage, key) is is_covered


@pytest.mark.parametrize(
    ("configured", "key", "is_covered"),
    [
        *[(name, WIDGET, True) for name in ("widgets", "widgets.acme.io", "widgets.v1.acme.io", "*", "*.acme.io")],
        *[(name, WIDGET, False) for name in ("gadgets", "widgets.io", "*.io", "widgets.acme", "pods")],
        # A group is not taken for a version.
        ("widgets", "prod/core/widgets/shop/one", True),
        ("widgets.io", "prod/core/widgets/shop/one", False),
        # A wildcard covers of served resources those alone that are listed.
        ("*", "prod/apps/deployments/shop/a", False),
    ],
)
def test_of_a_vanished_resource_the_name_decides(configured: str, key: str, is_covered: bool) -> None:
    assert covers(covering(configured, listed=[]), key) is is_covered


def test_what_is_read_follows_from_lists_and_unknown_names() -> None:
    wanted = [Wanted("po", (Scope("shop"),)), Wanted("clusterroles"), Wanted("widgets.acme.io")]
    listed = [(PODS, Scope("shop")), (CLUSTER_ROLES, EVERYTHING)]

    assert Coverage(wanted, listed, [PODS, CLUSTER_ROLES], ["widgets.acme.io"]).filters == (
        ReadFilter("", "v1", "pods", "Pod", "shop"),
        ReadFilter("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", ""),
        ReadFilter(plural="widgets"),
    )
    assert ReadFilter() in Coverage([Wanted("*")], listed, [PODS]).filters


# ── Differences ──────────────────────────────────────────────────────────────


def test_missing_stale_and_extra_are_distinguished() -> None:
    live = {"same": v(1), "changed": v(5), "recreated": v(6, "u2"), "new": v(7)}
    stored = {"same": v(1), "changed": v(4), "recreated": v(3), "old": v(2)}

    assert differences(live, stored) == {
        "changed": Difference(DifferenceKind.STALE, "changed", v(5), v(4)),
        "recreated": Difference(DifferenceKind.STALE, "recreated", v(6, "u2"), v(3)),
        "new": Difference(DifferenceKind.MISSING, "new", v(7), None),
        "old": Difference(DifferenceKind.EXTRA, "old", None, v(2)),
    }


Look = tuple[Version | None, Version | None, dict[str, str]]
"""The live version, the stored one, and what has arrived since the first look."""


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ((v(5), v(4), {}), [(v(5), v(5), {"u1": "5"})]),
        ((None, v(4), {}), [(None, None, {"u1": "5"})]),
        ((v(5), v(6), {}), [(v(6), v(6), {})]),
        ((v(5), v(4), {}), [(v(9), v(7), {"u1": "7"})]),
        ((v(5), None, {}), [(v(9, "u2"), v(4, "u0"), {"u0": "4"}), (v(13, "u3"), None, {"u1": "5", "u2": "11"})]),
        ((None, v(4), {}), [(v(9, "u2"), None, {"u1": "6"})]),
        ((Version("u1", "b"), Version("u1", "a"), {}), [(Version("u1", "c"), Version("u1", "b"), {"u1": "b"})]),
    ],
    ids=[
        "both agree",
        "both have none",
        "the destination was ahead of the list",
        "the destination follows a restless object",
        "the destination follows a recreated object",
        "the delete was delivered though the object is back",
        "versions have no order, and one is equal",
    ],
)
def test_a_candidate_clears_when_the_destination_reaches_a_state_of_the_cluster(first: Look, later: list[Look]) -> None:
    found = candidate(first)
    assert [found.compare_again(*look) for look in later] == [False] * (len(later) - 1) + [True]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ((v(5), v(1), {}), [(v(9), v(1), {}), (v(13), v(2), {"u1": "2"})]),
        ((v(5), v(900), {}), [(v(6), v(900), {})]),
        ((None, v(4), {}), [(v(9, "u2"), v(4), {})]),
        ((v(4), None, {}), [(v(9), None, {"u0": "3"})]),
        ((Version("u1", "b"), Version("u1", "a"), {}), [(Version("u1", "c"), Version("u1", "a"), {"u1": "a"})]),
    ],
    ids=[
        "the destination is an hour behind",
        "a version is newer than the cluster's, and not recent",
        "the delete was not delivered",
        "the object was live at every look",
        "versions have no order, and none is equal",
    ],
)
def test_a_candidate_stays_when_the_destination_does_not_follow(first: Look, later: list[Look]) -> None:
    found = candidate(first)
    assert not any(found.compare_again(*look) for look in later)
    assert (found.difference.live, found.difference.stored) == later[-1][:2]


def candidate(first: Look) -> Candidate:
    """Looked at once."""
    live, stored, _ = first
    [found] = differences({"k": live} if live else {}, {"k": stored} if stored else {}).values()
    candidate = Candidate(found)
    assert not candidate.compare_again(*first)
    return candidate


def test_a_destination_past_the_first_look_is_no_candidate() -> None:
    [found] = differences({"k": v(5)}, {"k": v(8, "u2")}).values()
    assert Candidate(found).compare_again(v(5), v(8, "u2"), {"u1": "7", "u2": "8"})


def test_the_watch_gives_the_newest_of_each_incarnation() -> None:
    holdings = Holdings("prod", covering())
    holdings.take([delta_of(pod("a"), 1), delta_of(pod("b"), 2)])
    holdings.watch()
    holdings.take([delta_of(pod("a"), 10), delta_of(pod("a"), 9), delta_of(pod("a"), 12, Op.DELETED, "u2")])

    assert holdings.arrived == {pod("a"): {"u1": "10", "u2": "12"}}


# ── A model: a cluster that moves, and a destination behind a pipe ──────────


class World:
    """Objects that come, change and go, each change delivered in its order to a destination."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.live: dict[str, Version] = {}
        self.pipe: list[StoredVersion] = []
        self.version = 0
        self.swallowed: set[str] = set()
        """Keys of which the destination hears nothing more."""

    def happen(self, times: int) -> None:
        for _ in range(times):
            self.version += 1
            key = pod(self.chance.choice("abcdef"))
            before = self.live.get(key)
            if before is not None and self.chance.random() < 0.3:
                del self.live[key]
                change = delta_of(key, self.version, Op.DELETED, before.uid)
            else:
                self.live[key] = v(self.version, before.uid if before else f"u{self.version}")
                change = delta_of(key, self.version, Op.UPDATED if before else Op.ADDED, self.live[key].uid)
            if key not in self.swallowed:
                self.pipe.append(change)

    def delivered(self) -> list[StoredVersion]:
        come, self.pipe = self.pipe, []
        return come


def compare(world: World, *, looks: int, pace: int) -> dict[str, Candidate]:
    """As ``kubedelta verify`` does it, while ``pace`` changes happen between any two steps."""
    holdings = Holdings("prod", covering())
    holdings.take(world.delivered())
    holdings.watch()
    candidates: dict[str, Candidate] | None = None
    for _ in range(looks):
        world.happen(pace)
        live = dict(world.live)
        world.happen(pace)
        holdings.take(world.delivered())
        if candidates is None:
            candidates = {key: Candidate(each) for key, each in differences(live, holdings.objects).items()}
        candidates = {
            key: each
            for key, each in candidates.items()
            if not each.compare_again(live.get(key), holdings.objects.get(key), holdings.arrived.get(key, {}))
        }
    return candidates or {}


@examples(50)
@given(seed=st.integers(0, 2**32), before=st.integers(0, 60), pace=st.integers(0, 12))
def test_a_destination_that_follows_never_differs_for_long(seed: int, before: int, pace: int) -> None:
    world = World(seed)
    world.happen(before)

    left = compare(world, looks=4, pace=pace)

    # Gone at every look at the cluster, and there again at every look at the destination: that much haste is not
    # reported from a delete that the destination never heard of.
    assert [key for key, each in left.items() if any(each.seen)] == []


@examples(50)
@given(seed=st.integers(0, 2**32), before=st.integers(5, 60), pace=st.integers(0, 12))
def test_what_a_destination_never_hears_of_always_differs(seed: int, before: int, pace: int) -> None:
    world = World(seed)
    world.happen(before)
    world.swallowed = {pod("a"), pod("b")}
    world.pipe = [each for each in world.pipe if each.partition_key not in world.swallowed]

    left = compare(world, looks=4, pace=pace)

    for key in world.swallowed & world.live.keys() & left.keys():
        assert left[key].difference.kind is DifferenceKind.MISSING
    # One that went and came may have been gone, rightly, at one look.
    always = {key for key in world.swallowed if key in world.live and int(world.live[key].uid[1:]) <= before}
    assert always <= left.keys()


@given(
    live=st.dictionaries(st.sampled_from("abc"), st.integers(1, 3)),
    stored=st.dictionaries(st.sampled_from("abc"), st.integers(1, 3)),
)
def test_there_is_no_difference_exactly_where_both_are_equal(live: dict[str, int], stored: dict[str, int]) -> None:
    ours = {key: v(each) for key, each in live.items()}
    theirs = {key: v(each) for key, each in stored.items()}

    found = differences(ours, theirs)

    assert {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)} == set(found)
    assert all((each.live, each.stored) == (ours.get(key), theirs.get(key)) for key, each in found.items())


# ── Of a shard ───────────────────────────────────────────────────────────────


def test_records_of_other_shards_are_counted_and_not_held() -> None:
    """Of two objects under one name, in two shards, each bridge holds its own."""
    uids = [f"{number:x}{number:x}0000" for number in range(16)]
    records = [delta_of(pod("a"), 10 + number, uid=uid) for number, uid in enumerate(uids)]
    records += [delta_of(pod("b"), 90, Op.DELETED, uid=uid) for uid in uids]
    found = [Holdings("prod", covering(), Shard(2, index)) for index in range(2)]
    for each in found:
        each.take(records)

    held = [each.objects[pod("a")].uid for each in found]
    assert [Shard(2, index).contains(uid, "shop/a") for index, uid in enumerate(held)] == [True, True]
    assert [each.records for each in found] == [32, 32]
    assert sum(each.of_other_shards for each in found) == 32
