"""Patches between states: the merge patch and the JSON patch lead from before to after, and stay small."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.primitives.field_path import EVERY, FieldPath, Step
from bridge.views.differences import (
    DEEPEST,
    LONGEST_NAME,
    MOST_IN_PATHS,
    MOST_OPERATIONS,
    MOST_PATHS,
    changed_paths,
    json_patch,
    merge_patch,
)
from tests.kit.growth import grows_linearly

SCALARS = st.booleans() | st.integers(-1, 2) | st.sampled_from([0.0, 1.0]) | st.text("ab/~'é", max_size=2)
NAMES = st.text("abé/~'.", max_size=2)
"""Few, so that two objects share some."""


def values(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
        max_leaves=12,
    )


def objects(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(NAMES, values(leaf), max_size=4)


def text(value: Any) -> str:
    """JSON, in which 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2, word by word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def patched(document: Any, operations: list[dict[str, Any]]) -> Any:
    """RFC 6902, section 4, for the operations add, remove and replace."""
    root = {"": json.loads(json.dumps(document))}
    for each in operations:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in each["path"].split("/")]
        parent: Any = root
        for step in steps[:-1]:
            parent = parent[int(step)] if isinstance(parent, list) else parent[step]
        last: Any = int(steps[-1]) if isinstance(parent, list) else steps[-1]
        if each["op"] == "add" and isinstance(parent, list):
            assert last <= len(parent)
            parent.insert(last, each["value"])
            continue
        if each["op"] != "add":
            parent[last]  # must exist: KeyError or IndexError
        if each["op"] == "remove":
            del parent[last]
        else:
            parent[last] = each["value"]
    return root[""]


@given(objects(SCALARS | st.none()), objects(SCALARS | st.none()))
def test_a_merge_patch_leads_from_before_to_after(before: dict[str, Any], after: dict[str, Any]) -> None:
    patch = merge_patch(before, after)

    assert patch is None or text(merged(before, patch)) == text(after)


@given(objects(SCALARS), objects(SCALARS))
def test_there_is_a_merge_patch_to_a_state_without_nulls(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merge_patch(before, after) is not None


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1}, {"a": None}, None),
        ({}, {"a": None}, None),
        ({}, {"a": {"b": {"c": None}}}, None),
        ({"a": [1]}, {"a": {"b": None}}, None),
        ({"a": None, "b": 1}, {"a": None, "b": 2}, {"b": 2}),
        ({"a": {"n": None, "b": 1}}, {"a": {"n": None}}, {"a": {"b": None}}),
        ({"a": []}, {"a": [None, {"b": None}]}, {"a": [None, {"b": None}]}),
        ({"a": 1}, {"a": {}}, {"a": {}}),
    ],
)
def test_no_merge_patch_can_set_a_member_to_null(before: Any, after: Any, patch: Any) -> None:
    assert merge_patch(before, after) == patch


@given(objects(SCALARS | st.none()), objects(SCALARS | st.none()))
def test_a_json_patch_leads_from_before_to_after(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert text(patched(before, json_patch(before, after))) == text(after)


@given(objects(SCALARS | st.none()))
def test_nothing_changed_is_an_empty_patch(state: dict[str, Any]) -> None:
    assert (merge_patch(state, state), json_patch(state, state), changed_paths(state, state)) == ({}, [], [])


@given(objects(SCALARS | st.none()), objects(SCALARS | st.none()))
def test_there_are_changed_paths_where_there_are_operations(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert bool(changed_paths(before, after)) is bool(json_patch(before, after))


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ([1, 2, 3], [1, 3], [{"op": "remove", "path": "/l/1"}]),
        ([1, 3], [1, 2, 3], [{"op": "add", "path": "/l/1", "value": 2}]),
        ([1], [1, 2, 3], [{"op": "add", "path": "/l/1", "value": 2}, {"op": "add", "path": "/l/2", "value": 3}]),
        ([1, 2, 3, 4], [4], [{"op": "remove", "path": f"/l/{n}"} for n in (2, 1, 0)]),
        ([{"n": "a", "v": 1}, 2], [{"n": "a", "v": True}, 2], [{"op": "replace", "path": "/l/0/v", "value": True}]),
        ([], {}, [{"op": "replace", "path": "/l", "value": {}}]),
    ],
)
def test_of_a_list_only_the_changed_part_is_in_the_patch(before: Any, after: Any, operations: Any) -> None:
    assert json_patch({"l": before}, {"l": after}) == operations


def a_wide_object(count: int, value: int, prefix: str = "") -> dict[str, Any]:
    return {prefix: {f"k{n}": value for n in range(count)}, "other": value}


@pytest.mark.parametrize(("count", "prefix"), [(MOST_OPERATIONS + 1, "a"), (3, "x" * (MOST_IN_PATHS + 1))])
def test_a_wide_or_long_subtree_is_replaced_whole(count: int, prefix: str) -> None:
    before, after = a_wide_object(count, 1, prefix), a_wide_object(count, 2, prefix)

    operations = json_patch(before, after)

    assert len(operations) <= 2
    assert len(json.dumps(operations)) < 2 * len(json.dumps(after))
    assert patched(before, operations) == after


