from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis.strategies import booleans, dictionaries, floats, integers, lists, none, recursive, text

from bridge.cli.terminal import DEEPEST, pretty

LEAVES = none() | booleans() | integers() | floats(allow_nan=False, allow_infinity=False) | text()
DOCUMENTS = recursive(LEAVES, lambda inner: lists(inner, max_size=4) | dictionaries(text(), inner, max_size=4))


@given(DOCUMENTS)
def test_an_ordinary_object_looks_as_everybody_formats_it(value: object) -> None:
    document = json.dumps(value, ensure_ascii=False)
    assert pretty(document) == msgspec.json.format(document, indent=2)


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_a_deep_object_is_about_as_long_as_it_was(begin: str, end: str) -> None:
    """As bytes are stored: 18 KB were printed as 154 MB."""
    document = begin * 9000 + "1" + end * 9000
    shown = pretty(document)
    assert len(shown) < 2 * len(document)
    assert shown.count("\n") <= 2 * DEEPEST
    assert "".join(shown.split()) == document


@given(DOCUMENTS)
def test_it_means_the_same_at_any_depth(value: object) -> None:
    for _ in range(DEEPEST):
        value = [value, {"a": value}]
        if len(str(value)) > 10_000:
            break
    assert json.loads(pretty(json.dumps(value))) == value
