"""Values at configured paths: redacted in every shape, and members beside them untouched."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.object import MASKED, ApiObject, is_digest_in
from bridge.model.policies import RedactionMode, RedactionRule
from bridge.model.primitives.field_path import EVERY, FieldPath
from bridge.transform.redaction import Redaction
from bridge.transform.transform import transform_for
from tests.bridge.transform import leaving
from tests.bridge.transform.leaving import KEY, SECRET, SECRETS, WIDGETS, manifest


def ruled(mode: RedactionMode, *paths: str) -> Redaction:
    return Redaction((KEY,), frozenset(), (RedactionRule(tuple(map(FieldPath.parsed, paths)), mode),))


def leaves(spec: Any, mode: RedactionMode, *paths: str) -> Any:
    return leaving.leaves(WIDGETS, manifest(WIDGETS, spec=spec), ruled(mode, *paths)).get("spec")


def test_each_mode_does_what_it_says() -> None:
    spec = {"password": SECRET, "user": "web"}

    assert leaves(spec, RedactionMode.REMOVE, "spec.password") == {"user": "web"}
    assert leaves(spec, RedactionMode.MASK, "spec.password") == {"password": MASKED, "user": "web"}
    assert is_digest_in(leaves(spec, RedactionMode.HMAC, "spec.password")["password"])


def test_a_star_is_every_member_and_every_item() -> None:
    spec = {
        "stores": {"a": {"key": SECRET, "x": 1}, "b": {"key": SECRET}},
        "list": [{"key": SECRET}, {"y": 2}, [SECRET]],
    }

    left = leaves(spec, RedactionMode.MASK, "spec.stores.*.key", "spec.list[*].key")

    assert left["stores"] == {"a": {"key": MASKED, "x": 1}, "b": {"key": MASKED}}
    assert left["list"][:2] == [{"key": MASKED}, {"y": 2}]


def test_a_path_to_a_map_or_a_list_covers_all_values_in_it() -> None:
    spec = {"data": {"a": SECRET, "b": [SECRET, 5, True, None, {"c": SECRET}]}}

    left = leaves(spec, RedactionMode.MASK, "spec.data")

    assert left == {"data": {"a": MASKED, "b": [MASKED, MASKED, MASKED, None, {"c": MASKED}]}}


def test_a_quoted_name_may_have_dots_and_slashes() -> None:
    assert leaves({"a.b/c": SECRET}, RedactionMode.REMOVE, "spec['a.b/c']") == {}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *product(["spec.m.key.pem", "spec.m.*.x"], [SECRET, [SECRET], [[SECRET]], 5]),
        ("spec.m.*.x", {"a": SECRET}),
        ("spec.m.*.x", {"a": {"x": SECRET}, "b": [SECRET]}),
    ],
)
def test_a_value_in_place_of_a_map_is_redacted_itself(path: str, value: Any) -> None:
    left = leaves({"m": value, "n": 1}, RedactionMode.HMAC, path)

    assert SECRET not in json.dumps(left)
    assert left["n"] == 1
    assert SECRET not in json.dumps(leaves(value, RedactionMode.HMAC, path.replace(".m", "")))


def test_null_in_place_of_a_map_stays() -> None:
    assert leaves({"m": {"a": None}}, RedactionMode.HMAC, "spec.m.*.x") == {"m": {"a": None}}
    assert leaves(None, RedactionMode.HMAC, "spec.password") is None


def test_a_removed_item_leaves_the_others_where_they_are() -> None:
    assert leaves({"list": [SECRET, SECRET]}, RedactionMode.REMOVE, "spec.list[*]") == {"list": [None, None]}


def test_a_digest_does_not_depend_on_the_index_of_an_item() -> None:
    one = leaves({"list": [{"key": SECRET}]}, RedactionMode.HMAC, "spec.list[*].key")["list"]
    two = leaves({"list": [{"key": "new"}, {"key": SECRET}]}, RedactionMode.HMAC, "spec.list[*].key")["list"]

    assert one[0] == two[1] != two[0]


def test_a_digest_is_not_digested_again() -> None:
    secret = manifest(SECRETS, data={"a": "aHVudGVyMg=="})

    assert leaving.leaves(SECRETS, secret, ruled(RedactionMode.HMAC, "data.*")) == leaving.leaves(SECRETS, secret)


@pytest.mark.parametrize(
    "members",
    ['"spec":{"\\u0070assword":"hunter2-hunter2"}', '"spec":{"password":"hunter2-hunter2"},"spec":{"x":1}'],
    ids=["escaped", "twice"],
)
def test_no_spelling_of_a_name_hides_a_value(members: str) -> None:
    thing = ApiObject("web", "u", "7", b'{"metadata":{"name":"web"},%b}' % members.encode())

    left = transform_for(WIDGETS, ruled(RedactionMode.HMAC, "spec.password"))(thing).body

    assert SECRET.encode() not in left


_steps = st.one_of(st.sampled_from(["a", "b", "x.y/z"]), st.just(EVERY))
_spec = st.recursive(
    st.one_of(st.none(), st.integers(-9, 9), st.just(SECRET)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "x.y/z"]), inner)),
    max_leaves=10,
)


def _reached(value: Any, steps: tuple[Any, ...]) -> list[Any]:
    """An oracle: values at the path, in objects that have the shape that it expects."""
    if not steps:
        return [value]
    if isinstance(value, dict):
        names = value if steps[0] is EVERY else [steps[0]] if steps[0] in value else []
        return [found for name in names for found in _reached(value[name], steps[1:])]
    if isinstance(value, list) and steps[0] is EVERY:
        return [found for item in value for found in _reached(item, steps[1:])]
    return []


@given(spec=_spec, steps=st.lists(_steps, min_size=1, max_size=4).map(tuple), mode=st.sampled_from(RedactionMode))
def test_no_value_at_the_path_gets_through(spec: Any, steps: tuple[Any, ...], mode: RedactionMode) -> None:
    path = "spec" + "".join("[*]" if step is EVERY else f"['{step}']" for step in steps)

    left = leaves(spec, mode, path)

    assert SECRET not in json.dumps(_reached(left, steps))


@given(spec=_spec, mode=st.sampled_from(RedactionMode))
def test_members_beside_the_path_stay(spec: Any, mode: RedactionMode) -> None:
    assert leaves({"keep": spec, "drop": spec}, mode, "spec.drop")["keep"] == spec
