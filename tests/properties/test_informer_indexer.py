"""An Indexer knows what a plain dict would know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from bridge.informer.indexer import Indexer, by_name
from bridge.model.change import ObjectVersion
from bridge.model.object import ApiObject
from bridge.model.versions import VersionTable
from tests.bridge.model.test_versions import ODD_UIDS, ODD_VERSIONS


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
checkpoint = st.dictionaries(keys, st.builds(ObjectVersion, uids, versions, sequences))


@given(checkpoint, st.lists(steps, max_size=30))
def test_an_indexer_with_offloaded_bodies_knows_what_a_dict_does(
    checkpoint: dict[str, ObjectVersion], steps: list[Put | Rest | Remove]
) -> None:
    """To the order in which the keys came."""
    store, model = Indexer(stored=_body_of), dict(checkpoint)
    store.load(VersionTable(checkpoint))
    live = store.keys()
    for step in steps:
        reading = iter(store.objects())
        began = list(model.items())
        first = next(reading, None)
        match step:
            case Put(thing):
                store.put(thing)
                model[thing.key] = ObjectVersion(thing.uid, thing.resource_version, thing.body)
            case Rest(key, sequence):
                store.offload(key, sequence)
                if key in model:
                    model[key] = ObjectVersion(model[key].uid, model[key].resource_version, sequence)
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
def test_an_indexer_with_its_own_bodies_has_what_a_dict_has(
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
                store.offload(key, sequence)
            case Remove(key):
                store.remove(key)
                model.pop(key, None)
        assert list(store.objects()) == list(model.values())
        assert list(store.keys()) == list(model)
        assert store.by_index("name", "web") == _named("web", model.values())


def _body_of(sequence: int) -> bytes:
    return b"%d" % sequence


def _object(key: str, known: ObjectVersion) -> ApiObject:
    body = known.state if isinstance(known.state, bytes) else _body_of(known.state)
    return ApiObject(key, known.uid, known.resource_version, body)


def _named(name: str, objects: Iterable[ApiObject]) -> list[ApiObject]:
    return sorted((thing for thing in objects if thing.name == name), key=lambda thing: thing.key)
