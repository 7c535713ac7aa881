"""Reading an informer's store."""

from __future__ import annotations

import pytest

from bridge.informer.indexer import Indexer, IndexFunc, Lister, UnknownIndex, by_label, by_namespace
from tests.kit.objects import a_node, a_pod

OBJECTS = [
    a_pod("web", "shop").labelled(tier="front", app="shop").at(1),
    a_pod("db", "shop").labelled(tier="back", app="shop").at(2),
    a_pod("web", "blog").labelled(tier="front", app="blog").at(3),
    a_pod("bare", "shop").at(4),
    a_node("node-1").labelled(tier="metal").at(5),
]


def a_lister(indexers: dict[str, IndexFunc]) -> Lister:
    indexer = Indexer(indexers)
    for thing in OBJECTS:
        indexer.put(thing)
    return Lister(indexer)


@pytest.fixture(params=[{"namespace": by_namespace}, {}], ids=["indexed", "not indexed"])
def lister(request: pytest.FixtureRequest) -> Lister:
    return a_lister(request.param)


def listed(lister: Lister, namespace: str | None = None, label_selector: str = "") -> list[str]:
    return sorted(thing.key for thing in lister.list(namespace, label_selector))


def test_an_object_is_read_by_name_and_namespace(lister: Lister) -> None:
    assert lister.get("web", "blog") == OBJECTS[2]
    assert lister.get("node-1") == OBJECTS[4]
    assert lister.get("web") is None
    assert len(lister) == 5


def test_without_a_namespace_all_objects_are_listed(lister: Lister) -> None:
    assert listed(lister) == ["blog/web", "node-1", "shop/bare", "shop/db", "shop/web"]


def test_one_namespace_is_listed(lister: Lister) -> None:
    assert listed(lister, "shop") == ["shop/bare", "shop/db", "shop/web"]
    assert listed(lister, "") == ["node-1"]
    assert listed(lister, "empty") == []


@pytest.mark.parametrize(
    ("selector", "keys"),
    [
        ("tier=front", ["blog/web", "shop/web"]),
        ("tier!=front", ["node-1", "shop/bare", "shop/db"]),
        ("tier in (front, back),app=shop", ["shop/db", "shop/web"]),
        ("!tier", ["shop/bare"]),
        ("app", ["blog/web", "shop/db", "shop/web"]),
    ],
)
def test_objects_are_listed_by_their_labels(lister: Lister, selector: str, keys: list[str]) -> None:
    assert listed(lister, None, selector) == keys


def test_namespace_and_labels_narrow_each_other(lister: Lister) -> None:
    assert listed(lister, "shop", "tier=front") == ["shop/web"]


def test_a_selector_that_cannot_be_read_is_an_error(lister: Lister) -> None:
    with pytest.raises(ValueError, match="tier in front"):
        lister.list(label_selector="tier in front")


def test_an_index_is_read_by_value_and_must_exist() -> None:
    lister = a_lister({"tier": by_label("tier")})

    assert [thing.key for thing in lister.by_index("tier", "front")] == ["blog/web", "shop/web"]
    with pytest.raises(UnknownIndex):
        lister.by_index("node", "node-1")
