"""What the library's binding for Python makes of JSON: the same value, or a failed evaluation."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.views.language import EvaluationFailed, Purpose
from tests.bridge.views.compiled import CEL, failure, where

SURROGATES = range(0xD800, 0xE000)
PART = 0x4000
WHOLE = CEL.compile("object", Purpose.DATA)


def passed_on(manifest: Any) -> Any:
    return WHOLE.value(WHOLE.bind({"object": manifest}))


@pytest.mark.parametrize("start", range(0, sys.maxunicode + 1, PART), ids=hex)
def test_every_code_point_of_texts_and_keys_arrives(start: int) -> None:
    points = [chr(each) for each in range(max(1, start), start + PART) if each not in SURROGATES]
    text = "".join(points)
    manifest = {"text": text, "same": text, "keys": dict.fromkeys(points[:: PART // 256], "k"), text: 1}
    equal = where("object.text == object.same && size(object.text) == object.size && object.text in object")

    assert passed_on(manifest) == manifest
    assert equal.evaluate(equal.bind({"object": manifest | {"size": len(text)}})) is True


@pytest.mark.parametrize(
    "manifest",
    [
        {"a": "a\0b"},
        {"a": "\0"},
        {"a": {"k\0": 1}},
        {"a": {"k\0a": 1, "k\0b": 2}},
        {"a": [["x", {"b": "\\u0000 and \0"}]]},
    ],
)
@pytest.mark.parametrize("text", ["object.a == 'a'", "has(object.a)", "object.a != 'a'"])
def test_a_text_that_the_library_would_cut_fails(manifest: Any, text: str) -> None:
    assert failure(text, {"object": manifest}) == "a text has the character U+0000"


@pytest.mark.parametrize("values", [{"oldObject": {"a": "\0"}}, {"oldObject": None, "changed": ["a['\0']"]}])
def test_no_variable_is_cut(values: dict[str, Any]) -> None:
    text = "{'old': oldObject, 'changed': changed}"
    assert failure(text, {"changed": [], **values}, Purpose.DATA) == "a text has the character U+0000"


def test_the_escape_of_that_character_is_a_text_like_any_other() -> None:
    manifest = {"a": "\\u0000", "\\u0000": "\\\\u0000"}

    assert passed_on(manifest) == manifest


@given(
    st.integers() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**400])
)
def test_a_whole_number_arrives_or_fails(number: int) -> None:
    if -(2**63) <= number < 2**63:
        assert passed_on({"n": number}) == {"n": number}
    else:
        assert failure("object", {"object": {"n": number}}, Purpose.DATA) == "a number has more than 64 bits"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_with_a_fraction_arrives(number: float) -> None:
    found = passed_on({"n": number})["n"]

    assert isinstance(found, float)
    assert str(found) == str(number)  # also of -0.0


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda below: st.lists(below) | st.dictionaries(TEXTS, below),
)


@given(st.dictionaries(TEXTS, VALUES))
def test_a_value_of_any_shape_arrives(manifest: Any) -> None:
    assert passed_on(manifest) == manifest


def test_null_takes_no_reference_of_none() -> None:
    """In Python 3.11, the process ends when None has no reference."""
    expression, gone = where("object.a"), 0
    gc.collect()
    before = sys.getrefcount(None)
    for _ in range(2000):
        passed_on({"a": [None, {"b": None}]})
        try:
            expression.evaluate(expression.bind({"object": {"a": None}}))
        except EvaluationFailed:
            gone += 1

    assert gone == 2000
    assert sys.getrefcount(None) > before - 1000
