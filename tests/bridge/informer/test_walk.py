"""The way of an object back to its known state, against a history that answers at any version."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from bridge.informer.recovery.walk import ExportedState, Moment, Walk
from bridge.model.object import ApiObject, at_version
from tests.kit.objects import Blueprint, a_pod

WEB = a_pod("web")
NEXT = WEB.born_again()


@dataclass
class Past:
    """The states of a name: version → the object from then on, or None from its delete on."""

    states: dict[int, ApiObject | None]
    forgotten: int = 0
    """The server has forgotten all states through this version."""
    asked: list[int] = field(default_factory=list)

    def at(self, version: int) -> ApiObject | None:
        return self.states[max((each for each in self.states if each <= version), default=0)]

    def walked(self, walk: Walk, *, most: int = 100) -> Walk:
        while walk.wanted is not None and len(self.asked) < most:
            self.asked.append(version := walk.wanted)
            if version <= self.forgotten:
                walk.forgotten(self.forgotten)
            else:
                walk.take(Moment(version, self.at(version)))
        return walk


def past(*versions: tuple[int, Blueprint | None], forgotten: int = 0) -> Past:
    return Past({0: None, **{at: thing.at(at) if thing else None for at, thing in versions}}, forgotten)


def found(walk: Walk) -> list[str]:
    """``+`` with an object's first version, ``-`` with its delete; ``?`` where steps before may be missing."""
    signs = {"ADDED": "+", "MODIFIED": "", "DELETED": "-"}
    return [f"{'' if each.follows else '?'}{signs[each.type]}{each.object.resource_version}" for each in walk.steps]


def known(thing: Blueprint, version: int) -> ExportedState:
    return ExportedState(thing.uid, version)


def test_every_step_back_to_the_known_state_is_found_in_order() -> None:
    history = past((3, WEB), (5, WEB), (9, WEB), (12, WEB))
    walk = history.walked(Walk(WEB.key, known(WEB, 3), Moment(12, WEB.at(12))))

    assert (found(walk), walk.is_complete, history.asked) == (["5", "9", "12"], True, [11, 8, 4])
    assert [each.object for each in walk.steps] == [WEB.at(5), WEB.at(9), WEB.at(12)]


def test_a_single_change_costs_a_single_request() -> None:
    history = past((3, WEB), (90, WEB))
    walk = history.walked(Walk(WEB.key, known(WEB, 3), Moment(90, WEB.at(90))))

    assert (found(walk), history.asked) == (["90"], [89])


def test_a_delete_has_its_own_version_and_the_last_state() -> None:
    history = past((3, WEB), (40, WEB), (700, None))
    walk = history.walked(Walk(WEB.key, known(WEB, 3), Moment(1000, None), since=10))

    assert (found(walk), walk.is_complete) == (["40", "-700"], True)
    assert walk.steps[-1].object == at_version(WEB.at(40), "700")
    assert b'"resourceVersion":"700"' in walk.steps[-1].object.body
    assert len(history.asked) <= 13, "bisection, and a request for each step"


def test_an_object_that_came_and_went_is_walked_both_ways() -> None:
    history = past((5, WEB), (7, WEB), (20, None))
    walk = history.walked(Walk(WEB.key, None, Moment(30, None), since=2, seen=Moment(10, WEB.at(7))))

    assert (found(walk), walk.is_complete) == (["+5", "7", "-20"], True)


def test_forgotten_steps_are_reported_as_missing() -> None:
    history = past((3, WEB), (5, WEB), (9, WEB), (12, WEB), forgotten=8)
    walk = history.walked(Walk(WEB.key, known(WEB, 3), Moment(12, WEB.at(12))))

    assert (found(walk), walk.is_complete) == (["?9", "12"], False)


def test_a_delete_behind_the_forgotten_versions_is_found() -> None:
    history = past((3, WEB), (500, WEB), (700, None), forgotten=600)
    walk = history.walked(Walk(WEB.key, known(WEB, 3), Moment(1000, None), since=10))

    assert (found(walk), walk.is_complete) == (["?500", "-700"], False)


def test_a_change_that_was_ignored_before_needs_no_request() -> None:
    """After a restart only the newest ignored change is known: others are newer than their known versions."""
    walk = past((3, WEB), (8, WEB), (12, WEB)).walked(Walk(WEB.key, known(WEB, 3), Moment(12, WEB.at(12)), since=10))

    assert (found(walk), walk.is_complete) == (["12"], True)


@pytest.mark.parametrize(
    "history",
    [past((3, NEXT), (12, NEXT)), past((12, WEB), (13, None)), past((2, WEB), (12, WEB))],
    ids=["another object at the known version", "no object at the known version", "an older state after the known"],
)
def test_states_of_another_history_are_noticed(history: Past) -> None:
    last = Moment(12, history.at(12))
    walk = history.walked(Walk(WEB.key, known(WEB, 5), last))

    assert walk.is_contradicted
    assert not walk.is_complete


def test_a_state_that_is_no_older_ends_the_walk() -> None:
    walk = Walk(WEB.key, known(WEB, 3), Moment(12, WEB.at(12)))
    walk.take(Moment(11, WEB.at(12)))

    assert walk.is_contradicted
