"""Which sinks get a record, and as what."""

from __future__ import annotations

from typing import Any

from bridge.model.change import Evidence, Op
from bridge.model.record import Delta, Selected
from bridge.views.decisions import Decisions
from bridge.views.selection import SelectorText
from tests.bridge.views.compiled import PODS, as_bytes, entry, views

BLUE, BIG = 1, 4
"""The masks of two sinks: any two bits."""
BLUE_POD: Any = {"metadata": {"labels": {"color": "blue"}}, "spec": {"n": 1}}
BIG_POD: Any = {"metadata": {"labels": {}}, "spec": {"n": 9}}
NO_POD: Any = {"metadata": {"labels": {}}, "spec": {"n": 1}}


def decide(op: Op, manifest: Any, was: int | None, *, before: Any = None, **options: Any) -> Selected:
    """``options`` are further conditions of the entry of both sinks."""
    blue, big = entry(label_selector="color=blue", **options), entry(where="object.spec.n > 5", **options)
    decisions = Decisions(views(blue=blue, big=big), {"blue": BLUE, "big": BIG})
    delta = Delta(7, op, Evidence.WATCHED, PODS, "shop/web", "u", "12", "now", 1, as_bytes(manifest))
    return decisions(delta, was, None if before is None else lambda: as_bytes(before))


def test_a_new_object_goes_to_the_sinks_that_contain_it() -> None:
    assert decide(Op.ADDED, BLUE_POD, None) == Selected(BLUE, 0, 0, BLUE)
    assert decide(Op.ADDED, NO_POD, None) == Selected(0, 0, 0, 0)


def test_an_update_enters_one_sink_and_leaves_another() -> None:
    assert decide(Op.UPDATED, BIG_POD, BLUE) == Selected(BLUE | BIG, BIG, BLUE, BIG)


def test_an_update_within_a_selection_stays_an_update() -> None:
    assert decide(Op.UPDATED, BLUE_POD, BLUE) == Selected(BLUE, 0, 0, BLUE)


def test_a_delete_goes_where_the_object_was() -> None:
    assert decide(Op.DELETED, BIG_POD, BLUE) == Selected(BLUE, 0, 0, 0)


def test_a_delete_of_an_unknown_object_goes_by_its_last_state() -> None:
    assert decide(Op.DELETED, BIG_POD, None) == Selected(BIG, 0, 0, 0)


def test_a_resync_goes_where_the_object_is() -> None:
    assert decide(Op.SYNC, BLUE_POD, BLUE) == Selected(BLUE, 0, 0, BLUE)
    assert decide(Op.SYNC, NO_POD, 0) == Selected(0, 0, 0, 0)


def test_after_a_lost_state_an_object_is_judged_anew() -> None:
    assert decide(Op.SYNC, BIG_POD, None) == Selected(BIG, 0, 0, BIG)


def test_operations_are_those_that_the_sink_gets() -> None:
    assert decide(Op.UPDATED, BIG_POD, BLUE, operations={Op.ADDED}) == Selected(BIG, BIG, 0, BIG)
    assert decide(Op.UPDATED, BLUE_POD, BLUE, operations={Op.ADDED}) == Selected(0, 0, 0, BLUE)


def test_when_reads_the_op_and_the_evidence_of_the_sink() -> None:
    assert decide(Op.UPDATED, BIG_POD, BLUE, when="op == 'added'") == Selected(BIG, BIG, 0, BIG)
    assert decide(Op.UPDATED, BIG_POD, BLUE, when="evidence == 'unselected'") == Selected(BLUE, 0, BLUE, BIG)


def test_for_a_sink_that_begins_to_get_it_an_object_has_no_past() -> None:
    found = decide(Op.UPDATED, BIG_POD, BLUE, before=BLUE_POD, when="oldObject == null")
    assert found == Selected(BIG, BIG, 0, BIG)


def test_an_entry_that_was_removed_keeps_no_delete_back() -> None:
    only_nodes: SelectorText = entry(resource="nodes")
    decisions = Decisions(views(blue=only_nodes), {"blue": BLUE})
    delta = Delta(7, Op.DELETED, Evidence.WATCHED, PODS, "shop/web", "u", "12", "now", 1, as_bytes(BLUE_POD))
    assert decisions(delta, BLUE, None) == Selected(BLUE, 0, 0, 0)
