"""Paths as the configuration writes them."""

from __future__ import annotations

import pytest

from bridge.model.primitives.field_path import EVERY, MOST_STEPS, FieldPath


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("data", ("data",)),
        ("data.*", ("data", EVERY)),
        ("spec.containers[*].env[*].value", ("spec", "containers", EVERY, "env", EVERY, "value")),
        ("metadata.annotations['a.b/c']", ("metadata", "annotations", "a.b/c")),
        ('["a b"][\'it"s\']', ("a b", 'it"s')),
        ("*.x", (EVERY, "x")),
    ],
)
def test_a_path_is_read_step_by_step(text: str, steps: tuple[object, ...]) -> None:
    assert FieldPath.parsed(text).steps == steps


@pytest.mark.parametrize("text", ["", ".a", "a.", "a..b", "a[0]", "a[b]", "a['']", "a b", "$.a", "a['b]", "a\n"])
def test_other_texts_are_no_paths(text: str) -> None:
    with pytest.raises(ValueError, match="a path is expected"):
        FieldPath.parsed(text)


def test_a_path_has_a_bound() -> None:
    with pytest.raises(ValueError, match="at most"):
        FieldPath.parsed(".".join("a" * (MOST_STEPS + 1)))


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        ("metadata", "metadata.name", True),
        ("metadata.name.x", "metadata.name", True),
        ("*.*", "metadata.name", True),
        ("metadata.labels", "metadata.name", False),
        ("*.labels", "metadata.name", False),
    ],
)
def test_two_paths_meet_where_one_leads_through_the_other(one: str, other: str, meets: bool) -> None:
    assert FieldPath.parsed(one).meets(FieldPath.parsed(other)) is meets
