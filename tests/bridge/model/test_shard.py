"""Ranges of hashes: the published vectors of the hash, and each object in exactly one shard."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.primitives.shard import HASHES, Shard, ShardBy, fnv1a_64

NUMBERS = [2**bits for bits in range(1, 9)]
uids = st.uuids().map(str) | st.text(max_size=80)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0xCBF29CE484222325),
        ("a", 0xAF63DC4C8601EC8C),
        ("b", 0xAF63DF4C8601F1A5),
        ("foo", 0xDCB27518FED9D577),
        ("foobar", 0x85944171F73967E8),
    ],
)
def test_the_hash_has_the_published_values(text: str, expected: int) -> None:
    """Of the authors' test suite, in draft-eastlake-fnv."""
    assert fnv1a_64(text) == expected


@given(uids, st.sampled_from(["shop/web", "node-1"]), st.sampled_from(NUMBERS), st.sampled_from(ShardBy))
def test_an_object_is_in_exactly_one_shard(uid: str, key: str, of: int, by: ShardBy) -> None:
    shards = [Shard(of, index, by) for index in range(of)]

    assert sum(each.contains(uid, key) for each in shards) == 1


@given(uids, st.sampled_from(NUMBERS), st.data())
def test_a_shard_is_the_range_that_it_names(uid: str, of: int, data: st.DataObject) -> None:
    shard = Shard(of, data.draw(st.integers(0, of - 1)))

    assert shard.contains(uid, "shop/web") is (shard.start <= fnv1a_64(uid) < shard.end)


@given(uids, st.sampled_from(NUMBERS[:-1]), st.sampled_from(ShardBy), st.data())
def test_two_halves_are_the_whole(uid: str, of: int, by: ShardBy, data: st.DataObject) -> None:
    whole, key = Shard(of, data.draw(st.integers(0, of - 1)), by), f"{uid}/a"
    halves = [Shard(2 * of, 2 * whole.index + half, by) for half in (0, 1)]

    assert any(half.contains(uid, key) for half in halves) is whole.contains(uid, key)


def test_shards_lie_side_by_side() -> None:
    shards = [Shard(8, index) for index in range(8)]

    assert (shards[0].start, shards[-1].end) == (0, HASHES)
    assert [each.end for each in shards[:-1]] == [each.start for each in shards[1:]]


def test_random_uids_are_spread_evenly() -> None:
    uids = [str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128, version=4)) for number in range(8000)]
    counts = [sum(Shard(4, index).contains(uid, "a") for uid in uids) for index in range(4)]

    assert sum(counts) == 8000
    assert all(1800 < count < 2200 for count in counts), counts


def test_a_namespace_is_in_a_shard_as_a_whole() -> None:
    shard = next(
        each for each in (Shard(4, index, ShardBy.NAMESPACE) for index in range(4)) if each.contains("", "shop/a")
    )

    assert all(shard.contains(f"uid-{number}", f"shop/pod-{number}") for number in range(100))


def test_namespaces_with_a_number_at_their_end_are_spread() -> None:
    """Their FNV-1a hashes alone have the same high bits."""
    names = [f"team-{number}" for number in range(10, 100)]
    counts = [sum(Shard(4, index, ShardBy.NAMESPACE).contains("", f"{name}/a") for name in names) for index in range(4)]

    assert len({fnv1a_64(name) >> 62 for name in names}) == 1
    assert sum(counts) == 90
    assert all(10 < count < 35 for count in counts), counts


def test_cluster_scoped_objects_are_in_one_shard_by_namespace() -> None:
    shards = [Shard(4, index, ShardBy.NAMESPACE) for index in range(4)]

    assert len({each.index for each in shards for name in "abcdefgh" if each.contains(f"uid-{name}", name)}) == 1


@pytest.mark.parametrize(("of", "index"), [(1, 0), (3, 0), (4, 4), (4, -1), (512, 0), (0, 0)])
def test_other_numbers_are_no_shard(of: int, index: int) -> None:
    with pytest.raises(ValueError, match=f"no shard {index} of {of}"):
        Shard(of, index)


def test_the_names_of_a_shard() -> None:
    shard = Shard(4, 2)

    assert (shard.name, shard.suffix, str(shard)) == ("2-of-4", "-2-of-4", "shard 2 of 4 by uid")
