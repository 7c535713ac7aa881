"""Bodies at rest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard

from bridge.model.primitives.packing import MAX_BODY, pack, unpack


@pytest.mark.parametrize("body", [b"", b"{}", b'{"a":"' + b"x" * 1_000_000 + b'"}'])
def test_what_is_packed_unpacks_to_the_same(body: bytes) -> None:
    assert unpack(pack(body)) == body


def test_many_threads_may_pack_and_unpack_at_once() -> None:
    bodies = [str(number).encode() * 5_000 for number in range(400)]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda body: unpack(pack(body)), bodies)) == bodies


def test_a_body_that_claims_more_than_the_limit_stays_packed() -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=True).compress(bytes(MAX_BODY + 1))

    with pytest.raises(ValueError, match=f"the limit is {MAX_BODY}"):
        unpack(bomb)


def test_a_frame_without_its_size_is_not_unpacked() -> None:
    anonymous = zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 100)

    with pytest.raises(ValueError, match="claims -1 bytes"):
        unpack(anonymous)


@pytest.mark.parametrize("damage", [lambda packed: packed[:-3], lambda packed: b"not zstandard", lambda packed: b""])
def test_damaged_data_is_an_error_and_does_not_spoil_the_next(damage) -> None:  # type: ignore[no-untyped-def]
    packed = pack(b'{"kind":"Pod"}' * 10)

    with pytest.raises(ValueError, match="packed body"):
        unpack(damage(packed))

    assert unpack(packed) == b'{"kind":"Pod"}' * 10
