from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis.strategies import characters, text

from bridge.model.primitives.printable import counted, escaped

EVERYTHING = text(characters())
"""Halves of surrogate pairs too."""


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("shop/web-7", "shop/web-7"),
        ("Zürich · 東京 🚀", "Zürich · 東京 🚀"),
        ("\x1b]0;title\x07", "\\u001b]0;title\\u0007"),
        ("one\ntwo\r\tthree", "one\\ntwo\\r\\tthree"),
        ("\x9b31m", "\\u009b31m"),
        ("\x7f", "\\u007f"),
        ("admin\u202etxt.exe\u2066", "admin\\u202etxt.exe\\u2066"),
        ("a\u2028b\u2029c\u200b\ufeff", "a\\u2028b\\u2029c\\u200b\\ufeff"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("\ud800", "\\ud800"),
    ],
)
def test_terminal_controls_and_invisible_characters_are_escaped(written: str, shown: str) -> None:
    assert escaped(written) == shown


@given(EVERYTHING)
def test_nothing_is_left_that_is_no_ordinary_character(written: str) -> None:
    shown = escaped(written)
    assert shown.isprintable()
    assert not {unicodedata.category(letter) for letter in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert escaped(shown) == shown
    assert escaped(written, keep="\n").count("\n") == written.count("\n")


@given(EVERYTHING)
def test_a_json_document_means_the_same(written: str) -> None:
    document = json.dumps({"name": written}, ensure_ascii=False)
    assert json.loads(escaped(document)) == json.loads(document)


def test_one_is_not_many() -> None:
    assert [counted(count, "record") for count in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
