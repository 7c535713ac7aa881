"""A state's digest is the same exactly where states differ in ignored paths alone."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.primitives.field_path import EVERY, FieldPath
from bridge.transform.digest import SIZE, IgnoredPaths

NAMES = ("a", "b", "c", "metadata")
STEPS = st.sampled_from(["a", "b", "metadata", "resourceVersion"]) | st.just(EVERY)

scalars = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "{", "ä"])
values = st.recursive(
    scalars,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(NAMES), below, max_size=3),
    max_leaves=10,
)
objects = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"resourceVersion": st.sampled_from(["1", "2"])}, optional={"a": values})},
    optional={"a": values, "b": values},
)
path_sets = st.lists(st.lists(STEPS, min_size=1, max_size=3).map(lambda steps: FieldPath(tuple(steps))), max_size=3)


def as_bytes(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


GONE = object()


def without(value: Any, paths: list[tuple[Any, ...]]) -> Any:
    """The model: works on decoded values."""
    if () in paths:
        return GONE
    if isinstance(value, dict):
        below = {
            key: without(each, [path[1:] for path in paths if path[0] in (key, EVERY)]) for key, each in value.items()
        }
        left = {key: each for key, each in below.items() if each is not GONE}
        return left if left or not paths else GONE
    every = [path[1:] if path[0] is EVERY else path for path in paths]
    if isinstance(value, list) and every:
        if () in every:
            return GONE
        return [{} if each is GONE else each for each in (without(item, every) for item in value)]
    return value


def left(manifest: Any, paths: list[FieldPath]) -> bytes:
    found = without(manifest, [*(path.steps for path in paths), ("metadata", "resourceVersion")])
    return as_bytes({} if found is GONE else found)


@given(objects, objects, path_sets)
def test_digests_are_equal_where_states_are(one: Any, other: Any, paths: list[FieldPath]) -> None:
    digest = IgnoredPaths(paths).digest

    same = left(one, paths) == left(other, paths)

    assert (digest(as_bytes(one)) == digest(as_bytes(other))) is same


@given(objects, st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=3), path_sets, values)
def test_a_change_of_an_ignored_path_is_no_change(
    manifest: Any, names: list[str], others: list[FieldPath], value: Any
) -> None:
    *parents, last = names
    changed = here = copy.deepcopy(manifest)
    for name in parents:
        here[name] = here = {}
    here[last] = value
    digest = IgnoredPaths([FieldPath(tuple(names)), *others]).digest

    assert digest(as_bytes(changed)) == digest(as_bytes(manifest))


POD = as_bytes({"metadata": {"name": "web", "annotations": {"a.example/at": "1"}}, "status": {"conditions": []}})
IGNORED = [FieldPath.parsed("status.conditions[*].at"), FieldPath.parsed("metadata.annotations['a.example/at']")]


def test_digests_of_other_paths_are_never_equal() -> None:
    wider = IgnoredPaths([*IGNORED, FieldPath.parsed("spec")])

    assert wider.remaining(POD) == IgnoredPaths(IGNORED).remaining(POD)
    assert wider.digest(POD) != IgnoredPaths(IGNORED).digest(POD)
    assert IgnoredPaths(reversed(IGNORED)).digest(POD) == IgnoredPaths(IGNORED).digest(POD)


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b"1", b'{"metadata":1}', b'{"a":' * 100_000])
def test_bytes_of_any_kind_have_a_digest(body: bytes) -> None:
    assert len(IgnoredPaths(IGNORED).digest(body)) == SIZE
