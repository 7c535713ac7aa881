"""Views of a tenth know which records are theirs."""

from __future__ import annotations

from benchmarks.load_records import mixed


def test_the_events_are_spread_as_the_load_server_does() -> None:
    """The first outputs of SplitMix64 with seed 0, as its reference implementation prints them."""
    assert mixed(0) == 0xE220A8397B1DCDAF
    assert mixed(0x9E3779B97F4A7C15) == 0x6E789E6AA1B965F4
