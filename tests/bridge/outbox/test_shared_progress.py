"""What a transaction stores for the next replica, beyond the frontier."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from bridge.model.change import Evidence, Op
from bridge.model.record import Delta
from bridge.model.versions.frontier import Point
from bridge.model.versions.progress import BeyondPart, SharedProgress
from bridge.outbox.progress.shared import Reached, SharedSink
from tests.kit.records import PODS, a_delta


def pod(version: int, uid: str = "a", op: Op = Op.UPDATED, **more: object) -> Delta:
    delta = replace(a_delta(version), resource=PODS, uid=uid, key=f"shop/{uid}", resource_version=str(version), op=op)
    return replace(delta, **more)


def at(version: int | None, newest: int = 1000, epoch: int = 1, *, lists: bool = False) -> Reached:
    """``epoch``: in which the informer is; the points are of the first."""
    points = {} if version is None else {"pods": Point(1, str(version))}
    listing = ("pods",) if lists else ()
    return Reached(points, {"pods": Point(1, str(newest))}, (), (), {"pods": epoch}, version or 0, listing)


def informers_of(_delta: Delta) -> tuple[str, ...]:
    return ("pods",)


def stored(sink: SharedSink, reached: Reached, *items: Delta) -> tuple[SharedProgress, BeyondPart | None]:
    found = sink.after(items, reached, informers_of)
    sink.settle()
    return found


def successor(shared: SharedProgress, parts: Sequence[BeyondPart] = ()) -> SharedSink:
    return SharedSink(shared, parts, {})


def test_the_next_replica_knows_what_is_behind_the_frontier() -> None:
    shared, part = stored(SharedSink(None, (), {}), at(10), pod(8), pod(12), pod(11, "b"))
    assert part is None
    assert sum(len(each.objects) for each in shared.beyond.values()) == 2
    then = successor(shared)
    had = [
        then.has(each, informers_of) for each in (pod(9), pod(12), pod(13), pod(11, "b"), pod(12, "b"), pod(12, "c"))
    ]
    assert had == [True, True, False, True, False, False]


def test_what_the_frontier_reaches_is_left_out() -> None:
    sink = SharedSink(None, (), {})
    stored(sink, at(10), pod(12), pod(14, "b"))
    shared, _ = stored(sink, at(13))
    assert [sorted(each.objects.values()) for each in shared.beyond.values()] == [["14"]]
    shared, _ = stored(sink, at(14))
    assert shared.beyond == {}


def test_the_third_replica_knows_what_the_first_stored() -> None:
    first, _ = stored(SharedSink(None, (), {}), at(10), pod(15))
    second, _ = stored(successor(first), at(10), pod(16, "b"))
    assert successor(second).has(pod(15), informers_of)


def test_a_transaction_that_was_not_stored_leaves_no_trace() -> None:
    sink = SharedSink(None, (), {})
    sink.after([pod(15)], at(10), informers_of)
    shared, _ = stored(sink, at(10), pod(11, "b"))
    assert not successor(shared).has(pod(15), informers_of)


def test_thousands_of_objects_are_stored_once_in_parts() -> None:
    sink, parts = SharedSink(None, (), {}), dict[int, BeyondPart]()
    for start in range(0, 3000, 300):
        shared, part = stored(sink, at(10), *(pod(1000 + n, f"u{n}") for n in range(start, start + 300)))
        if part is not None:
            parts[part.number] = part
        assert sum(len(each.objects) for each in shared.beyond.values()) <= 500
    assert len(parts) == shared.parts > 3
    then = successor(shared, list(parts.values()))
    assert all(then.has(pod(1000 + n, f"u{n}"), informers_of) for n in range(3000))
    shared, _ = stored(then, at(5000), pod(5001))
    assert shared.parts == 0


@pytest.mark.parametrize(
    ("stored_there", "known", "had"),
    [
        pytest.param(pod(12, op=Op.DELETED), pod(12, op=Op.DELETED), True, id="the same delete"),
        pytest.param(pod(12), pod(12, op=Op.DELETED), False, id="a delete with the last known version"),
        pytest.param(pod(12), pod(11, op=Op.DELETED, evidence=Evidence.RELISTED), False, id="its delete is unknown"),
        pytest.param(
            pod(12, op=Op.DELETED),
            pod(11, op=Op.DELETED, evidence=Evidence.RELISTED),
            True,
            id="a delete that a list found here",
        ),
        pytest.param(
            pod(11, op=Op.DELETED, evidence=Evidence.RELISTED),
            pod(14, op=Op.DELETED),
            True,
            id="a delete that a list found there",
        ),
        pytest.param(
            pod(11, op=Op.DELETED, evidence=Evidence.RECOVERED),
            pod(11, op=Op.DELETED),
            True,
            id="a delete that was recovered there",
        ),
        pytest.param(
            pod(11, op=Op.DELETED),
            pod(11, op=Op.DELETED, evidence=Evidence.RECOVERED),
            True,
            id="a delete that was recovered here",
        ),
        pytest.param(
            pod(11, op=Op.DELETED, evidence=Evidence.RECOVERED),
            pod(14),
            False,
            id="a later step behind a delete that was recovered there",
        ),
        pytest.param(pod(12), pod(12, evidence=Evidence.LISTED), True, id="listed here"),
        pytest.param(pod(12), pod(12, epoch=2), False, id="another epoch"),
        pytest.param(pod(12), pod(12, replay=3), False, id="a replay"),
        pytest.param(pod(12, replay=3), pod(12), False, id="stored in a replay"),
        pytest.param(pod(12), pod(12, op=Op.SYNC), False, id="a resync"),
    ],
)
def test_only_equal_steps_are_known(stored_there: Delta, known: Delta, had: bool) -> None:
    shared, _ = stored(SharedSink(None, (), {}), at(None, newest=14), stored_there)
    assert successor(shared).has(known, informers_of) is had


@pytest.mark.parametrize(
    ("deleted", "evidence", "had"),
    [
        pytest.param(12, Evidence.RECOVERED, True, id="the history has it"),
        pytest.param(13, Evidence.RECOVERED, False, id="the history has it behind the frontier"),
        pytest.param(12, Evidence.WATCHED, True, id="a watch announced it"),
        pytest.param(11, Evidence.RELISTED, False, id="nobody knows when"),
    ],
)
def test_a_frontier_reaches_a_delete_by_its_version(deleted: int, evidence: Evidence, had: bool) -> None:
    shared, _ = stored(SharedSink(None, (), {}), at(12, newest=12))
    assert successor(shared).has(pod(deleted, op=Op.DELETED, evidence=evidence), informers_of) is had


def test_a_delete_that_a_list_under_way_shows_is_known() -> None:
    """It happened behind the informer's point, and another replica has seen when."""
    listed = pod(8, op=Op.DELETED, evidence=Evidence.RELISTED)
    sink = SharedSink(None, (), {})
    shared, _ = stored(sink, at(15, newest=15, lists=True), listed)
    then = successor(shared)
    again = (pod(12), pod(17), pod(18, op=Op.DELETED), listed)
    assert [then.has(each, informers_of) for each in again] == [True] * 4
    assert not then.has(pod(25, op=Op.ADDED), informers_of), "it has come back"
    kept, _ = stored(then, at(15, newest=15, lists=True))
    assert kept.beyond == shared.beyond
    passed, _ = stored(sink, at(30, newest=30))
    assert passed.beyond == {}, "the point behind the list says as much"


