"""What a queued delta means against what is known."""

from __future__ import annotations

import pytest

from bridge.informer.controller import changes_of, contradicts, needs_last_state
from bridge.informer.deltas import DeltaType, QueuedDelta, Suspicion
from bridge.model.change import Change, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.primitives.packing import pack
from tests.kit.objects import a_pod

WEB = a_pod("web")
OTHER = WEB.born_again()
WATCHED, RELISTED = Evidence.WATCHED, Evidence.RELISTED
ADDED, UPDATED, DELETED = DeltaType.ADDED, DeltaType.UPDATED, DeltaType.DELETED
REPLACED, RESTORED, SYNC = DeltaType.REPLACED, DeltaType.RESTORED, DeltaType.SYNC


def known_as(thing: ApiObject) -> ObjectVersion:
    return ObjectVersion(thing.uid, thing.resource_version, pack(thing.body))


def meant(kind: DeltaType, thing: ApiObject | None, known: ApiObject | None, evidence: Evidence) -> list[Change]:
    """What the Controller gets to hear: the last state only where it is needed."""
    delta = QueuedDelta(kind, WEB.key, thing, evidence, 1, ("audit",) if kind is SYNC else None)
    checkpoint = None if known is None else known_as(known)
    return changes_of(delta, checkpoint, known if needs_last_state(delta, checkpoint) else None)


AT_5, AT_6 = WEB.at(5), WEB.at(6)
BEFORE = known_as(AT_5)
REPLACED_OBJECT = Change(Op.DELETED, RELISTED, AT_5, BEFORE)
LOST, KEPT = WEB.at(5, image="lost"), WEB.at(5, image="kept")


@pytest.mark.parametrize("evidence", [WATCHED, Evidence.LISTED, RELISTED])
@pytest.mark.parametrize("kind", [ADDED, UPDATED, REPLACED])
@pytest.mark.parametrize(
    ("thing", "known", "expected"),
    [
        pytest.param(AT_5, None, [(Op.ADDED, None)], id="unknown"),
        pytest.param(AT_6, AT_5, [(Op.UPDATED, BEFORE)], id="another version"),
        pytest.param(AT_5, AT_5, [], id="the known version"),
        pytest.param(WEB.at("a"), WEB.at("b"), [(Op.UPDATED, known_as(WEB.at("b")))], id="versions without an order"),
    ],
)
def test_a_state_is_a_change_where_its_version_is_another(
    kind: DeltaType,
    thing: ApiObject,
    known: ApiObject | None,
    expected: list[tuple[Op, ObjectVersion | None]],
    evidence: Evidence,
) -> None:
    assert meant(kind, thing, known, evidence) == [Change(op, evidence, thing, before) for op, before in expected]


@pytest.mark.parametrize(
    ("kind", "thing", "known", "expected"),
    [
        pytest.param(DELETED, AT_6, AT_5, [Change(Op.DELETED, WATCHED, AT_6, BEFORE)], id="with the announced state"),
        pytest.param(DELETED, None, AT_5, [Change(Op.DELETED, WATCHED, AT_5, BEFORE)], id="with the last known state"),
        pytest.param(DELETED, AT_6, None, [Change(Op.DELETED, WATCHED, AT_6)], id="of an unknown object"),
        pytest.param(DELETED, None, None, [], id="of an object that is gone by now"),
        pytest.param(SYNC, None, None, [], id="a sync of an object that is gone by now"),
        pytest.param(SYNC, None, AT_5, [Change(Op.SYNC, WATCHED, AT_5, BEFORE, ("audit",))], id="a sync"),
    ],
)
def test_a_delete_or_a_sync_carries_the_last_state(
    kind: DeltaType, thing: ApiObject | None, known: ApiObject | None, expected: list[Change]
) -> None:
    assert meant(kind, thing, known, WATCHED) == expected


