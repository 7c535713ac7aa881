"""The judges of the scenarios, before they judge: each says no to what it should."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kit.received import (
    Received,
    ReceivedEdge,
    ReceivedGap,
    Version,
    as_received,
    assert_each_once,
    assert_in_order,
    assert_same_state,
    from_events,
    rebuilt,
    received_lists,
    without_repeats,
)


def a_received(version: int, op: str = "updated", name: str = "a", uid: str = "u", **fields: object) -> Received:
    return Received(
        id=f"{uid}/{version}/{op}",
        op=op,
        subject=f"/api/v1/namespaces/shop/pods/{name}",
        uid=uid,
        resource_version=str(version),
        sequence=version,
        evidence="watched",
        data={"metadata": {"name": name, "uid": uid, "resourceVersion": str(version)}, **fields},
    )


STREAM = [
    a_received(1, "added"),
    a_received(2, colour="red"),
    a_received(3, "deleted"),
    a_received(4, "added", uid="v"),
]


def test_a_stream_can_be_replayed_to_its_end_or_to_a_version() -> None:
    subject = STREAM[0].subject

    assert rebuilt(STREAM) == {subject: STREAM[3].data}
    assert rebuilt(STREAM, through=2) == {subject: STREAM[1].data}
    assert rebuilt(STREAM, through=3) == {}


def test_a_list_is_compared_in_the_form_in_which_objects_leave() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "shop"}
    metadata = {"name": "a", "namespace": "shop", "managedFields": [{}], "annotations": annotations}
    listed = {"apiVersion": "apps/v1", "items": [{"metadata": metadata}]}

    expected = {"name": "a", "namespace": "shop", "annotations": {"team": "shop"}}
    assert as_received(listed, "/apis/apps/v1/deployments", "Deployment") == {
        "/apis/apps/v1/namespaces/shop/deployments/a": {
            "kind": "Deployment", "apiVersion": "apps/v1", "metadata": expected
        }
    }  # fmt: skip


def test_differing_states_are_named_without_their_content() -> None:
    have = {"a": {"data": {"password": "hunter2"}}, "extra": {}}
    want = {"a": {"data": {"password": "hunter3"}}, "missing": {}}

    with pytest.raises(AssertionError) as wrong:
        assert_same_state(have, want, "log")

    said = str(wrong.value).partition("\nassert")[0]
    assert "1 missing objects, 1 extra objects, 1 different objects" in said
    assert "a in data.password" in said
    assert "hunter" not in said


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (STREAM[1:], "1 missing"),
        ([*STREAM, a_received(5)], "1 extra"),
        ([*STREAM, STREAM[2]], "1 delivered more than once"),
    ],
)
def test_missing_and_repeated_records_are_counted(stream: list[Received], complaint: str) -> None:
    want: list[Version] = [received.version for received in STREAM]
    assert_each_once(STREAM, want, "log")

    with pytest.raises(AssertionError, match=complaint):
        assert_each_once(stream, want, "log")


@pytest.mark.parametrize(
    "stream", [[*STREAM[:2][::-1]], [STREAM[3], STREAM[2]], [a_received(9), replace(a_received(8), sequence=10)]]
)
def test_what_came_too_early_is_out_of_order(stream: list[Received]) -> None:
    assert_in_order(STREAM, "log")

    with pytest.raises(AssertionError, match="1 out of order"):
        assert_in_order(stream, "log")


def test_a_repeated_record_counts_where_it_came_first() -> None:
    assert without_repeats([*STREAM, STREAM[0]]) == STREAM
    assert_in_order([*STREAM, *STREAM], "log")


def test_snapshot_notices_are_no_objects_and_gaps_are_kept() -> None:
    assert received_lists([ReceivedEdge("began"), *STREAM]) == STREAM
    with pytest.raises(AssertionError, match="1 gaps"):
        received_lists([*STREAM, ReceivedGap(5, 6, None)])


def test_an_event_that_contradicts_itself_is_refused() -> None:
    received = a_received(7)
    event = {
        "specversion": "1.0", "type": "kubedelta.object.updated.v1",
        "id": received.id, "op": received.op, "uid": received.uid,
        "subject": received.subject, "resourceversion": "7", "sequence": "7", "evidence": "watched",
        "data": received.data,
        "epoch": 1, "source": "/clusters/prod",
    }  # fmt: skip
    assert from_events([event]) == [received]

    for wrong in ({"id": "u/6/updated"}, {"type": "kubedelta.object.added.v1"}, {"subject": "/api/v1/pods/b"},
                  {"epoch": 2}, {"source": "/clusters/prod/epochs/2"}):  # fmt: skip
        with pytest.raises(AssertionError):
            from_events([{**event, **wrong}])
