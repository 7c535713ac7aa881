"""Which objects and steps an entry of ``select`` takes, and what happens where an expression fails."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.model.change import Op
from bridge.model.object import bare_body
from bridge.model.policies import OnError
from bridge.views.evaluation import FailedEvaluation
from bridge.views.selection import Selector, SelectorText, WrongSelection, compile_selection
from tests.bridge.views.compiled import CEL, DEPLOYMENTS, NODES, PODS, chosen, entry, evaluation, views

TEAM_A = {"metadata": {"labels": {"team": "a"}}, "spec": {"replicas": 3}}
NO_TEAM: dict[str, Any] = {"metadata": {}, "spec": {"replicas": 1}}


@pytest.mark.parametrize(
    ("name", "covered"),
    [
        ("pods", [PODS]),
        ("deployments", []),
        ("deployments.apps", [DEPLOYMENTS]),
        ("deployments.v1.apps", [DEPLOYMENTS]),
        ("*.apps", [DEPLOYMENTS]),
        ("*", [PODS, DEPLOYMENTS, NODES]),
    ],
)
def test_an_entry_covers_the_resource_of_its_full_name(name: str, covered: Any) -> None:
    assert [each for each in (PODS, DEPLOYMENTS, NODES) if Selector(resource=name).covers(each)] == covered


def test_all_conditions_of_an_entry_must_hold() -> None:
    strict = entry(namespaces=["shop"], label_selector="team=a", where="object.spec.replicas > 2")

    assert chosen(strict, TEAM_A)
    assert not chosen(strict, TEAM_A, key="pay/web")
    assert not chosen(strict, TEAM_A | {"metadata": {"labels": {"team": "b"}}})
    assert not chosen(strict, TEAM_A | {"spec": {"replicas": 2}})


def test_entries_are_alternatives() -> None:
    entries = [entry(namespaces=["pay"]), entry(label_selector="team=a")]

    assert chosen(entries, NO_TEAM, key="pay/web")
    assert chosen(entries, TEAM_A)
    assert not chosen(entries, NO_TEAM)


def test_objects_without_a_namespace_are_in_every_namespace() -> None:
    assert chosen(entry(namespaces=["shop"]), NO_TEAM, key="node-1")


@pytest.mark.parametrize("labels", [None, [], "a", {"team": 1}])
def test_labels_of_a_wrong_form_are_no_labels(labels: Any) -> None:
    assert not chosen(entry(label_selector="team"), {"metadata": {"labels": labels}})
    assert chosen(entry(label_selector="!team"), {"metadata": {"labels": labels}})


@pytest.mark.parametrize("manifest", [NO_TEAM, [], "no object", None])
def test_an_object_that_cannot_be_judged_is_selected(manifest: Any) -> None:
    assert chosen(entry(where="object.metadata.labels.team == 'b'"), manifest)
    assert not chosen(entry(where="object.metadata.labels.team == 'b'", on_error=OnError.SKIP), manifest)


BARE = bare_body(PODS, "shop/web", "u-1", "7")
"""What is left of an object that is too deep or too long."""


@pytest.mark.parametrize("body", [b"{broken", BARE])
@pytest.mark.parametrize(
    "condition", [{"where": "object.a == 1"}, {"where": "has(object.metadata.labels)"}, {"label_selector": "team=a"}]
)
def test_a_body_without_a_readable_state_is_selected(body: bytes, condition: dict[str, str]) -> None:
    for on_error, chosen_so in ((OnError.SELECT, True), (OnError.SKIP, False)):
        of = views(it=entry(on_error=on_error, **condition)).of(PODS)

        assert of.selections["it"].matches(of.evaluator.evaluation("shop/web", body)) is chosen_so


def test_a_bare_object_fails_no_expression_about_its_step() -> None:
    of = views(it=entry(when="op == 'deleted' || object.a == 1"), other=entry(when="op == 'deleted'"))
    seen = of.of(PODS).evaluator.evaluation("shop/web", BARE)

    assert of.of(PODS).selections["it"].takes(seen, Op.UPDATED, "watched")
    assert not of.of(PODS).selections["other"].takes(seen, Op.UPDATED, "watched")
    assert of.failures.take()[0] == {"op == 'deleted' || object.a == 1": 1}


def test_failures_are_counted_and_the_first_is_described() -> None:
    text = "object.metadata.labels.team == 'b'"
    of = views(chat=entry(where=text), audit=entry(where=text))

    for name in ("web-1", "web-2"):
        seen = evaluation(of, NO_TEAM, key=f"shop/{name}")
        assert all(selection.matches(seen) for selection in of.of(PODS).selections.values())

    assert of.failures.take() == (
        {text: 2},
        (FailedEvaluation(text, "pods", "shop/web-1", 'the member "labels" is missing'),),
    )
    assert of.failures.take() == ({}, ())


def test_an_expression_is_evaluated_once_for_all_sinks(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "object.spec.replicas == 3"
    of = views(chat=entry(where=text), audit=[entry(where=text), entry(namespaces=["pay"])])
    seen = evaluation(of, TEAM_A)
    [where] = {each.selectors[0].where for each in of.of(PODS).selections.values()}
    assert where is not None
    assert all(selection.matches(seen) for selection in of.of(PODS).selections.values())

    monkeypatch.setattr(where, "evaluate", None)

    assert all(selection.matches(seen) for selection in of.of(PODS).selections.values())


REPLICAS_CHANGED = "op != 'updated' || object.spec.replicas != oldObject.spec.replicas"


def test_when_chooses_steps() -> None:
    of = views(it=entry(when=REPLICAS_CHANGED))
    it = of.of(PODS).selections["it"]
    same, more = evaluation(of, TEAM_A, TEAM_A), evaluation(of, TEAM_A, NO_TEAM)

    assert of.of(PODS).evaluator.reads_before
    assert not it.takes(same, Op.UPDATED, "watched")
    assert it.takes(more, Op.UPDATED, "watched")
    assert it.takes(same, Op.SYNC, "watched")
    assert it.takes(evaluation(of, TEAM_A), Op.ADDED, "watched")


def test_a_step_belongs_to_the_entries_with_the_object() -> None:
    of = views(it=[entry(label_selector="team=a", operations=[Op.ADDED]), entry(label_selector="!team")])
    it = of.of(PODS).selections["it"]

    assert not it.takes(evaluation(of, TEAM_A), Op.UPDATED, "watched")
    assert it.takes(evaluation(of, NO_TEAM), Op.UPDATED, "watched")
    assert not it.takes(evaluation(of, TEAM_A), Op.DELETED, "watched")


def test_a_delete_of_what_no_entry_has_goes_to_any() -> None:
    of = views(it=[entry(label_selector="team=b", operations=[Op.ADDED]), entry(label_selector="team=c")])
    it = of.of(PODS).selections["it"]

    assert it.takes(evaluation(of, TEAM_A), Op.DELETED, "unselected")
    assert not it.takes(evaluation(of, TEAM_A), Op.UPDATED, "watched")


def test_a_sink_without_an_entry_for_a_resource_gets_none_of_it() -> None:
    of = views(it=SelectorText(resource="deployments.apps"))

    assert not of.of(PODS).selections["it"].matches(evaluation(of, TEAM_A))


def test_the_digest_changes_with_the_selected_objects() -> None:
    def digest(*entries: SelectorText) -> bytes:
        return compile_selection(entries, "select", lambda: CEL).digest

    plain, teams = entry(), entry(label_selector="a,b in (c,d)", namespaces=["x", "y"])
    changed = [
        entry(namespaces=["x"]),
        entry(label_selector="a"),
        entry(where="object.a == 1"),
        entry(where="object.a == 1", on_error=OnError.SKIP),
        entry(resource="*"),
    ]

    assert digest(plain, teams) == digest(entry(label_selector="b in (d,c),a", namespaces=["y", "x"]), plain)
    assert digest(plain) == digest(entry(when="op == 'added'", operations=[Op.ADDED]))
    assert len({digest(each) for each in (plain, *changed)}) == 6


def test_all_mistakes_are_named_with_their_paths() -> None:
    entries = [entry(), entry(where="objct.a", when="op == 1", label_selector="a in b")]

    with pytest.raises(WrongSelection) as raised:
        compile_selection(entries, "sinks.chat.select", lambda: CEL)

    paths = [line.partition(": ")[0] for line in str(raised.value).splitlines()]
    assert paths == [f"sinks.chat.select[1].{option}" for option in ("label_selector", "where", "when")]


def test_the_library_is_needed_for_expressions_alone() -> None:
    def missing() -> Any:
        raise AssertionError("there is no expression")

    assert compile_selection([entry(label_selector="a", namespaces=["b"])], "select", missing).selectors
