"""Text that lines up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists, text, tuples

from bridge.cli.terminal import age, pairs, plain, shortened, size, table


@pytest.mark.parametrize(
    ("count", "printed"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (1024**2, "1.0 MiB"),
        (5 * 1024**3, "5.0 GiB"),
        (1024**4, "1.0 TiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_sizes_are_shown_in_powers_of_1024(count: int, printed: str) -> None:
    assert size(count) == printed


@given(integers(0, 2**63))
def test_a_size_never_needs_four_digits_below_the_largest_unit(count: int) -> None:
    number, unit = size(count).split()
    assert unit in ("B", "TiB") or float(number) < 1024.0


@pytest.mark.parametrize(
    ("seconds", "printed"),
    [(0.0, "0s"), (59.9, "59s"), (60.0, "1m"), (3599.0, "59m"), (3600.0, "1h"), (86_399.0, "23h"), (172_800.0, "2d")],
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
    assert table(("A", "LONG"), [("wide", "x"), ("", "y")]) == "A     LONG\nwide  x\n      y"
    assert pairs([("a", "x"), ("long", "y\nz"), ("b", "")]) == "a     x\nlong  y z\nb"


def test_what_is_cut_shows_that_it_was() -> None:
    assert (shortened("abcd", 4), shortened("abcde", 4), shortened("abcde", 1)) == ("abcd", "a…de", "…")


def test_a_header_is_one_line() -> None:
    assert table(("A\nB", "C"), []) == "A B  C"


def test_a_long_cell_makes_no_column_of_its_width() -> None:
    assert len(table(("A", "B"), [("x" * 1_000_000, "1"), ("y", "2")])) < 5000
