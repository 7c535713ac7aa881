"""The records left of a backlog. tests/properties/test_compaction.py shows that they are enough."""

from __future__ import annotations

import pytest

from bridge.model.change import Op
from bridge.outbox.consumers.compaction import BacklogRecord, Compaction, Kept, compact

OPS = {"+": Op.ADDED, "~": Op.UPDATED, "-": Op.DELETED, "=": Op.SYNC}
SIGNS = {op: sign for sign, op in OPS.items()}


def steps(text: str, key: str = "web") -> list[BacklogRecord]:
    """``+1 ~2 -3``: added, updated, deleted; ``=`` is sync. Another uid than the first stands behind the sequence
    number: ``-1 +2b``."""
    return [BacklogRecord(int(word[1:].rstrip("ab")), key, word.lstrip("+~-=0123456789") or "a", OPS[word[0]])
            for word in text.split()]  # fmt: skip


def text_of(kept: list[Kept]) -> str:
    return " ".join(f"{SIGNS[each.op]}{each.sequence}" for each in kept)


@pytest.mark.parametrize(
    ("backlog", "left"),
    [
        ("", ""),
        ("+1", "+1"),
        ("~1", "~1"),
        ("-1", "-1"),
        ("=1", "=1"),
        ("+1 ~2 ~3", "+3"),
        ("~1 ~2 ~3", "~3"),
        ("~1 ~2 -3", "-3"),
        ("+1 ~2 -3", ""),
        ("-1 +2b", "-1 +2"),
        ("~1 -2 +3b ~4b", "-2 +4"),
        ("-1 +2b -3b", "-1"),
        ("-1 +2b -3b +4", "-1 +4"),
        ("-1 +2", "-1 +2"),  # It left the selector and came back.
        ("+1 -2 +3b -4b", ""),
    ],
)
def test_the_newest_record_has_the_op_for_a_sink_without_others(backlog: str, left: str) -> None:
    assert text_of(compact(steps(backlog), uncertain_through=0)) == left


@pytest.mark.parametrize(
    ("backlog", "left"),
    [
        ("=1 =2 =3", "=3"),
        ("=1 ~2", "~2"),
        ("=1 ~2 =3", "~2"),
        ("~1 =2", "~1"),
        ("+1 =2", "+1"),
        ("+1 =2 ~3 =4", "+3"),
        ("=1 -2", "-2"),
        ("+1 =2 -3", ""),
    ],
)
def test_a_sync_is_exported_only_where_nothing_changed(backlog: str, left: str) -> None:
    assert text_of(compact(steps(backlog), uncertain_through=0)) == left


@pytest.mark.parametrize(
    ("backlog", "uncertain_through", "left"),
    [
        ("+1 ~2 -3", 1, "-3"),
        ("+1 -2 +3b -4b", 1, "-2"),
        ("+1 -2 +3b -4b", 3, "-2 -4"),
        ("-1 +2b -3b", 1, "-1"),
        ("-1 +2b -3b", 2, "-1 -3"),
        ("~1 -2", 9, "-2"),
    ],
)
def test_a_delete_is_kept_where_the_sink_may_know_the_object(backlog: str, uncertain_through: int, left: str) -> None:
    assert text_of(compact(steps(backlog), uncertain_through)) == left


@pytest.mark.parametrize(
    ("backlog", "left"),
    [("+1", "+1"), ("+1 =2", "+1"), ("+1 ~2", "+1 ~2"), ("+1 ~2 =3 ~4", "+1 ~4"), ("-1 +2b ~3b", "-1 +2 ~3")],
)
def test_perhaps_delivered_records_are_delivered_unchanged(backlog: str, left: str) -> None:
    """Under another op the record would have another id, and the sink could not recognise the repetition."""
    for uncertain_through in (2, 9):
        assert text_of(compact(steps(backlog), uncertain_through)) == left


@pytest.mark.parametrize(
    ("backlog", "left"),
    [
        ("+1 +2b", "+1 +2"),
        ("~1 ~2b", "~1 ~2"),
        ("~1 +2b ~3b", "~1 +2 ~3"),
        ("~1 +2b -3b", "~1 -3"),
        ("+1 -2b", "+1 -2"),
        ("+1 =2b -3b", "+1 -3"),
    ],
)
def test_a_name_that_changed_hands_without_a_delete_is_unsure(backlog: str, left: str) -> None:
    assert text_of(compact(steps(backlog), uncertain_through=0)) == left


@pytest.mark.parametrize(
    ("backlog", "uncertain_through", "left"),
    [
        ("~1 ~2 ~3", 0, {3: 1}),
        ("=1 =2 ~3 =4 ~5", 0, {5: 3}),
        ("=1 =2", 0, {2: 2}),
        ("+1 ~2 ~3", 0, {3: 1}),
        ("+1 ~2 ~3", 1, {1: 1, 3: 2}),
        ("~1 -2 +3b ~4b", 0, {2: 2, 4: 3}),
    ],
)
def test_before_is_the_state_before_the_first_compacted_one(
    backlog: str, uncertain_through: int, left: dict[int, int]
) -> None:
    assert {each.sequence: each.before for each in compact(steps(backlog), uncertain_through)} == left


@pytest.mark.parametrize(
    ("backlog", "left"),
    [
        ("~1 ~2", [Kept(9, Op.UPDATED, 1)]),
        ("+1 ~2 ~3", [Kept(1, Op.ADDED, 1), Kept(9, Op.UPDATED, 2)]),
        ("=1 =2 ~3 ~4", [Kept(9, Op.UPDATED, 3)]),
    ],
)
def test_before_survives_a_second_compaction(backlog: str, left: list[Kept]) -> None:
    first = compact(steps(backlog), uncertain_through=1)
    again = [BacklogRecord(each.sequence, "web", "a", each.op, each.before) for each in first]

    assert compact([*again, *steps("~9")], uncertain_through=1) == left


def test_objects_are_independent_in_the_order_of_kept_records() -> None:
    backlog = sorted(
        [*steps("+1 ~8", "a"), *steps("~2 -7", "b"), *steps("+3 -4", "c"), *steps("~5", "d")],
        key=lambda step: step.sequence,
    )

    assert text_of(compact(backlog, uncertain_through=0)) == "~5 -7 +8"


def test_a_backlog_is_compacted_in_pieces_and_always_readable() -> None:
    compaction = Compaction(uncertain_through=0)
    left = []
    for step in steps("~1 ~2 -3 +4b"):
        compaction.fold([step])
        left.append(text_of(compaction.kept()))

    assert left == ["~1", "~2", "-3", "-3 +4"]
