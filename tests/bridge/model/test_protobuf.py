from __future__ import annotations

import pytest

from bridge.model.primitives.protobuf import MalformedMessage, message, number_in


@pytest.mark.parametrize("number", [0, 127, 128, 2**63, 2**64 - 1])
def test_a_number_of_64_bits_is_read(number: int) -> None:
    groups = [number >> shift & 0x7F for shift in range(0, max(1, number.bit_length()), 7)]
    written = bytes([8, *(each | 0x80 for each in groups[:-1]), groups[-1]])

    assert number_in(message(written), 1) == number


@pytest.mark.parametrize("text", [b"\xff" * 11, b"\x08" + b"\xff" * 3_000_000, b"\x0a" + b"\x80" * 10 + b"\x01"])
def test_a_longer_number_ends_the_reading_at_its_eleventh_byte(text: bytes) -> None:
    with pytest.raises(MalformedMessage, match="a number has more than 64 bits"):
        message(text)


@pytest.mark.parametrize("text", [b"\x08", b"\x08\x80", b"\x0a\x05abc", b"\x09\x00"])
def test_a_message_that_is_cut_short_is_none(text: bytes) -> None:
    with pytest.raises(MalformedMessage, match="cut short"):
        message(text)
