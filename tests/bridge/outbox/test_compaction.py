"""The records left of a backlog. tests/properties/test_compaction.py shows that they are enough."""

from __future__ import annotations

import pytest

from bridge.model.change import Op
from bridge.outbox.consumers.compaction import BacklogRecord, Kept, compact

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
    ("backlog", "uncertain_through", "left"),
    [
        # As the module's table has it.
        ("+1 ~2 ~3", 0, "+3"),
        ("~1 ~2 =3", 0, "~2"),
        ("=1 =2 =3", 0, "=3"),
        ("~1 ~2 -3", 0, "-3"),
        ("+1 =2 -3", 0, ""),
        ("-1 +2b", 0, "-1 +2"),
        # An object that left the selector and came back, and others of the same name.
        ("-1 +2", 0, "-1 +2"),
        ("-1 +2b -3b +4", 0, "-1 +4"),
        ("~1 -2 +3b ~4b", 0, "-2 +4"),
        # What the sink may have received keeps its id; a delete follows where it may know the object.
        ("+1 ~2 =3 ~4", 2, "+1 ~4"),
        ("-1 +2b ~3b", 9, "-1 +2 ~3"),
        ("+1 ~2 -3", 1, "-3"),
        ("+1 -2 +3b -4b", 1, "-2"),
        ("+1 -2 +3b -4b", 3, "-2 -4"),
        # The name changed hands without a delete.
        ("~1 +2b ~3b", 0, "~1 +2 ~3"),
        ("+1 =2b -3b", 0, "+1 -3"),
        ("+1 -2b", 0, "+1 -2"),
    ],
)
def test_the_newest_record_has_the_op_for_a_sink_without_others(
    backlog: str, uncertain_through: int, left: str
) -> None:
    assert text_of(compact(steps(backlog), uncertain_through)) == left


def test_objects_are_independent_in_the_order_of_kept_records() -> None:
    backlog = sorted(
        [*steps("+1 ~8", "a"), *steps("~2 -7", "b"), *steps("+3 -4", "c"), *steps("~5", "d")],
        key=lambda step: step.sequence,
    )

    assert text_of(compact(backlog, uncertain_through=0)) == "~5 -7 +8"


@pytest.mark.parametrize(
    ("backlog", "before"),
    [
        ("~1 ~2", {9: 1}),
        ("+1 ~2 ~3", {1: 1, 9: 2}),
        ("=1 =2 ~3 =4 ~5", {9: 3}),
        ("=1 =2", {9: 9}),
        ("~1 -2 +3b ~4b", {2: 2, 9: 3}),
    ],
)
def test_before_is_the_state_before_the_first_also_of_a_second_compaction(backlog: str, before: dict[int, int]) -> None:
    first = compact(steps(backlog), uncertain_through=1)
    again = [BacklogRecord(each.sequence, "web", "a", each.op, each.before) for each in first]

    kept = compact([*again, *steps("~9")], uncertain_through=1)
    assert {each.sequence: each.before for each in kept} == before
