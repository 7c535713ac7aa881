"""What is left of a backlog. That it is enough: see tests/properties/test_compaction.py."""

from __future__ import annotations

import pytest

from bridge.model.change import Op
from bridge.outbox.compaction import Compaction, Kept, Step, compact

OPS = {"+": Op.ADDED, "~": Op.UPDATED, "-": Op.DELETED, "=": Op.SYNC}
LETTERS = {op: letter for letter, op in OPS.items()}


def steps(text: str, key: str = "web") -> list[Step]:
    """``+1 ~2 -3``: added, updated, deleted; ``=`` is sync. Another uid than the first stands behind the sequence
    number: ``-1 +2b``."""
    return [Step(int(word[1:].rstrip("ab")), key, word.lstrip("+~-=0123456789") or "a", OPS[word[0]])
            for word in text.split()]  # fmt: skip


def told(kept: list[Kept]) -> str:
    return " ".join(f"{LETTERS[each.op]}{each.sequence}" for each in kept)


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
def test_the_newest_of_an_object_is_told_as_what_it_is_to_one_who_missed_the_rest(backlog: str, left: str) -> None:
    assert told(compact(steps(backlog), told_through=0)) == left


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
def test_a_sync_is_told_only_where_nothing_changed(backlog: str, left: str) -> None:
    assert told(compact(steps(backlog), told_through=0)) == left


@pytest.mark.parametrize(
    ("backlog", "told_through", "left"),
    [
        ("+1 ~2 -3", 1, "-3"),
        ("+1 -2 +3b -4b", 1, "-2"),
        ("+1 -2 +3b -4b", 3, "-2 -4"),
        ("-1 +2b -3b", 1, "-1"),
        ("-1 +2b -3b", 2, "-1 -3"),
        ("~1 -2", 9, "-2"),
    ],
)
def test_a_delete_is_told_where_the_sink_may_have_heard_of_the_object(
    backlog: str, told_through: int, left: str
) -> None:
    assert told(compact(steps(backlog), told_through)) == left


@pytest.mark.parametrize(
    ("backlog", "left"),
    [("+1", "+1"), ("+1 =2", "+1"), ("+1 ~2", "+1 ~2"), ("+1 ~2 =3 ~4", "+1 ~4"), ("-1 +2b ~3b", "-1 +2 ~3")],
)
def test_what_may_have_been_told_is_told_again_as_it_was(backlog: str, left: str) -> None:
    """Under another op it would have another id, and the sink could not tell that it has it."""
    for told_through in (2, 9):
        assert told(compact(steps(backlog), told_through)) == left


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
def test_where_a_name_changed_hands_without_a_delete_nothing_is_taken_for_granted(backlog: str, left: str) -> None:
    assert told(compact(steps(backlog), told_through=0)) == left


@pytest.mark.parametrize(
    ("backlog", "told_through", "left"),
    [
        ("~1 ~2 ~3", 0, {3: 1}),
        ("=1 =2 ~3 =4 ~5", 0, {5: 3}),
        ("=1 =2", 0, {2: 2}),
        ("+1 ~2 ~3", 0, {3: 1}),
        ("+1 ~2 ~3", 1, {1: 1, 3: 2}),
        ("~1 -2 +3b ~4b", 0, {2: 2, 4: 3}),
    ],
)
def test_what_was_before_is_what_was_before_the_first_of_the_records_that_one_stands_for(
    backlog: str, told_through: int, left: dict[int, int]
) -> None:
    assert {each.sequence: each.before for each in compact(steps(backlog), told_through)} == left


@pytest.mark.parametrize(
    ("backlog", "left"),
    [
        ("~1 ~2", [Kept(9, Op.UPDATED, 1)]),
        ("+1 ~2 ~3", [Kept(1, Op.ADDED, 1), Kept(9, Op.UPDATED, 2)]),
        ("=1 =2 ~3 ~4", [Kept(9, Op.UPDATED, 3)]),
    ],
)
def test_what_was_before_is_still_known_when_it_is_compacted_again(backlog: str, left: list[Kept]) -> None:
    first = compact(steps(backlog), told_through=1)
    again = [Step(each.sequence, "web", "a", each.op, each.before) for each in first]

    assert compact([*again, *steps("~9")], told_through=1) == left


def test_objects_do_not_disturb_each_other_and_the_order_is_that_of_the_records_told() -> None:
    backlog = sorted(
        [*steps("+1 ~8", "a"), *steps("~2 -7", "b"), *steps("+3 -4", "c"), *steps("~5", "d")],
        key=lambda step: step.sequence,
    )

    assert told(compact(backlog, told_through=0)) == "~5 -7 +8"


def test_a_backlog_can_be_folded_piece_by_piece_and_asked_at_any_time() -> None:
    compaction = Compaction(told_through=0)
    left = []
    for step in steps("~1 ~2 -3 +4b"):
        compaction.fold([step])
        left.append(told(compaction.kept()))

    assert left == ["~1", "~2", "-3", "-3 +4"]
