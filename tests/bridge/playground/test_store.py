"""The store remembers: every version within its history can be listed, and watched from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.playground.objects.store import Event, Forgotten, ObjectStore, Range, StoredObject

Step = tuple[str, bool]
STEPS = st.lists(st.tuples(st.sampled_from(["a/x", "a/y", "b/x", "b-c/x", "b"]), st.booleans()), max_size=60)


def _stored(key: str, version: int) -> StoredObject:
    return StoredObject(key, uid=key, version=version, labels={}, opening=b"", middle=b"", closing=b"")


def _live(store: ObjectStore, steps: list[Step]) -> dict[int, dict[str, StoredObject]]:
    """Write or delete as the steps say; what there was at every version."""
    collection = store.collection("things")
    seen = {store.version: dict(collection.objects)}
    for key, writes in steps:
        before = collection.objects.get(key)
        if writes or before:
            store.commit("things", key, before, _stored(key, store.version + 1) if writes else None)
            seen[store.version] = dict(collection.objects)
    return seen


@given(STEPS, st.integers(0, 70))
def test_every_remembered_version_can_be_listed_as_it_was(steps: list[Step], history: int) -> None:
    store = ObjectStore(history)
    seen = _live(store, steps)
    collection = store.collection("things")
    for version, objects in seen.items():
        if version < collection.floor:
            with pytest.raises(Forgotten):
                collection.at(version)
        else:
            then = collection.at(version)
            assert dict(then.objects) == objects
            assert then.keys == sorted(objects)


@given(STEPS, st.integers(0, 70))
def test_a_state_and_the_changes_since_are_the_state_now(steps: list[Step], history: int) -> None:
    store = ObjectStore(history)
    seen = _live(store, steps)
    collection = store.collection("things")
    for version, objects in seen.items():
        if version >= collection.floor:
            assert _after(objects, collection.since(collection.position_after(version))) == collection.objects


def test_after_a_restart_lists_go_further_back_than_watches() -> None:
    store = ObjectStore(history=10)
    seen = _live(store, [("a/x", True), ("a/x", True)])
    store.empty_watch_cache()
    collection = store.collection("things")

    assert dict(collection.at(store.version - 1).objects) == seen[store.version - 1]
    assert collection.watch_position(store.version) == collection.position_after(store.version)
    with pytest.raises(Forgotten):
        collection.watch_position(store.version - 1)


def _after(objects: dict[str, StoredObject], events: list[Event]) -> dict[str, StoredObject]:
    now = dict(objects)
    for event in events:
        assert now.get(event.key) == event.before
        if event.after is None:
            del now[event.key]
        else:
            now[event.key] = event.after
    return now


@given(STEPS, st.integers(1, 20))
def test_exactly_so_many_changes_are_remembered(steps: list[Step], history: int) -> None:
    store = ObjectStore(history)
    versions = list(_live(store, steps))
    collection = store.collection("things")
    checkpoint = [version for version in versions if version >= collection.floor]
    assert len(checkpoint) == min(len(versions), history + 1)


@given(STEPS)
def test_a_range_is_that_of_its_namespace_alone(steps: list[Step]) -> None:
    store = ObjectStore(100)
    _live(store, steps)
    collection = store.collection("things")
    now = Range(collection.keys, collection.objects)
    for namespace in ("a", "b", "b-c", "c"):
        inside = [key for key in sorted(collection.objects) if key.startswith(f"{namespace}/")]
        assert [each.key for each in now.under(namespace)] == inside
        for key in inside:
            assert [each.key for each in now.under(namespace, key)] == [other for other in inside if other > key]
    assert [each.key for each in now.under("")] == sorted(collection.objects)


@given(STEPS, STEPS)
def test_a_restored_snapshot_is_what_was_and_remembers_nothing(before: list[Step], after: list[Step]) -> None:
    store = ObjectStore(100)
    _live(store, before)
    snapshot, version = store.snapshot(), store.version
    objects = dict(store.collection("things").objects)
    _live(store, after)
    store.restore(snapshot)
    collection = store.collection("things")
    assert (store.version, collection.objects) == (version, objects)
    with pytest.raises(Forgotten):
        collection.at(version - 1)
    assert collection.since(collection.position_after(version)) == []
