"""Change data capture: before, after, and the patch between them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.change import Evidence, Op
from bridge.model.formats.cloudevent import CloudEvents, HeaderNames
from bridge.model.formats.envelope import Envelopes, merge_patch
from bridge.model.record import Delta, Gap, Snapshot, SnapshotEdge
from tests.kit.records import DEPLOYMENTS, a_delta, a_gap, a_snapshot

HEADERS = HeaderNames.prefixed("ce_", datacontenttype="content-type")
BEFORE = b'{"spec":{"replicas":1,"paused":true},"status":{}}'
AFTER = b'{"spec":{"replicas":2},"status":{}}'


def read(delta: Delta, *, before: bool = False, patch: bool = False) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(Envelopes("prod", before=before, patch=patch)(delta))
    return decoded


def test_an_update_has_the_object_after_it_and_its_source() -> None:
    delta = a_delta(12, resource=DEPLOYMENTS, key="shop/web", uid="u-1", body=AFTER, before=BEFORE)

    assert read(delta) == {
        "op": "u",
        "before": None,
        "after": json.loads(AFTER),
        "source": {
            "cluster": "prod",
            "group": "apps",
            "version": "v1",
            "resource": "deployments",
            "kind": "Deployment",
            "namespace": "shop",
            "name": "web",
            "id": "u-1/1012/updated",
            "uid": "u-1",
            "resourceversion": "1012",
            "sequence": 12,
            "evidence": "watched",
            "epoch": 1,
            "snapshot": "false",
        },
        "ts_ms": 1795251600123,
    }


def test_before_and_patch_are_there_when_asked_for() -> None:
    delta = a_delta(body=AFTER, before=BEFORE)

    assert read(delta, before=True)["before"] == json.loads(BEFORE)
    assert "patch" not in read(delta, before=True)
    assert read(delta, patch=True)["before"] is None
    assert read(delta, patch=True)["patch"] == {"spec": {"replicas": 2, "paused": None}}


def test_without_an_earlier_state_before_and_patch_are_null() -> None:
    envelope = read(a_delta(body=AFTER), before=True, patch=True)

    assert (envelope["before"], envelope["patch"]) == (None, None)


def test_a_delete_has_its_last_state_before_and_null_after() -> None:
    envelope = read(a_delta(op=Op.DELETED, body=AFTER), patch=True)

    assert envelope["op"] == "d"
    assert (envelope["before"], envelope["after"], envelope["patch"]) == (json.loads(AFTER), None, None)


@pytest.mark.parametrize(
    ("op", "evidence", "letter"),
    [
        (Op.ADDED, Evidence.WATCHED, "c"),
        (Op.ADDED, Evidence.RELISTED, "c"),
        (Op.ADDED, Evidence.LISTED, "r"),
        (Op.SYNC, Evidence.WATCHED, "r"),
        (Op.UPDATED, Evidence.RELISTED, "u"),
        (Op.DELETED, Evidence.WATCHED, "d"),
    ],
)
def test_operations_have_the_letters_of_debezium(op: Op, evidence: Evidence, letter: str) -> None:
    assert read(a_delta(op=op, evidence=evidence))["op"] == letter


@pytest.mark.parametrize("last", [False, True])
def test_a_snapshots_record_is_a_read_and_marks_the_last(last: bool) -> None:
    envelope = read(a_delta(op=Op.ADDED, snapshot="snapshot/audit/9", last_of_snapshot=last))

    assert (envelope["op"], envelope["source"]["snapshot"]) == ("r", "last" if last else "true")


@pytest.mark.parametrize("notice", [a_gap(), *(a_snapshot(edge) for edge in SnapshotEdge)])
def test_a_notice_is_no_envelope_of_an_unknown_operation(notice: Gap | Snapshot) -> None:
    enveloped, plain = CloudEvents("prod", Envelopes("prod")), CloudEvents("prod")

    assert enveloped.data(notice) == plain.data(notice)
    assert enveloped.attributes(notice) == plain.attributes(notice)
    assert "op" not in json.loads(plain.data(notice))


def test_envelopes_behind_a_gap_name_it_in_source_and_headers() -> None:
    events = CloudEvents("prod", Envelopes("prod"))
    before = json.loads(events.data(a_delta()))["source"], events.headers(a_delta(), HEADERS)
    events.note_gap("gap/5/9")
    source, headers = json.loads(events.data(a_delta()))["source"], events.headers(a_delta(), HEADERS)

    assert source == before[0] | {"gap": "gap/5/9"}
    assert headers == before[1] | {"kubedelta-gap": b"gap/5/9"}
    assert events.encoded_headers(a_delta(), HEADERS)["kubedelta-gap"] == "gap/5/9"


@pytest.mark.parametrize("damage", [b"{", b'{"a":"\xff"}', b"[" * 100_000])
def test_an_earlier_state_that_allows_no_patch_is_a_value_error(damage: bytes) -> None:
    with pytest.raises(ValueError, match="no patch can be made of this"):
        read(a_delta(body=AFTER, before=damage), patch=True)


SCALARS = st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
NAMES = st.text("abé", max_size=2)
"""Few, so that two objects share some."""
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def applied(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, word by word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_applied_to_before_gives_after(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert json.dumps(applied(before, merge_patch(before, after)), sort_keys=True) == json.dumps(after, sort_keys=True)


@given(OBJECTS)
def test_nothing_changed_is_an_empty_patch(state: dict[str, Any]) -> None:
    assert merge_patch(state, state) == {}
