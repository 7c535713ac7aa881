"""Views of a tenth know which records are theirs."""

from __future__ import annotations

from itertools import islice, takewhile

from benchmarks.load_records import mixed, places
from benchmarks.views import PARTS


def test_the_events_are_spread_as_the_load_server_does() -> None:
    """The first outputs of SplitMix64 with seed 0, as its reference implementation prints them."""
    assert mixed(0) == 0xE220A8397B1DCDAF
    assert mixed(0x9E3779B97F4A7C15) == 0x6E789E6AA1B965F4


def test_each_record_belongs_to_one_view() -> None:
    views = [list(takewhile(lambda place: place < 500, places(100, range(digit, 100, PARTS)))) for digit in range(10)]

    assert sorted(place for view in views for place in view) == list(range(500))
    assert list(islice(places(100, range(3, 100, PARTS)), 3)) == [3, 13, 23]
