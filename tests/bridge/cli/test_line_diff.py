"""Unified diffs: they lead from one text to the other, are difflib's where these are short, and take linear time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import unified_diff as of_difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.cli.line_diff import unified_diff
from tests.kit.growth import grows_linearly

LINES = st.lists(st.sampled_from("abcdefgh") | st.sampled_from("ab"), max_size=40)


@given(LINES, LINES)
def test_a_diff_leads_from_one_text_to_the_other(was: list[str], now: list[str]) -> None:
    assert _patched(was, unified_diff(was, now)) == now


@given(st.lists(st.integers(0, 60), max_size=40, unique=True), st.integers(0, 40))
def test_a_diff_of_lines_that_repeat_nowhere_is_difflibs(numbers: list[int], removed: int) -> None:
    was = [str(each) for each in numbers]
    now = [*was[:removed], "new", *was[removed + 1 :]]

    assert [*unified_diff(was, now)] == [*of_difflib(was, now, lineterm="")][2:]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(lambda number, step: f"x{number * step % 101}", id="a hundred lines that repeat"),
        pytest.param(lambda number, step: f"x{number * step % 4099}", id="lines in another order"),
        pytest.param(
            lambda number, step: f"x{number}" if number % 50 == 0 else f"{number * step * 7919 >> 3 & 1}",
            id="two lines that repeat, between others",
        ),
    ],
)
def test_the_time_of_a_diff_is_linear_in_the_lines(line: Callable[[int, int], str]) -> None:
    def work(lines: int) -> Callable[[], object]:
        was, now = ([line(number, step) for number in range(lines)] for step in (1, 7))
        return lambda: [*unified_diff(was, now)]

    assert grows_linearly(work, 1000, 4000)


def _patched(was: Sequence[str], diff: Iterable[str]) -> list[str]:
    made: list[str] = []
    at = 0
    for line in diff:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (count != "0")
            made += was[at:begin]
            at = begin
        elif line.startswith("+"):
            made.append(line[1:])
        else:
            assert was[at] == line[1:]
            made += was[at : at + 1] if line.startswith(" ") else []
            at += 1
    return [*made, *was[at:]]
