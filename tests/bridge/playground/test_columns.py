"""Columns and cells; that they are kube-apiserver's, ``test_fidelity`` shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bridge.playground.objects.builtin import BUILT_IN
from bridge.playground.objects.catalogue import Kind, PrinterColumn
from bridge.playground.objects.columns import columns_of, human_duration

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-60, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (2 * MINUTE, "2m"),
        (9 * MINUTE + 5, "9m5s"),
        (10 * MINUTE + 5, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (7 * DAY + 23 * HOUR, "7d23h"),
        (8 * DAY + 23 * HOUR, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (3 * 365 * DAY + 4 * DAY, "3y4d"),
        (8 * 365 * DAY + 4 * DAY, "8y"),
    ],
)
def test_a_duration_is_told_as_kubectl_tells_it(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.name)
def test_an_object_without_members_has_a_cell_in_every_column(kind: Kind) -> None:
    columns = columns_of(kind, kind.versions[0])
    for manifest in ({}, {"metadata": {"name": "a"}}):
        assert len(columns.cells(manifest, NOW)) == len(columns.columns)


@pytest.mark.parametrize("wrong", ["text", 7, ["x"], {"a": "b"}])
@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.name)
def test_members_of_another_shape_spoil_no_table(kind: Kind, wrong: Any) -> None:
    columns = columns_of(kind, kind.versions[0])
    names = ("spec", "status", "data", "subsets", "endpoints", "ports", "roleRef", "subjects", "involvedObject")
    for name in names:
        assert len(columns.cells({"metadata": {"name": "a"}, name: wrong}, NOW)) == len(columns.columns)


def test_what_cannot_be_read_is_invalid_beside_its_name() -> None:
    (pods,) = (kind for kind in BUILT_IN if kind.name == "pods")
    cells = columns_of(pods, "v1").cells({"metadata": {"name": "a"}, "spec": "gone"}, NOW)
    assert cells == ["a", *["<invalid>"] * 8]


def _shown(path: str, manifest: dict[str, Any], type_: str = "string") -> Any:
    kind = Kind(plural="widgets", kind="Widget", custom=True, columns={"v1": (PrinterColumn("X", type_, path=path),)})
    return columns_of(kind, "v1").cells({"metadata": {"name": "a"}, **manifest}, NOW)[1]


def test_a_definition_without_columns_shows_the_age() -> None:
    created = {"metadata": {"name": "a", "creationTimestamp": "2026-01-05T11:00:00Z"}}
    columns = columns_of(Kind(plural="widgets", kind="Widget", custom=True), "v1")
    assert (columns.cells(created, NOW), columns.columns[1].name) == (["a", "60m"], "Age")


@pytest.mark.parametrize("path", ["spec", ".spec..name", ".spec[0:2]", ".spec[?(@.a>1)]", ".", "[", ".a[?(@.b=="])
def test_an_expression_that_is_not_read_leaves_its_cells_empty(path: str) -> None:
    assert _shown(path, {"spec": {"name": "x"}}) is None


def test_no_path_costs_more_than_a_walk_over_the_object() -> None:
    deep: dict[str, Any] = {"value": "found"}
    for _ in range(200):
        deep = {"a": deep}
    assert _shown(".spec" + ".a" * 200 + ".value", {"spec": deep}) == "found"
    wide = {"spec": {"items": [{"name": "x"}] * 1000}}
    assert _shown(".spec.items" + "[*]" * 5000, wide) is None
    for path in ("." + "\\" * 50_000, ".a" * 50_000, "[?(" * 20_000, ".a[?(@" + ".b" * 50_000 + "=='"):
        assert _shown(path, wide) is None
