"""A sink's own rules: for both states of a delta, and for no notice."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.object import is_digest_in
from bridge.model.policies import RedactionMode, RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.model.record import Delta, Gap, unfit
from bridge.transform.redaction import PathRules, redact_for_sink
from tests.bridge.transform.leaving import CONFIG_MAPS, REDACTION, SECRET
from tests.kit import records

RULE = RedactionRule((FieldPath.parsed("data.password"),))


def a_delta(body: bytes, before: bytes | None = None) -> Delta:
    return records.a_delta(7, resource=CONFIG_MAPS, key="shop/web", uid="u", body=body, before=before)


def a_body(password: str) -> bytes:
    return json.dumps({"kind": "ConfigMap", "data": {"password": password, "user": "web"}}).encode()


def test_both_states_of_a_delta_are_redacted() -> None:
    delta = a_delta(a_body(SECRET), a_body(SECRET))

    left = redact_for_sink([RULE], REDACTION)(delta)

    assert isinstance(left, Delta)
    assert left.before == left.body
    data = json.loads(left.body)["data"]
    assert is_digest_in(data["password"])
    assert data["user"] == "web"
    assert (left.id, left.sequence, left.key) == (delta.id, 7, "shop/web")


def test_a_notice_stays() -> None:
    gap = Gap(7, 1, 7, "dropped", "now")

    assert redact_for_sink([RULE], REDACTION)(gap) is gap


BARE = {
    "kind": "ConfigMap",
    "apiVersion": "v1",
    "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1007"},
}


@pytest.mark.parametrize("in_state_before", [False, True])
def test_a_state_that_cannot_be_redacted_makes_the_record_unfit(in_state_before: bool) -> None:
    broken = b'{"kind":"ConfigMap","data":{"password":"' + SECRET.encode()
    states = (a_body("x"), broken) if in_state_before else (broken, a_body("x"))

    left = redact_for_sink([RULE], REDACTION)(a_delta(*states))

    assert isinstance(left, Delta)
    assert (json.loads(left.body), left.before) == (BARE, None)
    assert unfit(left).startswith("redact: redaction cannot read it")


@pytest.mark.parametrize("error", [RecursionError(SECRET), MemoryError(), TypeError(SECRET), AssertionError(SECRET)])
def test_whatever_redaction_raises_makes_the_record_unfit(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> bytes:
        raise error

    monkeypatch.setattr(PathRules, "redacted", fails)

    left = redact_for_sink([RULE], REDACTION)(a_delta(a_body(SECRET), a_body(SECRET)))

    assert isinstance(left, Delta)
    assert (json.loads(left.body), left.before) == (BARE, None)
    assert unfit(left)
    assert SECRET not in unfit(left)


NAMES = st.sampled_from(["data", "password", "user", "a.b/c", "", "\u00e9", "\\"])
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["1e400", "-0.0", '"\\ud800"', '"\\u0000"', "NaN", "", "tru", '"x', "[[", "}"]),
    st.text(max_size=5).map(json.dumps),
).map(lambda each: each if isinstance(each, str) else json.dumps(each))


def lists(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(items, max_size=3).map(lambda found: f"[{','.join(found)}]")


def maps(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Also with names that come twice."""
    members = st.lists(st.tuples(NAMES, items), max_size=4)
    return members.map(lambda found: "{" + ",".join(f"{json.dumps(name)}: {value}" for name, value in found) + "}")


NESTED = st.builds(lambda levels, end: '{"data":' * levels + end + "}" * levels, st.integers(0, 2000), LEAVES)
LISTED = st.builds(
    lambda levels, end: '{"data":' + "[" * levels + end + "]" * levels + "}", st.integers(0, 2000), LEAVES
)
STATES = st.one_of(
    st.recursive(LEAVES, lambda inner: lists(inner) | maps(inner), max_leaves=12).map(str.encode),
    st.one_of(NESTED, LISTED).map(str.encode),
    st.binary(max_size=20),
)
PATHS = st.sampled_from(
    [
        "data.password",
        "data",
        "data.*",
        "data[*].password",
        "data.data.data.password",
        "data['a.b/c']",
        "*",
        "data[*][*]",
    ]
)


@given(st.lists(PATHS, min_size=1, max_size=3), st.sampled_from(RedactionMode), STATES, st.none() | STATES)
def test_no_state_makes_redaction_raise(
    paths: list[str], mode: RedactionMode, body: bytes, before: bytes | None
) -> None:
    delta = a_delta(body, before)
    left = redact_for_sink([RedactionRule(tuple(map(FieldPath.parsed, paths)), mode)], REDACTION)(delta)

    assert isinstance(left, Delta)
    assert (left.id, left.sequence, left.key) == (delta.id, 7, "shop/web")
    if unfit(left):
        assert (json.loads(left.body), left.before) == (BARE, None)
    else:
        assert (left.before is None) == (before is None)


def test_a_digest_for_every_sink_is_not_undone() -> None:
    digest = REDACTION.of_object(CONFIG_MAPS, "shop/web")(b"x")
    left = redact_for_sink([RULE], REDACTION)(a_delta(a_body(digest)))
    masked = redact_for_sink([RedactionRule(RULE.paths, RedactionMode.MASK)], REDACTION)(a_delta(a_body(SECRET)))

    assert isinstance(left, Delta)
    assert isinstance(masked, Delta)
    assert json.loads(left.body)["data"]["password"] == digest
    assert SECRET.encode() not in masked.body