@pytest.mark.parametrize("kind", [ADDED, UPDATED, REPLACED, DELETED])
def test_a_new_uid_under_a_name_deletes_the_old_object_before(kind: DeltaType) -> None:
    op = Op.DELETED if kind is DELETED else Op.ADDED

    assert meant(kind, OTHER.at(9), AT_5, WATCHED) == [REPLACED_OBJECT, Change(op, WATCHED, OTHER.at(9))]


@pytest.mark.parametrize("known", [WEB.at(10), OTHER.at(10)], ids=["of the object", "of the name's former object"])
@pytest.mark.parametrize("kind", [ADDED, UPDATED, DELETED])
def test_a_watched_version_older_than_the_known_one_is_no_change(kind: DeltaType, known: ApiObject) -> None:
    """A watch that begins before the list was taken sends the former object's whole life again."""
    assert meant(kind, WEB.at(9), known, WATCHED) == []


@pytest.mark.parametrize(
    ("kind", "thing", "needed"),
    [
        (UPDATED, AT_6, False),
        (DELETED, AT_6, False),
        (DELETED, None, True),
        (SYNC, None, True),
        (ADDED, OTHER.at(6), True),
    ],
)
def test_the_last_state_is_unpacked_only_for_an_export(kind: DeltaType, thing: ApiObject | None, needed: bool) -> None:
    assert needs_last_state(QueuedDelta(kind, WEB.key, thing, WATCHED, 1), BEFORE) is needed


# ── After a restore ──────────────────────────────────────────────────────────


def test_after_a_restore_an_equal_version_with_a_new_body_counts() -> None:
    assert meant(RESTORED, KEPT, LOST, RELISTED) == [Change(Op.UPDATED, RELISTED, KEPT, known_as(LOST))]
    assert meant(RESTORED, LOST, LOST, RELISTED) == []
    assert meant(REPLACED, KEPT, LOST, RELISTED) == []


def test_after_a_restore_older_versions_and_new_uids_are_changes() -> None:
    assert [change.op for change in meant(RESTORED, WEB.at(4), WEB.at(10), RELISTED)] == [Op.UPDATED]
    assert [change.op for change in meant(RESTORED, OTHER.at(4), WEB.at(10), RELISTED)] == [Op.DELETED, Op.ADDED]


@pytest.mark.parametrize(
    ("kind", "thing", "known", "floor", "contradicted"),
    [
        pytest.param(REPLACED, WEB.at(4), WEB.at(10), None, True, id="older than it was known"),
        pytest.param(REPLACED, OTHER.at(4), WEB.at(10), None, True, id="older than what had its name"),
        pytest.param(REPLACED, WEB.at(10), WEB.at(10), None, False, id="unchanged"),
        pytest.param(REPLACED, WEB.at(11), WEB.at(10), None, False, id="newer"),
        pytest.param(REPLACED, WEB.at("a"), WEB.at("b"), None, False, id="versions without an order"),
        pytest.param(REPLACED, WEB.at(4), None, None, False, id="unknown, and nothing is suspected"),
        pytest.param(REPLACED, WEB.at(4), None, "7", True, id="it would have been known"),
        pytest.param(REPLACED, WEB.at(7), None, "7", True, id="it would have been known just so"),
        pytest.param(REPLACED, WEB.at(8), None, "7", False, id="new since"),
        pytest.param(REPLACED, WEB.at("a"), None, "7", False, id="new, without an order"),
        pytest.param(RESTORED, WEB.at(4), WEB.at(10), None, False, id="that is known already"),
        pytest.param(UPDATED, WEB.at(4), WEB.at(10), None, False, id="a watch sends old changes again"),
        pytest.param(DELETED, None, WEB.at(10), None, False, id="what is absent has no version"),
    ],
)
def test_what_a_list_cannot_have_in_the_history_that_is_known(
    kind: DeltaType, thing: ApiObject | None, known: ApiObject | None, floor: str | None, contradicted: bool
) -> None:
    delta = QueuedDelta(kind, WEB.key, thing, RELISTED, 1, None, None if floor is None else Suspicion(floor))

    assert contradicts(delta, None if known is None else known_as(known)) is contradicted
