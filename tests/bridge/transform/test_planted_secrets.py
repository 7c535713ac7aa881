"""No planted secret is left: of each place of the table, in each shape, spelling and kind of object, or in nests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.resource import Resource
from bridge.transform.places import PLACES
from tests.bridge.transform.leaving import CONFIG_MAPS, TOKEN, WIDGETS, leaves, manifest
from tests.kit import planted
from tests.kit.examples import examples
from tests.kit.records import DEPLOYMENTS, PODS

REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", namespaced=True)


class Secrets:
    """Numbered words, which no digest has in it."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def __call__(self) -> str:
        self.given.append(f"hunter{len(self.given):03}zzz")
        return self.given[-1]

    def left_in(self, text: str) -> list[str]:
        return [each for each in self.given if each in text]


def what_leaves(resource: Resource, spelling: str, thing: Any) -> str:
    left = leaves(resource, planted.SPELLINGS[spelling](thing))
    assert left.keys() == thing.keys(), "not bare"
    return json.dumps(left, ensure_ascii=False)


def cases() -> Iterator[tuple[Resource, str, str]]:
    for resource, members in ((PODS, planted.typed), (DEPLOYMENTS, planted.typed), (WIDGETS, planted.free)):
        yield from ((resource, name, spelling) for name in members(lambda: "") for spelling in planted.SPELLINGS)
    for resource in (CONFIG_MAPS, REVISIONS):
        yield from ((resource, name, "compact") for name in planted.free(lambda: ""))


@pytest.mark.parametrize(("resource", "name", "spelling"), list(cases()), ids=str)
def test_no_planted_secret_is_left(resource: Resource, name: str, spelling: str) -> None:
    secrets = Secrets()
    made = (planted.typed if resource in (PODS, DEPLOYMENTS) else planted.free)(secrets)
    members = made[name]

    left = what_leaves(resource, spelling, manifest(resource, spec={"a": [members]}, data=members))

    assert secrets.left_in(json.dumps(members, ensure_ascii=False)), "planted"
    assert secrets.left_in(left) == []


@pytest.mark.parametrize("spelling", planted.SPELLINGS)
@pytest.mark.parametrize("resource", [PODS, CONFIG_MAPS, WIDGETS], ids=lambda each: each.kind)
def test_no_secret_is_left_in_annotations(resource: Resource, spelling: str) -> None:
    secrets = Secrets()

    thing = manifest(resource, {"annotations": planted.in_annotations(secrets)})

    assert secrets.left_in(what_leaves(resource, spelling, thing)) == []


def test_a_bootstrap_token_in_a_config_map_is_redacted() -> None:
    data = leaves(CONFIG_MAPS, manifest(CONFIG_MAPS, data={"join-token": TOKEN, "other": TOKEN}))["data"]

    assert data["join-token"].startswith("hmac-sha256:")
    assert data["other"] == TOKEN


def test_every_place_and_reading_has_shapes() -> None:
    for shapes in (planted.TYPED_SHAPES, planted.FREE_SHAPES):
        assert {reading for _, reading in PLACES.values()} == shapes.keys()


@st.composite
def nests(draw: st.DrawFn, secrets: Secrets) -> Any:
    """Maps and lists with several of the shapes at any depth, among harmless members."""

    def nest(depth: int) -> Any:
        shape = draw(st.integers(0, 3 if depth < 3 else 1))
        if shape == 0:
            return draw(st.sampled_from([None, True, 7, 1.5, "x", "a ] } b", 'a "env":[ b', "é\\", {}, []]))
        if shape == 1:
            made = planted.free(secrets)
            return made[draw(st.sampled_from(sorted(made)))]
        if shape == 2:
            return [nest(depth + 1) for _ in range(draw(st.integers(0, 3)))]
        names = draw(st.lists(st.sampled_from(["a", "name", "value", "spec", 'a"b', "é", "x\\", "env:"]), unique=True))
        return {name: nest(depth + 1) for name in names}

    return nest(0)


@given(st.data(), st.sampled_from([CONFIG_MAPS, WIDGETS]), st.sampled_from(sorted(planted.SPELLINGS)))
@examples(150)
def test_no_planted_secret_is_left_in_any_nest(data: st.DataObject, resource: Resource, spelling: str) -> None:
    secrets = Secrets()
    thing = manifest(resource, spec=data.draw(nests(secrets)))

    assert secrets.left_in(what_leaves(resource, spelling, thing)) == []
