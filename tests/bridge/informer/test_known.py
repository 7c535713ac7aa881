"""What an Indexer knows, in rows; and the same of an Indexer with and without them, against a plain dict."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.informer.indexer import Indexer, by_name
from bridge.informer.known import KnownTable
from bridge.model.change import Known
from bridge.model.object import ApiObject

UID = "0b6fb3a5-6d9f-4c1e-9d0a-3f1f0c5a7e11"
ODD_VERSIONS = (
    "",
    "0",
    "007",
    "-1",
    "+1",
    "1_000",
    " 7",
    "v12",
    "\x00",
    "7\x00",
    "１２",
    "é" * 9,
    "é" * 10,
    "9" * 18,
    "9223372036854775807",
    "9223372036854775808",
    "9" * 300,
)
ODD_UIDS = ("", "\x00", UID, UID + "-", UID[:-1] + "é", UID[:-2] + "é", "u" * 300)


def a_table(known: Mapping[str, Known]) -> KnownTable:
    table = KnownTable()
    table.update(known)
    return table


@pytest.mark.parametrize("version", ODD_VERSIONS)
@pytest.mark.parametrize("uid", ODD_UIDS)
def test_any_version_and_any_uid_come_back_as_the_same_text(uid: str, version: str) -> None:
    others = {"shop/before": Known(UID, "1", 1), "shop/after": Known(UID, "2", 2)}
    table = a_table({"shop/before": others["shop/before"], "shop/web": Known(UID, "3", 3), **others})

    table["shop/web"] = Known(uid, version, b"{}")
    assert table["shop/web"] == Known(uid, version, b"{}")
    table.rest("shop/web", 2**63 - 1)
    assert table["shop/web"] == Known(uid, version, 2**63 - 1)
    table["shop/web"] = Known(UID, "4", 4)
    assert dict(table) == others | {"shop/web": Known(UID, "4", 4)}


@pytest.mark.parametrize("version", ["1", "1" * 300])
def test_what_rests_already_may_rest_elsewhere(version: str) -> None:
    table = a_table({"shop/web": Known(UID, version, 1)})
    table.rest("shop/web", 2)

    assert table["shop/web"] == Known(UID, version, 2)


def test_what_is_not_known_is_missing_and_cannot_rest() -> None:
    table = a_table({"shop/web": Known(UID, "1", 1)})
    table.rest("shop/db", 2)

    assert (table.get("shop/db"), "shop/db" in table, len(table)) == (None, False, 1)
    with pytest.raises(KeyError, match="shop/db"):
        table["shop/db"]
    with pytest.raises(KeyError, match="shop/db"):
        del table["shop/db"]


@pytest.mark.parametrize("left", [Known(UID, "1", b"{}"), Known(UID, "1", 1), Known("u" * 300, "v" * 300, 1)])
def test_an_object_that_takes_the_place_of_another_has_nothing_of_it(left: Known) -> None:
    table = a_table({"shop/web": left, "shop/db": Known("db", "2", 2)})
    del table["shop/web"]
    table["blog/web"] = Known("web", "3", 3)

    assert list(table.items()) == [("shop/db", Known("db", "2", 2)), ("blog/web", Known("web", "3", 3))]


def test_objects_that_come_and_go_leave_nothing_in_memory() -> None:
    table = a_table({"shop/web": Known(UID, "1", 1)})
    tracemalloc.start()
    try:
        for number in range(5_000):
            table[f"shop/job-{number}"] = Known(f"uid-{number}", f"{number}", b"{}")
            table.rest(f"shop/job-{number}", number)
            del table[f"shop/job-{number}"]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size < 10_000


def test_a_change_of_what_is_known_leaves_nothing_new_in_the_heap() -> None:
    """Not even in place of something: what is made in a hole among many is slow to reach, and so are its neighbours."""
    numbers = range(10_000)
    table = a_table({f"shop/web-{number}": Known(f"{number:036}", f"{number}", number) for number in numbers})
    tracemalloc.start()
    try:
        for number in numbers:
            table[f"shop/web-{number}"] = Known(f"{number + 1:036}", f"{number + 10**9}", b"{}")
            table.rest(f"shop/web-{number}", number + 10**9)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert table["shop/web-7"] == Known(f"{8:036}", f"{7 + 10**9}", 7 + 10**9)
    assert size < 10_000


# ── Against a plain dict ─────────────────────────────────────────────────────


@dataclass(frozen=True)
class Put:
    thing: ApiObject


@dataclass(frozen=True)
class Rest:
    key: str
    sequence: int


@dataclass(frozen=True)
class Remove:
    key: str


keys = st.sampled_from(["shop/web", "shop/db", "blog/web", "node-1", "node-2"])
uids = st.sampled_from(ODD_UIDS) | st.uuids().map(str) | st.text(max_size=40)
versions = st.sampled_from(ODD_VERSIONS) | st.integers(0, 2**64).map(str) | st.text(max_size=20)
sequences = st.integers(0, 2**63 - 1)
things = st.builds(ApiObject, keys, uids, versions, st.binary(max_size=5))
steps = st.builds(Put, things) | st.builds(Rest, keys, sequences) | st.builds(Remove, keys)
remembered = st.dictionaries(keys, st.builds(Known, uids, versions, sequences))


@given(remembered, st.lists(steps, max_size=30))
def test_an_indexer_whose_bodies_rest_elsewhere_knows_what_a_dict_would(
    remembered: dict[str, Known], steps: list[Put | Rest | Remove]
) -> None:
    """To the order in which the keys came."""
    store, model = Indexer(stored=_body_of), dict(remembered)
    store.load(remembered.items())
    live = store.keys()
    for step in steps:
        reading = iter(store.objects())
        began = list(model.items())
        first = next(reading, None)
        match step:
            case Put(thing):
                store.put(thing)
                model[thing.key] = Known(thing.uid, thing.resource_version, thing.body)
            case Rest(key, sequence):
                store.rest(key, sequence)
                if key in model:
                    model[key] = Known(model[key].uid, model[key].resource_version, sequence)
            case Remove(key):
                store.remove(key)
                model.pop(key, None)
        assert store.items() == list(model.items())
        assert list(live) == list(model)
        assert len(store) == len(model)
        for key in ["shop/web", "shop/db", "blog/web", "node-1", "node-2"]:
            assert store.known(key) == model.get(key)
            assert store.get(key) == (_object(key, model[key]) if key in model else None)
        assert [each for each in (first, *reading) if each] == [_object(key, known) for key, known in began]


@given(st.lists(steps, max_size=30))
def test_an_indexer_that_keeps_the_bodies_itself_has_the_objects_that_a_dict_would(
    steps: list[Put | Rest | Remove],
) -> None:
    store = Indexer({"name": by_name})
    model: dict[str, ApiObject] = {}
    for step in steps:
        match step:
            case Put(thing):
                store.put(thing)
                model[thing.key] = thing
            case Rest(key, sequence):
                store.rest(key, sequence)
            case Remove(key):
                store.remove(key)
                model.pop(key, None)
        assert list(store.objects()) == list(model.values())
        assert list(store.keys()) == list(model)
        assert store.by_index("name", "web") == _named("web", model.values())


def _body_of(sequence: int) -> bytes:
    return b"%d" % sequence


def _object(key: str, known: Known) -> ApiObject:
    body = known.state if isinstance(known.state, bytes) else _body_of(known.state)
    return ApiObject(key, known.uid, known.resource_version, body)


def _named(name: str, objects: Iterable[ApiObject]) -> list[ApiObject]:
    return sorted((thing for thing in objects if thing.name == name), key=lambda thing: thing.key)
