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


def known_as(thing: ApiObject) -> ObjectVersion:
    return ObjectVersion(thing.uid, thing.resource_version, pack(thing.body))


def meant(
    kind: DeltaType,
    thing: ApiObject | None,
    *,
    known: ApiObject | None = None,
    evidence: Evidence = Evidence.WATCHED,
    targets: tuple[str, ...] | None = None,
) -> list[Change]:
    """What the Controller gets to hear: the last state only where it is needed."""
    delta = QueuedDelta(kind, WEB.key, thing, evidence, 1, targets)
    checkpoint = None if known is None else known_as(known)
    return changes_of(delta, checkpoint, known if needs_last_state(delta, checkpoint) else None)


# ── An object that comes, changes and goes ───────────────────────────────────


@pytest.mark.parametrize("kind", [DeltaType.ADDED, DeltaType.UPDATED, DeltaType.REPLACED])
def test_whatever_was_not_known_is_added(kind: DeltaType) -> None:
    assert meant(kind, WEB.at(5)) == [Change(Op.ADDED, Evidence.WATCHED, WEB.at(5))]


@pytest.mark.parametrize("kind", [DeltaType.ADDED, DeltaType.UPDATED, DeltaType.REPLACED])
def test_another_version_is_an_update_with_the_version_before(kind: DeltaType) -> None:
    assert meant(kind, WEB.at(6), known=WEB.at(5)) == [
        Change(Op.UPDATED, Evidence.WATCHED, WEB.at(6), known_as(WEB.at(5)))
    ]


@pytest.mark.parametrize("kind", [DeltaType.ADDED, DeltaType.UPDATED, DeltaType.REPLACED])
def test_the_version_that_is_known_already_is_no_change(kind: DeltaType) -> None:
    assert meant(kind, WEB.at(5), known=WEB.at(5)) == []


def test_a_delete_carries_the_state_it_was_announced_with() -> None:
    assert meant(DeltaType.DELETED, WEB.at(6), known=WEB.at(5)) == [
        Change(Op.DELETED, Evidence.WATCHED, WEB.at(6), known_as(WEB.at(5)))
    ]


def test_an_inferred_delete_carries_the_last_known_state() -> None:
    assert meant(DeltaType.DELETED, None, known=WEB.at(5), evidence=Evidence.RELISTED) == [
        Change(Op.DELETED, Evidence.RELISTED, WEB.at(5), known_as(WEB.at(5)))
    ]


def test_a_delete_of_an_unknown_object_is_delivered() -> None:
    assert meant(DeltaType.DELETED, WEB.at(6)) == [Change(Op.DELETED, Evidence.WATCHED, WEB.at(6))]


@pytest.mark.parametrize("kind", [DeltaType.DELETED, DeltaType.SYNC])
def test_an_object_that_is_gone_by_now_makes_no_change(kind: DeltaType) -> None:
    assert meant(kind, None) == []


def test_a_sync_delivers_the_known_object_to_its_targets() -> None:
    assert meant(DeltaType.SYNC, None, known=WEB.at(5), targets=("audit",)) == [
        Change(Op.SYNC, Evidence.WATCHED, WEB.at(5), known_as(WEB.at(5)), ("audit",))
    ]


@pytest.mark.parametrize("evidence", Evidence)
def test_evidence_is_passed_on(evidence: Evidence) -> None:
    assert meant(DeltaType.REPLACED, WEB.at(5), evidence=evidence)[0].evidence is evidence


# ── Another object under the old name ────────────────────────────────────────


@pytest.mark.parametrize("kind", [DeltaType.ADDED, DeltaType.UPDATED, DeltaType.REPLACED])
def test_a_new_uid_under_a_name_deletes_the_old_and_adds_the_new(kind: DeltaType) -> None:
    assert meant(kind, OTHER.at(9), known=WEB.at(5)) == [
        Change(Op.DELETED, Evidence.RELISTED, WEB.at(5), known_as(WEB.at(5))),
        Change(Op.ADDED, Evidence.WATCHED, OTHER.at(9)),
    ]


def test_a_delete_of_another_uid_than_known_is_two_deletes() -> None:
    assert meant(DeltaType.DELETED, OTHER.at(9), known=WEB.at(5)) == [
        Change(Op.DELETED, Evidence.RELISTED, WEB.at(5), known_as(WEB.at(5))),
        Change(Op.DELETED, Evidence.WATCHED, OTHER.at(9)),
    ]


# ── Events that are sent again ───────────────────────────────────────────────


