"""The file of a shard knows which records are its own."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pytest

from benchmarks.load_records import places
from benchmarks.shards import ShardFile, foreign, uid
from bridge.model.primitives.shard import Shard


def test_each_record_belongs_to_one_shard() -> None:
    shards = [Shard(of=4, index=index) for index in range(4)]
    pods = [{pod for pod in range(100) if shard.contains(uid(pod), "")} for shard in shards]
    numbers = [list(takewhile(lambda place: place < 500, places(100, own))) for own in pods]

    assert sorted(place for own in numbers for place in own) == list(range(500))
    assert all(numbers)
    assert [place for place in numbers[0] if place < 100] == sorted(pods[0])


def test_records_of_others_count_up_to_the_next_own_one(tmp_path: Path) -> None:
    file = ShardFile(tmp_path, 10, {2, 3})
    own = places(10, {2, 3})
    first, second, event = next(own), next(own), next(own)
    assert (first, second) == (2, 3)
    assert file.arrived() == 2

    lines = (tmp_path / "deltas.ndjson").open("ab", buffering=0)
    with lines:
        lines.write(b"{}\n")
        assert file.arrived() == 3
        lines.write(b"{}\n")
        assert file.arrived() == event >= 10, "the whole list, and events of others"


@pytest.mark.parametrize(("ratio", "cost"), [(0.25, 0), (0.4375, 0.25), (1, 1)])
def test_what_a_shard_costs_beyond_its_part_is_for_others(ratio: float, cost: float) -> None:
    assert foreign(ratio, 4) == pytest.approx(cost)
