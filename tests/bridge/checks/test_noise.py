"""Changed paths are counted in a form that `ignore_changes` takes, and with which it ignores these changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from bridge.checks import noise
from bridge.checks.noise import NoiseTally
from bridge.model.primitives.field_path import FieldPath
from bridge.transform.digest import IgnoredPaths
from config.schema.resources import ResourceSettings

NAMES = st.sampled_from(["a", "b", "x/y", "don't", 'say "a"', "c[0]", "é\u202e", "*", "true"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "ä"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(NAMES, values, max_size=3)


def as_bytes(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def seen(*steps: tuple[str, Any, Any], seconds: float = 10.0) -> NoiseTally:
    """``steps``: resource, state before, state after."""
    tally = NoiseTally()
    for resource, before, after in steps:
        tally.watched(resource, seconds)
        tally.update(resource, as_bytes(before), as_bytes(after), ())
    return tally


def a_node(beat: str, **annotations: str) -> dict[str, Any]:
    conditions = [{"type": each, "lastHeartbeatTime": beat} for each in ("Ready", "DiskPressure")]
    return {"metadata": {"name": "a", "annotations": annotations}, "status": {"conditions": conditions}}


def test_paths_have_no_indexes_and_name_their_keys() -> None:
    tally = seen(
        ("nodes", a_node("1"), a_node("2")),
        ("nodes", a_node("2"), a_node("3", **{"example.com/beat": "3"})),
        ("leases.coordination.k8s.io", {"spec": {"renewTime": 1}}, {"spec": {"renewTime": 2}}),
        ("pods", {"a": {"b": [1]}}, {"a": {"b": [1, 2]}}),
    )

    assert [(each.resource, each.path, each.per_second, each.share) for each in tally.noisiest()] == [
        ("nodes", "status.conditions[*].lastHeartbeatTime", 0.2, 2 / 4),
        ("leases.coordination.k8s.io", "spec.renewTime", 0.1, 1 / 4),
        ("nodes", "metadata.annotations['example.com/beat']", 0.1, 1 / 4),
        ("pods", "a.b", 0.1, 1 / 4),
    ]


def test_entries_can_be_pasted_and_say_what_they_save() -> None:
    tally = seen(
        ("nodes", a_node("1"), a_node("2")),
        ("nodes", a_node("2"), a_node("3", **{"example.com/beat": "3"})),
        ("pods", {"a": {"don't": 1}}, {"a": {"don't": 2}}),
        ("pods", {"": 1}, {"": 2}),
    )

    entries = tally.entries(tally.noisiest())
    assert "# 0.1 of 0.2 updates/s would not be exported\n  - resource: pods" in entries
    read = [ResourceSettings.model_validate(each) for each in yaml.safe_load(entries)["resources"]]
    assert {each.resource: each.ignore_changes for each in read} == {
        "nodes": ("status.conditions[*].lastHeartbeatTime", "metadata.annotations['example.com/beat']"),
        "pods": ('a["don\'t"]',),
    }


def test_without_a_path_that_can_be_ignored_no_entry_is_made() -> None:
    tally = seen(("pods", {"": 1}, {"": 2}), ("pods", {"a": 1}, {"a": 1}))
    assert {each.can_be_ignored for each in tally.noisiest()} == {False}
    assert tally.entries(tally.noisiest()) == ""


@given(before=objects, after=objects)
def test_ignoring_the_changed_paths_ignores_the_update(before: dict[str, Any], after: dict[str, Any]) -> None:
    tally = seen(("pods", before, after))
    found = tally.noisiest()
    assume(len(found) < noise.NOISIEST and all(each.can_be_ignored for each in found))

    entries = yaml.safe_load(tally.entries(found))["resources"]
    assert [each["resource"] for each in entries] == ["pods"]
    ignored = IgnoredPaths(map(FieldPath.parsed, entries[0]["ignore_changes"]))
    assert ignored.digest(as_bytes(before)) == ignored.digest(as_bytes(after))


@given(name=st.text(min_size=1))
def test_a_strangers_key_stays_within_its_scalar(name: str) -> None:
    tally = seen(("pods", {"data": {name: 1}}, {"data": {name: 2}}))
    entries = tally.entries(tally.noisiest())
    assert all(each.isprintable() for each in entries.splitlines())
    if entries:
        [entry] = yaml.safe_load(entries)["resources"]
        [path] = map(FieldPath.parsed, entry["ignore_changes"])
        assert path.steps in (("data", name), ("data",)), "a name without a form in a path counts as its map"


def test_counted_paths_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "MOST_PATHS", 3)
    tally = seen(*(("pods", {"data": {str(each): 1}}, {"data": {}}) for each in range(5)))
    assert (len(tally.noisiest()), tally.compared, tally.others) == (3, 5, 2)


@pytest.mark.parametrize("more", [{str(each): 1 for each in range(201)}, {"k" * 400: 1}])
def test_large_changes_have_short_paths(more: dict[str, int]) -> None:
    [found] = seen(("pods", {"data": {}}, {"data": more})).noisiest()
    assert len(found.path) < 50