@pytest.mark.parametrize("kind", [DeltaType.ADDED, DeltaType.UPDATED, DeltaType.DELETED])
def test_a_watched_version_older_than_the_known_one_is_no_change(kind: DeltaType) -> None:
    assert meant(kind, WEB.at(9), known=WEB.at(10)) == []


@pytest.mark.parametrize("kind", [DeltaType.ADDED, DeltaType.UPDATED, DeltaType.DELETED])
def test_an_older_event_of_the_names_former_object_is_no_change(kind: DeltaType) -> None:
    """A watch that begins before the list was taken sends the former object's whole life again."""
    assert meant(kind, WEB.at(9), known=OTHER.at(10)) == []


def test_non_numeric_versions_change_in_order_of_arrival() -> None:
    assert [change.op for change in meant(DeltaType.UPDATED, WEB.at("a"), known=WEB.at("b"))] == [Op.UPDATED]


# ── What it costs ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "thing", "needed"),
    [
        (DeltaType.UPDATED, WEB.at(6), False),
        (DeltaType.DELETED, WEB.at(6), False),
        (DeltaType.DELETED, None, True),
        (DeltaType.SYNC, None, True),
        (DeltaType.ADDED, OTHER.at(6), True),
    ],
)
def test_the_last_state_is_unpacked_only_for_an_export(kind: DeltaType, thing: ApiObject | None, needed: bool) -> None:
    delta = QueuedDelta(kind, WEB.key, thing, Evidence.WATCHED, 1)

    assert needs_last_state(delta, known_as(WEB.at(5))) is needed
    assert not needs_last_state(delta, None)


# ── After a restore ──────────────────────────────────────────────────────────


def test_after_a_restore_an_equal_version_with_a_new_body_counts() -> None:
    before, now = WEB.at(5, image="lost"), WEB.at(5, image="kept")

    assert meant(DeltaType.RESTORED, now, known=before, evidence=Evidence.RELISTED) == [
        Change(Op.UPDATED, Evidence.RELISTED, now, known_as(before))
    ]
    assert meant(DeltaType.RESTORED, before, known=before) == []
    assert meant(DeltaType.REPLACED, now, known=before) == []


def test_after_a_restore_older_versions_and_new_uids_are_changes() -> None:
    assert [change.op for change in meant(DeltaType.RESTORED, WEB.at(4), known=WEB.at(10))] == [Op.UPDATED]
    assert [change.op for change in meant(DeltaType.RESTORED, OTHER.at(4), known=WEB.at(10))] == [Op.DELETED, Op.ADDED]


# ── Lists of another history ─────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "thing", "known", "floor", "contradicted"),
    [
        (DeltaType.REPLACED, WEB.at(4), WEB.at(10), None, True),
        (DeltaType.REPLACED, OTHER.at(4), WEB.at(10), None, True),
        (DeltaType.REPLACED, WEB.at(10), WEB.at(10), None, False),
        (DeltaType.REPLACED, WEB.at(11), WEB.at(10), None, False),
        (DeltaType.REPLACED, WEB.at("a"), WEB.at("b"), None, False),
        (DeltaType.REPLACED, WEB.at(4), None, None, False),
        (DeltaType.REPLACED, WEB.at(4), None, "7", True),
        (DeltaType.REPLACED, WEB.at(7), None, "7", True),
        (DeltaType.REPLACED, WEB.at(8), None, "7", False),
        (DeltaType.REPLACED, WEB.at("a"), None, "7", False),
        (DeltaType.RESTORED, WEB.at(4), WEB.at(10), None, False),
        (DeltaType.UPDATED, WEB.at(4), WEB.at(10), None, False),
        (DeltaType.DELETED, None, WEB.at(10), None, False),
    ],
    ids=[
        "older than it was known",
        "older than what had its name",
        "unchanged",
        "newer",
        "versions without an order",
        "unknown, and nothing is suspected",
        "it would have been known",
        "it would have been known just so",
        "new since",
        "new, without an order",
        "that is known already",
        "a watch sends old changes again",
        "what is absent has no version",
    ],
)
def test_what_a_list_cannot_have_in_the_history_that_is_known(
    kind: DeltaType, thing: ApiObject | None, known: ApiObject | None, floor: str | None, contradicted: bool
) -> None:
    delta = QueuedDelta(kind, WEB.key, thing, Evidence.RELISTED, 1, None, None if floor is None else Suspicion(floor))

    assert contradicts(delta, None if known is None else known_as(known)) is contradicted
