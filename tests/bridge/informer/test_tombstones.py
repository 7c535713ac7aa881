"""Tombstones: the exported deletes."""

from __future__ import annotations

import pytest

from bridge.informer.controller import Tombstones
from tests.kit.objects import a_pod

WEB, DB = a_pod("web"), a_pod("db")


@pytest.mark.parametrize(
    ("version", "exported"), [("9", True), ("10", True), ("11", False), ("100", False), ("x", False)]
)
def test_everything_up_to_the_position_was_exported(version: str, exported: bool) -> None:
    assert Tombstones().cover(WEB.at(version), "10") is exported


def test_at_no_position_nothing_is_claimed() -> None:
    assert not Tombstones().cover(WEB.at(1), None)


@pytest.mark.parametrize(("version", "exported"), [("9", True), ("10", True), ("11", False)])
def test_a_delete_is_remembered_up_to_its_version(version: str, exported: bool) -> None:
    tombstones = Tombstones()
    tombstones.add(WEB.at(10))

    assert tombstones.cover(WEB.at(version), None) is exported
    assert not tombstones.cover(WEB.born_again().at(version), None), "that is another object"


def test_versions_without_an_order_are_known_by_their_text() -> None:
    tombstones = Tombstones()
    tombstones.add(WEB.at("b"))

    assert tombstones.cover(WEB.at("b"), "c")
    assert not tombstones.cover(WEB.at("a"), "c")


def test_only_the_newest_are_remembered() -> None:
    tombstones = Tombstones(most=2)
    pods = [a_pod(f"web-{number}").at(number) for number in range(4)]
    for pod in pods:
        tombstones.add(pod)

    assert [tombstones.cover(pod, None) for pod in pods] == [False, False, True, True]