def a_deep_object(levels: int, leaf: Any) -> Any:
    return reduce(lambda inner, _: {"a": inner}, range(levels), leaf)


def test_beyond_the_deepest_level_a_subtree_is_replaced_whole() -> None:
    before, after = a_deep_object(490, 1), a_deep_object(490, 2)

    assert json_patch(before, after) == [
        {"op": "replace", "path": "/a" * DEEPEST, "value": a_deep_object(490 - DEEPEST, 2)}
    ]
    assert merge_patch(before, after) is None
    assert changed_paths(before, after) == [".".join("a" * DEEPEST)]
    assert changed_paths(a_deep_object(DEEPEST, 1), a_deep_object(DEEPEST, 2)) == [".".join("a" * DEEPEST)]


HOSTILE: dict[str, Callable[[int, int], Any]] = {
    "many members below a long name": lambda size, value: {"n" * size: {f"k{n}": value for n in range(size // 8)}},
    "a large text below many levels": lambda size, value: a_deep_object(490, {"a": "t" * size, "b": value}),
    "many items below many levels": lambda size, value: a_deep_object(490, [*range(size // 4), value]),
    "lists in lists": lambda size, value: [[[value, n]] for n in range(size // 8)],
    "a list that lost its first item": lambda size, value: {"l": [{"n": n} for n in range(value, size // 8)]},
    "names that need quotes": lambda size, value: {f"/~'{n}": value for n in range(size // 8)},
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=list(HOSTILE))
@pytest.mark.parametrize("difference", [merge_patch, json_patch, changed_paths])
def test_the_time_is_linear_in_the_size_of_the_states(make: Callable[[int, int], Any], difference: Any) -> None:
    def comparing(size: int) -> Callable[[], object]:
        before = make(size, 1)
        after = make(size, 2)
        return lambda: difference(before, after)

    assert grows_linearly(comparing, 50_000, 500_000)


# ── Paths ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({"spec": {"replicas": 1, "x": 1}}, {"spec": {"replicas": 2, "x": 1}}, ["spec.replicas"]),
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, ["a", "b", "c"]),
        ({"l": [{"image": 1}, 2]}, {"l": [{"image": 2}, 2]}, ["l[*].image"]),
        ({"l": [{"i": 1}, {"i": 1}, 3]}, {"l": [{"i": 2}, {"i": 3}, 4]}, ["l[*].i", "l[*]"]),
        ({"l": [1]}, {"l": [2, 1]}, ["l"]),
        ({"metadata": {"labels": {"a.b/c": 1}}}, {"metadata": {"labels": {}}}, ["metadata.labels['a.b/c']"]),
        ({"it's": 1}, {"it's": 2}, ['["it\'s"]']),
        ({"d": {"it's \"": 1}}, {"d": {"it's \"": 2}}, ["d"]),
        ({"d": {"": 1}}, {"d": {"": 2}}, ["d"]),
        ({"": 1, "b": 2}, {"": 2, "b": 3}, ["*"]),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": None}, {}, ["a"]),
        ({"metadata": {"resourceVersion": "1", "generation": 1}}, {"metadata": {"resourceVersion": "2"}}, []),
        ({"spec": {"generation": 1}}, {"spec": {"generation": 2}}, ["spec.generation"]),
        ({"spec": {"metadata": {"generation": 1}}}, {"spec": {"metadata": {}}}, ["spec.metadata.generation"]),
    ],
)
def test_a_path_is_written_as_in_the_configuration(before: Any, after: Any, paths: list[str]) -> None:
    assert changed_paths(before, after) == paths


@given(objects(SCALARS | st.none()), objects(SCALARS | st.none()))
def test_without_the_changed_paths_the_states_are_equal(before: dict[str, Any], after: dict[str, Any]) -> None:
    paths = [FieldPath.parsed(path) for path in changed_paths(before, after)]

    for path in paths:
        before, after = without(before, path.steps), without(after, path.steps)
    assert text(before) == text(after)


def without(value: Any, steps: Sequence[Step]) -> Any:
    """The value without the subtrees at the path."""
    if not steps:
        return None
    if isinstance(value, dict):
        chosen = [steps[0]] if isinstance(steps[0], str) else list(value)
        rest = {name: without(each, steps[1:]) for name, each in value.items() if name in chosen}
        return {**value, **rest} if steps[1:] else {n: each for n, each in value.items() if n not in chosen}
    if isinstance(value, list) and steps[0] is EVERY:
        return [without(each, steps[1:]) for each in value]
    return value


def test_many_paths_become_those_of_the_level_above() -> None:
    before, after = ({"l": a_wide_object(MOST_PATHS, value, "b"), "c": value} for value in (1, 2))

    assert changed_paths(before, after) == ["l.b", "l.other", "c"]
    assert changed_paths(a_wide_object(MOST_PATHS + 1, 1, "a"), a_wide_object(MOST_PATHS + 1, 2, "a")) == ["a", "other"]
    long = "x" * (LONGEST_NAME + 1)
    assert changed_paths({"data": {long: 1}}, {"data": {long: 2}}) == ["data"]
