"""Order of resourceVersions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.versions.version import is_older, newest_of

numbers = st.integers(0, 10**40)


@given(numbers, numbers)
def test_integers_of_any_length_are_ordered_as_numbers(one: int, other: int) -> None:
    assert is_older(str(one), str(other)) == (one < other)


@pytest.mark.parametrize("text", ["", "abc", "1a", "-1", "1.5", " 7", "7 ", "0x7"])
def test_nothing_is_claimed_of_text(text: str) -> None:
    assert not is_older(text, "9")
    assert not is_older("0", text)


@given(numbers, numbers)
def test_numbers_of_a_fixed_width_are_ordered_as_well(one: int, other: int) -> None:
    assert is_older(f"{one:050}", f"{other:050}") == (one < other)


@given(st.lists(st.one_of(st.none(), numbers.map(str)), max_size=5))
def test_the_newest_is_the_largest_of_those_that_are_known(versions: list[str | None]) -> None:
    known = [int(each) for each in versions if each is not None]
    assert newest_of(versions) == (str(max(known)) if known else None)


def test_of_versions_without_an_order_the_first_counts() -> None:
    assert newest_of([None, "b", "a"]) == "b"