def test_an_object_that_comes_back_is_followed_again() -> None:
    sink = SharedSink(None, (), {})
    stored(sink, at(15, newest=15, lists=True), pod(8, op=Op.DELETED, evidence=Evidence.RELISTED))
    shared, _ = stored(sink, at(15, newest=15, lists=True), pod(25, op=Op.ADDED))
    then = successor(shared)
    known = [then.has(each, informers_of) for each in (pod(18, op=Op.DELETED), pod(25, op=Op.ADDED), pod(26))]
    assert known == [True, True, False]


def test_progress_does_not_go_back_to_an_earlier_epoch() -> None:
    """The next replica has noticed a restore, and is still to settle what it knew before."""
    first, _ = stored(SharedSink(None, (), {}), Reached({"pods": Point(2, "7")}, {}, (), (), {"pods": 2}, 7))
    for epoch, point in ((2, Point(2, "7")), (1, Point(1, "10"))):
        shared, _ = stored(successor(first), at(10, epoch=epoch))
        assert shared.informers == {"pods": point}


def test_a_snapshot_tells_later_versions_again() -> None:
    shared, _ = stored(SharedSink(None, (), {}), at(10), pod(15))
    then = successor(shared)
    then.forget()
    assert not then.has(pod(9), informers_of)
    assert not then.has(pod(15), informers_of)
