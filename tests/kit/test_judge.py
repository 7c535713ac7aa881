"""The judge of the histories, before it judges: it says no to what it should, and to nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.kit.etcd_history import Happened, happened
from tests.kit.judge import judge, judge_all
from tests.kit.received import Received, Version


def a_happened(version: int, op: str = "updated", uid: str = "u", name: str = "a") -> Happened:
    metadata = {"name": name, "uid": uid, "resourceVersion": str(version)}
    thing = {"kind": "Pod", "metadata": metadata, "data": {"at": str(version if op != "deleted" else version - 1)}}
    return Happened(Version(uid, str(version), op), f"/api/v1/namespaces/shop/pods/{name}", thing)


HAPPENED = [
    a_happened(1, "added"), a_happened(2, "added", "w", "b"), a_happened(3), a_happened(4), a_happened(5, "deleted"),
    a_happened(6, "added", "v"),
]  # fmt: skip


def delivered_of(happened: Sequence[Happened]) -> list[Received]:
    return [
        Received("/".join(each.version), each.version.op, each.subject, *each.version[:2], number, "watched", each.data)
        for number, each in enumerate(happened, start=1)
    ]


STREAM = delivered_of(HAPPENED)


def found_in_a_list(*received: Received) -> list[Received]:
    return [replace(each, evidence="relisted") for each in received]


def found_deleted(last: Received) -> Received:
    """A delete that a list showed: it carries the version and the state that were delivered last."""
    return replace(last, id=f"{last.uid}/{last.resource_version}/deleted", op="deleted", evidence="relisted",
                   sequence=last.sequence + 1)  # fmt: skip


def test_a_sink_that_received_everything_has_lost_nothing() -> None:
    verdict = judge(STREAM, HAPPENED, "log")

    assert (verdict.versions, verdict.delivered, verdict.duplicates) == (6, 6, 0)
    assert (verdict.relisted, verdict.skipped) == (0, 0)


def test_records_delivered_again_count_as_duplicates() -> None:
    assert judge([*STREAM[:4], *STREAM[2:]], HAPPENED, "log").duplicates == 2


@pytest.mark.parametrize("missing", range(6))
def test_no_version_may_be_missing(missing: int) -> None:
    with pytest.raises(AssertionError, match=r"lost|impossible"):
        judge([*STREAM[:missing], *STREAM[missing + 1 :]], HAPPENED, "log")


def test_an_unseen_step_is_excused_by_the_list_that_says_so() -> None:
    stream = [*STREAM[:2], *found_in_a_list(STREAM[3]), *STREAM[4:]]

    verdict = judge(stream, HAPPENED, "log")

    assert (verdict.relisted, verdict.skipped) == (1, 1)


def test_a_delete_and_a_recreation_may_be_found_in_a_list() -> None:
    stream = [*STREAM[:3], found_deleted(STREAM[2]), *found_in_a_list(replace(STREAM[5], sequence=9))]

    assert judge(stream, HAPPENED, "log").skipped == 1


def test_an_object_changed_before_any_look_is_added_as_it_is() -> None:
    first = replace(STREAM[3], op="added", id="u/4/added", evidence="listed")

    assert judge([STREAM[1], first, *STREAM[4:]], HAPPENED, "log").skipped == 2


def test_what_came_and_went_unseen_is_lost_to_nobody() -> None:
    assert judge([STREAM[1], STREAM[5]], HAPPENED, "log").skipped == 4


SWAPPED = [STREAM[0], STREAM[1], STREAM[3], STREAM[2], *STREAM[4:]]
LEFT_OUT_AGAIN = [*STREAM, STREAM[2], STREAM[4], STREAM[5]]
CHANGED_AGAIN = [*STREAM[:3], replace(STREAM[2], data=STREAM[3].data), *STREAM[3:]]
NUMBERED_AGAIN = [*STREAM[:3], replace(STREAM[2], sequence=30), *STREAM[3:]]
ADDED_TWICE = [STREAM[0], STREAM[1], replace(STREAM[2], op="added", id="u/3/added", evidence="listed"), *STREAM[3:]]
UNTRUE = [*STREAM[:3], replace(STREAM[3], data={**STREAM[3].data, "data": {"at": "9"}}), *STREAM[4:]]
INVENTED = [*STREAM, replace(STREAM[5], resource_version="7", op="updated", id="v/7/updated", sequence=7)]
NEVER_DELETED = [*STREAM[:4], STREAM[5]]
DELETED_AS_IT_NEVER_WAS = [
    *STREAM[:3], replace(found_deleted(STREAM[2]), data=STREAM[0].data), replace(STREAM[5], sequence=9)
]  # fmt: skip


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        pytest.param(SWAPPED, "out of order", id="swapped"),
        pytest.param(LEFT_OUT_AGAIN, "left out when delivered again", id="left out when delivered again"),
        pytest.param(CHANGED_AGAIN, "delivered again and changed", id="changed when delivered again"),
        pytest.param(NUMBERED_AGAIN, "delivered again and changed", id="delivered again under another number"),
        pytest.param(ADDED_TWICE, "impossible", id="added twice"),
        pytest.param(UNTRUE, "1 different", id="untrue"),
        pytest.param(INVENTED, "1 never happened", id="invented"),
        pytest.param(NEVER_DELETED, "impossible", id="never deleted"),
        pytest.param(DELETED_AS_IT_NEVER_WAS, "deleted without last state", id="deleted as it never was"),
        pytest.param([*STREAM[:5]], "1 lost", id="the end is missing"),
    ],
)
def test_no_stream_is_excused_that_would_mislead_a_consumer(stream: list[Received], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        judge(stream, HAPPENED, "log")


def test_sinks_that_received_different_records_are_found() -> None:
    judge_all({"log": STREAM, "copy": [*STREAM, *STREAM]}, HAPPENED)
    renumbered = [replace(received, sequence=received.sequence + 1) for received in STREAM]

    with pytest.raises(AssertionError, match="copy and log did not receive the same"):
        judge_all({"log": STREAM, "copy": renumbered}, HAPPENED)


def test_states_of_the_store_become_the_expected_records() -> None:
    metadata = {"name": "a", "namespace": "shop", "uid": "u", "managedFields": [{}]}
    stored = as_stored({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata})
    event = gateway_event(7, create_revision="7", value=stored)

    added = happened("deployments/shop/a", event)
    updated = happened("deployments/shop/a", gateway_event(8, create_revision="7", value=stored))
    deleted = happened("deployments/shop/a", {"type": "DELETE", **gateway_event(9), "prev_kv": {"value": stored}})

    assert [each.version for each in (added, updated, deleted)] == [("u", "7", "added"), ("u", "8", "updated"),
                                                                    ("u", "9", "deleted")]  # fmt: skip
    assert added.subject == "/apis/apps/v1/namespaces/shop/deployments/a"
    assert deleted.data["metadata"] == {"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "9"}


def test_a_store_that_cannot_be_read_is_no_empty_history() -> None:
    with pytest.raises(AssertionError, match="storage-media-type"):
        happened("pods/shop/a", gateway_event(7, value=base64.b64encode(b"k8s\0...").decode()))


def as_stored(thing: Any) -> str:
    return base64.b64encode(json.dumps(thing).encode()).decode()


def gateway_event(revision: int, **fields: str) -> dict[str, Any]:
    return {"kv": {"mod_revision": str(revision), **fields}}
