"""Patches between states: the merge patch and the JSON patch lead from before to after, and stay small."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.content.changed import LONGEST_NAME, MOST_PATHS, changed_paths
from bridge.content.patches import LONGEST_PATH, MOST_OPERATIONS, json_patch, merge_patch

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


@given(objects(SCALARS), objects(SCALARS))
def test_a_merge_patch_leads_from_before_to_after(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert text(merged(before, merge_patch(before, after))) == text(after)


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


@pytest.mark.parametrize(("count", "prefix"), [(MOST_OPERATIONS + 1, "a"), (3, "x" * (LONGEST_PATH + 1))])
def test_a_wide_or_long_subtree_is_replaced_whole(count: int, prefix: str) -> None:
    before, after = a_wide_object(count, 1, prefix), a_wide_object(count, 2, prefix)

    operations = json_patch(before, after)

    assert len(operations) <= 2
    assert len(json.dumps(operations)) < 2 * len(json.dumps(after))
    assert patched(before, operations) == after


# ── Paths ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({"spec": {"replicas": 1, "x": 1}}, {"spec": {"replicas": 2, "x": 1}}, ["spec.replicas"]),
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, ["a", "b", "c"]),
        ({"l": [{"image": 1}, 2]}, {"l": [{"image": 2}, 2]}, ["l[0].image"]),
        ({"l": [1]}, {"l": [2, 1]}, ["l"]),
        ({"metadata": {"labels": {"a.b/c": 1}}}, {"metadata": {"labels": {}}}, ["metadata.labels['a.b/c']"]),
        ({"it's": 1}, {"it's": 2}, ['["it\'s"]']),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": None}, {}, ["a"]),
        ({"metadata": {"resourceVersion": "1", "generation": 1}}, {"metadata": {"resourceVersion": "2"}}, []),
        ({"spec": {"generation": 1}}, {"spec": {"generation": 2}}, ["spec.generation"]),
    ],
)
def test_a_path_is_written_as_in_redact(before: Any, after: Any, paths: list[str]) -> None:
    assert changed_paths(before, after) == paths


def test_many_paths_become_those_of_the_level_above() -> None:
    before, after = ({"l": a_wide_object(MOST_PATHS, value, "b"), "c": value} for value in (1, 2))

    assert changed_paths(before, after) == ["l.b", "l.other", "c"]
    assert changed_paths(a_wide_object(MOST_PATHS + 1, 1, "a"), a_wide_object(MOST_PATHS + 1, 2, "a")) == ["a", "other"]
    long = "x" * (LONGEST_NAME + 1)
    assert changed_paths({"data": {long: 1}}, {"data": {long: 2}}) == ["data"]
