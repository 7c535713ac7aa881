"""The store of an informer."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Iterable
from typing import cast

import pytest

from bridge.informer.indexer import Indexer, UnknownIndex, by_label, by_name, by_namespace
from bridge.model.change import ObjectVersion
from bridge.model.object import ApiObject
from bridge.model.versions import VersionTable
from tests.kit.objects import Blueprint, a_node, a_pod


def a_store(*objects: ApiObject) -> Indexer:
    store = Indexer({"namespace": by_namespace, "name": by_name, "tier": by_label("tier")})
    for thing in objects:
        store.put(thing)
    return store


WEB = a_pod("web", "shop").labelled(tier="front").at(1)
DB = a_pod("db", "shop").labelled(tier="back").at(2)
OTHER_WEB = a_pod("web", "blog").labelled(tier="front").at(3)
BARE = a_pod("bare", "shop").at(4)
NODE = a_node("node-1").at(5)


def test_what_is_removed_is_gone_and_removing_twice_is_no_error() -> None:
    store = a_store(WEB)
    store.remove(WEB.key)
    store.remove(WEB.key)

    assert (store.get(WEB.key), len(store), store.index_values("tier")) == (None, 0, [])


# ── Indices ──────────────────────────────────────────────────────────────────


def test_objects_are_found_by_each_index_in_the_order_of_keys() -> None:
    store = a_store(WEB, DB, OTHER_WEB, BARE, NODE)

    assert [thing.key for thing in store.by_index("namespace", "shop")] == ["shop/bare", "shop/db", "shop/web"]
    assert store.by_index("name", "web") == [OTHER_WEB, WEB]
    assert store.index_keys("tier", "front") == ["blog/web", "shop/web"]
    assert store.index_values("tier") == ["back", "front"]


def test_an_unknown_value_finds_nothing_and_leaves_no_bucket() -> None:
    store = a_store(WEB)

    assert store.by_index("tier", "middle") == []
    assert store.index_values("tier") == ["front"]


def test_a_changed_value_moves_the_object_and_drops_the_bucket() -> None:
    """client-go leaked empty index buckets until 1.17."""
    store = a_store(WEB)
    store.put(a_pod("web").labelled(tier="back").at(2))

    assert store.index_values("tier") == ["back"]
    assert store.index_keys("tier", "front") == []


def test_a_lost_label_and_a_removed_object_leave_no_bucket() -> None:
    store = a_store(WEB, DB)
    store.put(a_pod("web").at(2))
    store.remove(DB.key)

    assert store.index_values("tier") == []


def test_many_short_lived_values_leave_nothing_in_memory() -> None:
    store = Indexer({"name": by_name})
    store.put(WEB)
    store.remove(WEB.key)
    gc.collect()
    before = sum(sys.getsizeof(each) for each in gc.get_objects() if isinstance(each, set))
    for number in range(5000):
        thing = a_pod(f"job-{number}").at(1)
        store.put(thing)
        store.remove(thing.key)
    gc.collect()
    after = sum(sys.getsizeof(each) for each in gc.get_objects() if isinstance(each, set))

    assert after - before < 50_000


def test_an_object_may_have_several_values_and_name_one_twice() -> None:
    def letters(thing: ApiObject) -> Iterable[str]:
        return thing.name

    store = Indexer({"letters": letters})
    store.put(a_pod("abba").at(1))
    assert store.index_values("letters") == ["a", "b"]

    store.put(a_pod("abba").at(2))
    store.remove("shop/abba")
    assert store.index_values("letters") == []


@pytest.mark.parametrize("ask", [Indexer.by_index, Indexer.index_keys])
def test_an_unknown_index_is_an_error_that_names_those_there_are(ask) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownIndex, match="no index is named 'node'; the indices are: namespace, name, tier"):
        ask(a_store(WEB), "node", "node-1")


def test_the_values_of_an_unknown_index_are_an_error_as_well() -> None:
    with pytest.raises(UnknownIndex, match="the indices are: none"):
        Indexer().index_values("node")


# ── Reading while it changes, and memory ─────────────────────────────────────


def test_bodies_are_kept_packed() -> None:
    pod = Blueprint("web").at(
        1, containers=[{"name": f"c{number}", "image": "registry/app:1"} for number in range(200)]
    )
    store = a_store(pod)
    known = store.known(pod.key)

    assert known is not None
    assert len(cast("bytes", known.state)) * 5 < len(pod.body)


# ── Offloaded bodies ─────────────────────────────────────────────────────────


class Records(dict[int, bytes]):
    """The bodies of an outbox, by sequence number, and what was read of them."""

    def __init__(self, *bodies: bytes) -> None:
        super().__init__(enumerate(bodies, 1))
        self.read: list[int] = []

    def __call__(self, sequence: int) -> bytes:
        self.read.append(sequence)
        return self[sequence]


def test_a_body_is_held_until_offloaded_and_then_read_from_there() -> None:
    records = Records(b"older", WEB.body)
    store = Indexer(stored=records)
    store.put(WEB)
    held = store.known(WEB.key)
    assert held is not None
    assert held.state is WEB.body
    assert (store.get(WEB.key), records.read) == (WEB, [])

    store.offload(WEB.key, 2)
    assert store.known(WEB.key) == ObjectVersion(WEB.uid, WEB.resource_version, 2)
    assert (store.get(WEB.key), records.read) == (WEB, [2])
    assert held.state is WEB.body, "whoever took it before still has what it took"


def test_every_way_of_reading_finds_a_body_wherever_it_is() -> None:
    store = Indexer({"namespace": by_namespace}, stored=Records(DB.body))
    store.load(VersionTable({DB.key: ObjectVersion(DB.uid, DB.resource_version, 1)}))
    store.put(WEB)

    assert store.by_index("namespace", "shop") == [DB, WEB]
    assert list(store.objects()) == [DB, WEB]


def test_loading_reads_bodies_only_where_an_index_wants_them() -> None:
    records = Records(WEB.body, BARE.body)
    known = {WEB.key: ObjectVersion(WEB.uid, "1", 1), BARE.key: ObjectVersion(BARE.uid, "4", 2)}
    Indexer(stored=records).load(VersionTable(known))
    assert records.read == []

    store = Indexer({"tier": by_label("tier")}, stored=records)
    store.load(VersionTable(known))
    assert (store.index_keys("tier", "front"), len(store)) == ([WEB.key], 2)


def test_loading_comes_before_anything_else() -> None:
    store = a_store(WEB)

    with pytest.raises(RuntimeError, match="needs an empty store, and this has 1 objects"):
        store.load(VersionTable())


def test_an_object_version_costs_little_beside_its_names() -> None:
    """100,000 objects of a cluster are remembered in memory; their bodies are not."""
    names = [(f"shop/web-{number}", f"uid-{number}", f"{number}") for number in range(10_000)]
    tracemalloc.start()
    try:
        table = VersionTable(
            (key, ObjectVersion(uid, version, 10**9 + place)) for place, (key, uid, version) in enumerate(names)
        )
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(table) == len(names)
    assert size / len(names) < 150
