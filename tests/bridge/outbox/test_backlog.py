"""Bounds of backlogs, and their cost. tests/properties/test_sparse_index.py has the index against a model."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from bridge.model.policies import BacklogBounds
from bridge.outbox.consumers.compaction import BacklogSize, drop_through, why_full
from bridge.outbox.log.retention import SparseIndex, trim_through


def ten_commits() -> SparseIndex:
    """At each of ten seconds, ten records of a hundred bytes each."""
    sparse_index = SparseIndex()
    for second in range(1, 11):
        sparse_index.reached(10 * second, 1000 * second, float(second))
    return sparse_index


@pytest.mark.parametrize(
    ("bounds", "size", "why"),
    [
        (BacklogBounds(), BacklogSize(10**9, 10**12, 1e6), ""),
        (BacklogBounds(0, 0, 0.0), BacklogSize(0, 0, 0.0), ""),
        (BacklogBounds(records=10), BacklogSize(9, 10**12, 1e6), ""),
        (BacklogBounds(records=10), BacklogSize(10, 0, 0.0), "10 records wait, and max_backlog.records is 10"),
        (BacklogBounds(bytes=100), BacklogSize(10**9, 99, 1e6), ""),
        (BacklogBounds(bytes=100), BacklogSize(1, 100, 0.0), "100 bytes wait, and max_backlog.bytes is 100"),
        (BacklogBounds(age=60.0), BacklogSize(10**9, 10**12, 59.9), ""),
        (
            BacklogBounds(age=60.0),
            BacklogSize(1, 1, 60.0),
            "the oldest record has waited 60 s, and max_backlog.age is 60 s",
        ),
    ],
)
def test_a_backlog_is_full_where_it_reaches_any_bound(bounds: BacklogBounds, size: BacklogSize, why: str) -> None:
    assert why_full(bounds, size, "max_backlog") == why


@pytest.mark.parametrize(
    ("bounds", "through"),
    [
        (BacklogBounds(records=50), 55),
        (BacklogBounds(bytes=5000), 60),  # 4,500 bytes are 45 records, but a commit leaves as a whole.
        (BacklogBounds(age=5.6), 50),
        (BacklogBounds(50, 5000, 5.6), 60),
        (BacklogBounds(records=1), 100),
    ],
)
def test_what_is_dropped_leaves_a_tenth_of_each_bound_free(bounds: BacklogBounds, through: int) -> None:
    sparse_index = ten_commits()
    dropped = drop_through(bounds, sparse_index, settled=3, last=100, now=10.5)

    assert dropped == through
    left = BacklogSize(100 - dropped, sparse_index.bytes_after(dropped), sparse_index.age_of(dropped, now=10.5))
    assert why_full(bounds, left, "max_backlog") == ""


def test_nothing_is_dropped_while_there_is_room_or_twice() -> None:
    assert drop_through(BacklogBounds(1000, 10**6, 60.0), ten_commits(), settled=30, last=100, now=10.0) == 30
    assert drop_through(BacklogBounds(50, 5000, 5.0), ten_commits(), settled=99, last=100, now=10.0) == 99
    assert drop_through(BacklogBounds(age=1.0), ten_commits(), settled=30, last=100, now=1000.0) == 100


@pytest.mark.parametrize(
    ("cursors", "age", "size", "through"),
    [
        ([70, 40, 90], 0.0, 0, 40),
        ([], 0.0, 0, 100),
        ([100], 3.0, 0, 70),
        ([100], 0.0, 2500, 70),
        ([100], 3.0, 1000, 90),
        ([100], 1.0, 4000, 90),
        ([100], 60.0, 10**6, 0),
        ([25], 3.0, 1000, 25),
        ([10**6], 0.0, 0, 100),
    ],
)
def test_a_settled_record_leaves_at_the_first_retention_bound(
    cursors: list[int], age: float, size: int, through: int
) -> None:
    assert trim_through(iter(cursors), age, size, ten_commits(), now=10.0, last=100) == through


# ── Sparse index ─────────────────────────────────────────────────────────────


def test_a_time_before_the_newest_counts_as_equal_to_it() -> None:
    sparse_index = ten_commits()
    sparse_index.reached(100, 10_000, 50.0)
    assert (len(sparse_index), sparse_index.age_of(99, now=50.0)) == (11, 40.0), "the commit brought no record"
    assert sparse_index.age_of(99, now=3.0) == 0.0


def test_what_was_trimmed_is_not_counted_and_what_is_left_is() -> None:
    sparse_index = ten_commits()
    sparse_index.trim(55)

    assert sparse_index.bytes_after(55) == sparse_index.bytes_after(0) == 5000
    assert sparse_index.age_of(55, now=10.0) == 4.0
    assert sparse_index.sequence_of_age(100.0, now=10.0) == sparse_index.sequence_of_bytes(10**9) == 50
    sparse_index.trim(100)
    assert (len(sparse_index), sparse_index.bytes_after(100)) == (1, 0)
    sparse_index.reached(110, 10_700, 12.0)
    assert (sparse_index.bytes_after(100), sparse_index.age_of(100, now=13.0)) == (700, 1.0)


@pytest.mark.parametrize("shape", ["steady", "pauses", "large", "empty"])
def test_many_commits_take_little_memory_within_one_percent(shape: str) -> None:
    """While the log is trimmed. ``pauses``: at times commits are rare and small. ``large``: at times they are large."""
    chance = random.Random(shape)
    sparse_index = SparseIndex(most=2400)
    sequence = total = trimmed = 0
    now = 0.0
    commits = [(0, 0, 0.0)]
    for turn in range(20_000):
        other = turn // 1000 % 2
        sequence += chance.randint(1, 30)
        total += 0 if shape == "empty" else chance.randint(100, 20_000 if shape == "large" and other else 500)
        now += chance.random() * (60.0 if shape == "pauses" and other else 0.05)
        commits.append((sequence, total, now))
        sparse_index.reached(sequence, total, now)
        if turn % 1000 == 999 and turn > 10_000:
            trimmed = commits[turn - 10_000][0]
            sparse_index.trim(trimmed)

    assert len(sparse_index) <= 2400
    there = [commit for commit in commits if commit[0] >= trimmed]
    seconds = there[-1][2] - there[1][2]
    size = there[-1][1] - there[0][1]
    for (reached, so_far, _), (_, _, came) in pairwise(there):
        assert 0 <= sparse_index.bytes_after(reached) - (total - so_far) <= size / 100
        assert 0 <= sparse_index.age_of(reached, now) - (now - came) <= seconds / 100
