"""Change data capture: before, after, and the patch between them."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import pytest

from bridge.model.change import Evidence, Op
from bridge.model.formats.cloudevent import CloudEvents, HeaderNames
from bridge.model.formats.content import DIFFERENCES, Include
from bridge.model.formats.envelope import Envelopes
from bridge.model.record import Delta, Gap, Snapshot, SnapshotEdge
from bridge.views.differences import MOST_COMPARED
from tests.kit.content import with_content
from tests.kit.records import DEPLOYMENTS, a_delta, a_gap, a_snapshot

HEADERS = HeaderNames.prefixed("ce_", datacontenttype="content-type")
BEFORE = b'{"spec":{"replicas":1,"paused":true},"status":{}}'
AFTER = b'{"spec":{"replicas":2},"status":{}}'


def read(delta: Delta, *include: Include) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(Envelopes("prod", include=include)(with_content(delta, include=include)))
    return decoded


def test_an_update_has_the_object_after_it_and_its_source() -> None:
    delta = a_delta(12, resource=DEPLOYMENTS, key="shop/web", uid="u-1", body=AFTER, before=BEFORE)

    assert read(delta) == {
        "op": "u",
        "before": None,
        "after": json.loads(AFTER),
        "source": {
            "version": version("kubedelta"),
            "connector": "kubedelta",
            "name": "prod",
            "ts_ms": 1795251600123,
            "snapshot": "false",
            "db": "prod",
            "sequence": "12",
            "schema": "apps",
            "table": "deployments",
            "apiversion": "apps/v1",
            "kind": "Deployment",
            "namespace": "shop",
            "objectname": "web",
            "uid": "u-1",
            "resourceversion": "1012",
            "id": "u-1/1012/updated",
            "evidence": "watched",
            "epoch": 1,
        },
        "ts_ms": 1795251600123,
    }


def test_members_are_there_when_they_are_asked_for() -> None:
    delta = a_delta(body=AFTER, before=BEFORE)
    differences = {
        "patch": {"spec": {"replicas": 2, "paused": None}},
        "json_patch": [
            {"op": "replace", "path": "/spec/replicas", "value": 2},
            {"op": "remove", "path": "/spec/paused"},
        ],
        "changed": ["spec.replicas", "spec.paused"],
    }

    assert read(delta, Include.BEFORE)["before"] == json.loads(BEFORE)
    assert not read(delta, Include.BEFORE).keys() & differences.keys()
    assert read(delta, Include.PATCH)["before"] is None
    assert read(delta, *Include).items() >= differences.items()


@pytest.mark.parametrize(("op", "last"), [(Op.UPDATED, None), (Op.DELETED, BEFORE), (Op.ADDED, None)])
def test_without_an_earlier_state_differences_are_null(op: Op, last: bytes | None) -> None:
    envelope = read(a_delta(op=op, body=AFTER, before=last), *Include)

    assert [envelope[each] for each in ("patch", "json_patch", "changed")] == [None, None, None]
    assert envelope["before"] == (json.loads(AFTER) if op is Op.DELETED else None)


def test_a_delete_has_its_last_state_before_and_null_after() -> None:
    envelope = read(a_delta(op=Op.DELETED, body=AFTER))

    assert envelope["op"] == "d"
    assert (envelope["before"], envelope["after"]) == (json.loads(AFTER), None)


@pytest.mark.parametrize(
    ("op", "evidence", "letter"),
    [
        (Op.ADDED, Evidence.WATCHED, "c"),
        (Op.ADDED, Evidence.RELISTED, "c"),
        (Op.ADDED, Evidence.LISTED, "c"),
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


DEEP = b'{"a":' * 492 + b"%d" + b"}" * 492


@pytest.mark.parametrize(
    "before", [b"{", b'{"a":"\xff"}', b"[" * 100_000, b'{"a":1e400}', b'"%s"' % (b"x" * MOST_COMPARED)]
)
def test_states_that_cannot_be_compared_differ_as_a_whole(before: bytes) -> None:
    envelope = read(a_delta(body=AFTER, before=before), *DIFFERENCES)

    assert envelope["patch"] is None
    assert envelope["json_patch"] == [{"op": "replace", "path": "", "value": json.loads(AFTER)}]
    assert envelope["changed"] == ["*"]


def test_the_deepest_object_has_its_differences() -> None:
    envelope = read(a_delta(body=DEEP % 2, before=DEEP % 1), *DIFFERENCES)

    assert envelope["changed"] == [".".join("a" * 32)]
