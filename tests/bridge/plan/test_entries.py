"""What configured names mean, and which entries of ``select`` mean no watched resource."""

from __future__ import annotations

import pytest

from bridge.kube import Catalogue
from bridge.kube.catalogue import Document, GroupVersion, Served
from bridge.model.policies import RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.model.resource import Resource, Scope
from bridge.plan.entries import Resolution, meant, resolve_wanted, rules_for, unwatched_entries, wanted_scopes
from bridge.plan.plan import Wanted
from bridge.views.selection import SelectorText
from tests.kit.records import DEPLOYMENTS, PODS


@pytest.mark.parametrize("plural", ["../../../api/v1/secrets", "..", "Widgets"])
def test_a_resource_remembered_under_a_bad_name_is_released(plural: str) -> None:
    everything = [Wanted("*")]

    assert wanted_scopes(everything, Resource("example.com", "v1", "widgets", "Widget", True)) == (Scope(),)
    assert wanted_scopes(everything, Resource("example.com", "v1", plural, "Widget", True)) == ()


WIDGETS = Resource("acme.io", "v1", "widgets", "Widget", True)


def served(*resources: Served) -> Catalogue:
    versions = tuple(GroupVersion(each.resource.group, each.resource.version, (each,)) for each in resources)
    return Catalogue((Document("", None, versions),))


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("po", "pods"),
        ("pod", "pods"),
        ("Pod", "pods"),
        ("pods", "pods"),
        ("deploy", "deployments.apps"),
        ("deploy.apps", "deployments.apps"),
        ("deployments", "deployments.apps"),
        ("deployments.v1.apps", "deployments.apps"),
        ("widget", "widgets.acme.io"),
    ],
)
def test_exported_resources_have_kubectl_names_without_a_cluster(name: str, resource: str) -> None:
    assert meant(name, [PODS, DEPLOYMENTS, WIDGETS], None) == resource


def test_the_short_names_of_custom_resources_are_the_clusters() -> None:
    cluster = served(Served(WIDGETS, "widget", ("wd",)))
    assert meant("wd", [PODS, WIDGETS], cluster) == "widgets.acme.io"
    assert meant("wd", [PODS, WIDGETS], None) == "wd"


@pytest.mark.parametrize("name", ["nothing", "*", "*.apps", ""])
def test_a_name_that_means_none_or_several_stays_what_it_is(name: str) -> None:
    assert meant(name, [PODS, WIDGETS], None) == name


def test_an_empty_wildcard_is_not_waited_for_but_a_name_is() -> None:
    found = resolve_wanted([Wanted("*.example.com"), Wanted("widgets.example.com")], served(Served(PODS, "pod")))
    assert found.desired == {}
    assert list(found.empty) == ["*.example.com"]
    assert list(found.unresolved) == ["widgets.example.com"]


def test_entries_with_different_fixed_names_are_both_watched() -> None:
    web, db = (Scope(None, "", f"metadata.name={name}") for name in ("web", "db"))
    found = resolve_wanted([Wanted("pods", (web,)), Wanted("po", (db,))], served(Served(PODS, "pod", ("po",))))
    assert found.desired == {("pods", web): PODS, ("pods", db): PODS}
    assert found.twice == ()


RULES = tuple(RedactionRule((FieldPath((name,)),)) for name in "abc")


def test_every_entry_that_means_a_resource_gives_it_its_rules() -> None:
    web, db = Scope("web"), Scope("db")
    configured = [Wanted("pods", (web,), RULES[:1]), Wanted("po", (db,)), Wanted("*", redact=RULES[1:2])]
    cluster = served(Served(PODS, "pod", ("po",)), Served(WIDGETS, "widget"))

    assert rules_for(configured, PODS, cluster) == RULES[:2]
    assert rules_for(configured, WIDGETS, cluster) == RULES[1:2]


def test_rules_hold_for_a_resource_that_is_not_served_now() -> None:
    named = [Wanted("widgets.acme.io", redact=RULES[:1]), Wanted("pods", redact=RULES[1:2])]
    assert rules_for(named, WIDGETS, served(Served(PODS, "pod"))) == RULES[:1]


def test_an_unknown_name_may_be_any_short_name() -> None:
    short = [Wanted("wd", redact=RULES[:1])]
    known = served(Served(WIDGETS, "widget"), Served(DEPLOYMENTS, "deployment", ("wd",)))
    assert rules_for(short, WIDGETS, served(Served(PODS, "pod"))) == RULES[:1]
    assert rules_for(short, WIDGETS, known) == ()


@pytest.mark.parametrize(
    ("name", "unresolved", "wildcard", "known", "mistakes"),
    [
        ("pods", "", "", "", []),
        ("secrets", "", "", "secrets", [True]),
        ("widgets.acme.io", "wd", "", "widgets.acme.io", [False]),
        ("widgets.acme.io", "wd", "", "", [True]),
        ("widgets.acme.io", "", "*.acme.io", "", [False]),
        ("widgets.acme.io", "", "*.apps", "", [True]),
    ],
    ids=[
        "a watched resource",
        "a resource that left the configuration",
        "an accepted name waits for a short name",
        "another does not",
        "a wildcard may cover it later",
        "others do not",
    ],
)
def test_an_entry_of_select_is_a_mistake_if_nothing_can_make_it_mean_something(
    name: str, unresolved: str, wildcard: str, known: str, mistakes: list[bool]
) -> None:
    missing = {unresolved: "not served"} if unresolved else {}
    resolution = Resolution({("pods", Scope()): PODS}, missing, {}, wildcards=(wildcard,) if wildcard else ())
    found = unwatched_entries([SelectorText(resource=name)], "sinks.chat.select", resolution, {known})
    assert [problem.is_mistake for _, problem in found] == mistakes
