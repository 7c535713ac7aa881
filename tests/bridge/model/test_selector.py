"""Label selectors: the grammar of the API, and what each requirement means."""

from __future__ import annotations

import pytest

from bridge.model.object import ApiObject, bare_body
from bridge.model.resource import Resource, Scope
from bridge.model.selector import LabelSelector, SelectorError, in_scope


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("a=b", {"a": "b"}, {"a": "c"}),
        ("a==b", {"a": "b"}, {}),
        ("a!=b", {"a": "c"}, {"a": "b"}),
        ("a!=b", {}, {"a": "b"}),
        ("a in (x, y)", {"a": "y"}, {"a": "z"}),
        ("a in (x)", {"a": "x"}, {}),
        ("a notin (x,y)", {"a": "z"}, {"a": "x"}),
        ("a notin (x)", {}, {"a": "x"}),
        ("a", {"a": ""}, {"b": ""}),
        ("!a", {"b": ""}, {"a": ""}),
        ("! a", {}, {"a": "1"}),
        ("a=", {"a": ""}, {}),
        ("a in (,x)", {"a": ""}, {}),
        ("a>3", {"a": "10"}, {"a": "3"}),
        ("a<3", {"a": "-1"}, {"a": "many"}),
        ("a>3", {"a": "4"}, {}),
        ("a=b,c", {"a": "b", "c": "d"}, {"a": "b"}),
        (" a = b , c != d ", {"a": "b"}, {"a": "b", "c": "d"}),
        ("example.com/tier=web", {"example.com/tier": "web"}, {"tier": "web"}),
        ("in=notin", {"in": "notin"}, {"in": "in"}),
        ("a in (in, notin)", {"a": "in"}, {"a": "a"}),
    ],
)
def test_a_selector_matches_what_it_says(text: str, matching: dict[str, str], other: dict[str, str]) -> None:
    selector = LabelSelector.parse(text)
    assert selector.matches(matching)
    assert not selector.matches(other)


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_selector_matches_everything(text: str) -> None:
    selector = LabelSelector.parse(text)
    assert selector.matches({})
    assert selector.matches({"a": "b"})
    assert not selector


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("a b", "'b'", "in, notin"),
        ("a in x", "'x'", "'('"),
        ("a in ()", "')'", "a label value"),
        ("a in (x", "the end", "',' or ')'"),
        ("a in (x y)", "'y'", "',' or ')'"),
        ("a=b c", "'c'", "',' or the end"),
        ("=b", "'='", "a label key"),
        ("a,,b", "','", "a label key"),
        ("a,", "the end", "a label key"),
        ("!", "the end", "a label key"),
        ("a/b/c", "'a/b/c'", "a label key"),
        ("-a", "'-a'", "a label key"),
        ("UP.example/a", "'UP.example/a'", "a label key"),
        ("a=-b", "'-b'", "a label value"),
        ("a=" + "b" * 64, "'bbb", "a label value"),
        ("a>b", "'b'", "an integer"),
        ("a!b", "'!'", "in, notin"),
        ("a=b=c", "'='", "',' or the end"),
        ("a==b)", "')'", "',' or the end"),
    ],
)
def test_a_mistake_is_named_with_what_could_stand_there(text: str, found: str, expected: str) -> None:
    with pytest.raises(SelectorError) as caught:
        LabelSelector.parse(text)
    message = str(caught.value)
    assert f"found {found}" in message
    assert f"expected {expected}" in message
    assert text in message


POD = (
    b'{"metadata":{"name":"a","namespace":"shop","labels":{"tier":"web"}},'
    b'"spec":{"nodeName":"n1","hostNetwork":true},"status":{"phase":"Running","replicas":3},"source":{"component":"x"}}'
)


@pytest.mark.parametrize(
    ("labels", "fields", "is_in"),
    [
        ("", "", True),
        ("tier=web", "", True),
        ("tier=db", "", False),
        ("", "metadata.name=a,metadata.namespace==shop", True),
        ("", "metadata.name!=a", False),
        ("", "spec.nodeName=n1, status.phase!=Pending", True),
        ("", "spec.nodeName=n2", False),
        ("", "spec.hostNetwork=true,status.replicas=3", True),
        ("", "spec.hostNetwork=false", False),
        ("", "spec.schedulerName=", True),
        ("", "spec.schedulerName=other", False),
        ("", "spec.nodeName.deeper=x", False),
        ("tier=db", "spec.nodeName=n1", False),
        # What the API server alone can read.
        ("", "source=kubelet", True),
        ("", "status.successful=1", True),
        ("tier=" + "x" * 64, "", True),
    ],
)
def test_a_scope_has_the_states_that_its_selectors_match(labels: str, fields: str, is_in: bool) -> None:
    assert in_scope(Scope(None, labels, fields), ApiObject("shop/a", "u", "1", POD)) is is_in


REDACTED = (
    b'{"metadata":{"name":"a","namespace":"shop","labels":{"tier":"hmac-sha256:0123456789abcdef","env":"[redacted]"}},'
    b'"type":"hmac-sha256:0123456789abcdef"}'
)


@pytest.mark.parametrize(
    ("labels", "fields", "is_in"),
    [
        ("tier=web", "", True),
        ("tier!=web,env in (prod)", "", True),
        ("tier", "", True),
        ("!tier", "", False),
        ("tier=web,other=x", "", False),
        ("", "type=Opaque", True),
        ("", "type!=Opaque,metadata.name=b", False),
    ],
)
def test_what_redaction_replaced_may_match(labels: str, fields: str, is_in: bool) -> None:
    assert in_scope(Scope(None, labels, fields), ApiObject("shop/a", "u", "1", REDACTED)) is is_in


def test_a_bare_object_may_be_in_every_scope() -> None:
    body = bare_body(Resource("", "v1", "pods", "Pod", namespaced=True), "shop/a", "u", "1")
    assert in_scope(Scope(None, "tier=web", "status.phase=Running"), ApiObject("shop/a", "u", "1", body))


def test_a_label_too_long_for_a_number_is_none() -> None:
    """An aggregated server may serve any label, and Python reads no integer of 5,000 digits."""
    assert not LabelSelector.parse("a>3").matches({"a": "9" * 5000})
