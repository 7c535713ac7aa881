"""Text that lines up, and that no stranger makes a terminal obey."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis.strategies import booleans, dictionaries, floats, integers, lists, none, recursive, text, tuples
from rich.console import Console

from bridge.cli.demo import Screen
from bridge.cli.terminal import DEEPEST, age, pairs, plain, pretty, shortened, size, table
from bridge.model.change import Evidence, Op
from tests.kit.records import a_delta


@pytest.mark.parametrize(
    ("count", "printed"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1024**2 - 1, "1.0 MiB"), (5000 * 1024**4, "5000.0 TiB")],
)
def test_sizes_are_shown_in_powers_of_1024(count: int, printed: str) -> None:
    assert size(count) == printed


@given(integers(0, 2**63))
def test_a_size_never_needs_four_digits_below_the_largest_unit(count: int) -> None:
    number, unit = size(count).split()
    assert unit in ("B", "TiB") or float(number) < 1024.0


@pytest.mark.parametrize(
    ("seconds", "printed"),
    [(0.0, "0s"), (59.9, "59s"), (60.0, "1m"), (3600.0, "1h"), (86_399.0, "23h"), (172_800.0, "2d")],
)
def test_ages_are_shown_in_the_largest_unit(seconds: float, printed: str) -> None:
    assert age(seconds) == printed


@given(floats(0, 1e12), floats(0, 1e12))
def test_an_older_age_never_looks_younger(one: float, other: float) -> None:
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    younger, older = (int(age(each)[:-1]) * units[age(each)[-1]] for each in sorted((one, other)))
    assert younger <= older


@given(text())
def test_nothing_that_a_terminal_would_obey_is_left(written: str) -> None:
    printed = plain(written)
    assert printed.isprintable()
    assert plain(printed) == printed


@given(lists(tuples(text(), text(), text()), max_size=5))
def test_every_row_is_one_line(rows: list[tuple[str, str, str]]) -> None:
    lines = table(("A", "B", "C"), rows).split("\n")
    assert len(lines) == len(rows) + 1
    assert all(line == line.rstrip() for line in lines)


def test_columns_begin_below_one_another() -> None:
    assert table(("A\nA", "LONG"), [("wide", "x"), ("", "y")]) == "A A   LONG\nwide  x\n      y"
    assert pairs([("a", "x"), ("long", "y\nz"), ("b", "")]) == "a     x\nlong  y z\nb"


def test_what_is_cut_shows_that_it_was() -> None:
    assert (shortened("abcd", 4), shortened("abcde", 4), shortened("abcde", 1)) == ("abcd", "a…de", "…")


def test_a_long_cell_makes_no_column_of_its_width() -> None:
    assert len(table(("A", "B"), [("x" * 1_000_000, "1"), ("y", "2")])) < 5000


# ── JSON for people ──────────────────────────────────────────────────────────

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


# ── The demo ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("on_terminal", [False, True])
async def test_nothing_that_a_terminal_would_obey_is_drawn(on_terminal: bool) -> None:
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=on_terminal, width=200, color_system=None)
    hostile = "\x1b[2J\x9b31m\u202egnp\u2028\x07\x7f"
    Screen(console, Path()).show(a_delta(key=hostile, op=Op.ADDED, evidence=Evidence.LISTED))
    assert "[2J" in drawn.getvalue()
    assert {letter for letter in drawn.getvalue() if not letter.isprintable()} <= {"\n"}
