"""Entries of ``select`` on a cluster: their full names, and those that mean no watched resource."""

from __future__ import annotations

from bridge.model.resource import Resource, Scope
from bridge.plan.entries import Resolution, unwatched_entries
from bridge.views.selection import SelectorText

PODS = Resource("", "v1", "pods", "Pod", True)
WIDGETS = "widgets.acme.io"


def mistakes(
    name: str, *, unresolved: str = "", wildcards: tuple[str, ...] = (), known: tuple[str, ...] = ()
) -> list[bool]:
    """Whether an entry is a mistake; empty if it means a watched resource."""
    missing = {unresolved: "not served"} if unresolved else {}
    resolution = Resolution({("pods", Scope()): PODS}, missing, {}, wildcards=wildcards)
    found = unwatched_entries([SelectorText(resource=name)], "sinks.chat.select", resolution, known)
    return [problem.is_mistake for _, problem in found]


def test_a_watched_resource_is_no_problem() -> None:
    assert mistakes("pods") == []


def test_a_resource_that_left_the_configuration_is_a_mistake() -> None:
    assert mistakes("secrets", known=("secrets",)) == [True]


def test_an_accepted_name_waits_for_a_short_name() -> None:
    assert mistakes(WIDGETS, unresolved="wd", known=(WIDGETS,)) == [False]
    assert mistakes(WIDGETS, unresolved="wd") == [True]


def test_a_wildcard_that_covers_others_may_cover_it_later() -> None:
    assert mistakes(WIDGETS, wildcards=("*.acme.io",)) == [False]
    assert mistakes(WIDGETS, wildcards=("*.apps",)) == [True]
