"""Label selectors: the grammar of the API, and what each requirement means."""

from __future__ import annotations

import pytest

from bridge.model.selector import LabelSelector, Operator, Requirement, SelectorError


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


def test_requirements_keep_their_order_and_operator() -> None:
    assert LabelSelector.parse("b notin (x,y),a==z,!c").requirements == (
        Requirement("b", Operator.NOT_IN, frozenset({"x", "y"})),
        Requirement("a", Operator.EQUALS, frozenset({"z"})),
        Requirement("c", Operator.NOT_EXISTS),
    )


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
