"""Flat rows, and what a table makes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.change import Evidence, Op
from bridge.model.formats.cloudevent import CloudEvents, HeaderNames, RawObjects
from bridge.model.formats.content import Include
from bridge.model.formats.row import RowObject, Rows
from bridge.model.record import Delta
from tests.kit.content import with_content
from tests.kit.records import CLUSTER_ROLES, DEPLOYMENTS, a_delta, a_gap

HEADERS = HeaderNames.prefixed("ce_", datacontenttype="content-type")
BODY = b'{"spec":{"replicas":2},"text":"\xe2\x80\xa8"}'


def read(delta: Delta, *include: Include, state: RowObject = RowObject.JSON) -> dict[str, Any]:
    made = with_content(delta, include=include)
    decoded: dict[str, Any] = json.loads(Rows("prod", state=state, include=include)(made))
    return decoded


def test_a_row_has_the_identity_the_change_and_the_state() -> None:
    delta = a_delta(12, resource=DEPLOYMENTS, key="shop/web", uid="u-1", body=BODY, before=b"{}")

    assert read(delta) == {
        "cluster": "prod",
        "group": "apps",
        "version": "v1",
        "resource": "deployments",
        "kind": "Deployment",
        "namespace": "shop",
        "name": "web",
        "uid": "u-1",
        "resource_version": "1012",
        "op": "updated",
        "deleted": 0,
        "evidence": "watched",
        "time": "2026-11-21T09:00:00.123456Z",
        "epoch": 1,
        "sequence": "12",
        "snapshot": None,
        "gap": None,
        "id": "u-1/1012/updated",
        "object": json.loads(BODY),
    }


def test_a_delete_has_its_last_state_and_says_deleted() -> None:
    row = read(a_delta(op=Op.DELETED, evidence=Evidence.RELISTED, body=BODY))

    assert (row["deleted"], row["op"], row["evidence"]) == (1, "deleted", "relisted")
    assert row["object"] == json.loads(BODY)


def test_an_object_without_namespace_has_an_empty_one() -> None:
    row = read(a_delta(resource=CLUSTER_ROLES, key="system:node:a"))

    assert (row["namespace"], row["name"]) == ("", "system:node:a")


def test_the_state_is_an_object_a_text_or_absent() -> None:
    delta = a_delta(body=BODY, before=b"{}")

    assert read(delta, Include.BEFORE, state=RowObject.STRING)["object"] == BODY.decode()
    assert read(delta, Include.BEFORE, state=RowObject.STRING)["before"] == "{}"
    assert read(delta, Include.BEFORE)["before"] == {}
    assert read(a_delta(body=BODY), Include.BEFORE)["before"] is None
    assert not {"object", "before"} & read(delta, Include.BEFORE, state=RowObject.NONE).keys()


def test_differences_are_columns_in_the_form_of_states() -> None:
    delta = a_delta(body=b'{"a":2}', before=b'{"a":1}')
    operations = [{"op": "replace", "path": "/a", "value": 2}]

    row = read(delta, *Include)
    assert (row["patch"], row["json_patch"], row["changed"]) == ({"a": 2}, operations, ["a"])
    text = read(delta, *Include, state=RowObject.STRING)
    assert (text["patch"], json.loads(text["json_patch"]), text["changed"]) == ('{"a":2}', operations, '["a"]')
    without = read(delta, *Include, state=RowObject.NONE)
    assert (without["patch"], without["changed"]) == ({"a": 2}, ["a"])
    assert read(a_delta(body=BODY), *Include)["changed"] is None


def test_a_state_that_is_no_text_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        read(a_delta(body=b'"\xff"'), state=RowObject.STRING)


def test_rows_behind_a_gap_name_it_in_a_column_and_a_header() -> None:
    events = CloudEvents("prod", Rows("prod"))
    events.note_gap("gap/5/9")

    assert json.loads(events.data(a_delta()))["gap"] == "gap/5/9"
    assert events.headers(a_delta(), HEADERS)["kubedelta-gap"] == b"gap/5/9"
    assert events.headers(a_delta(), HEADERS)["ce_type"] == b"kubedelta.row.updated.v1"
    assert events.data(a_gap()) == CloudEvents("prod").data(a_gap())


def test_a_raw_object_is_its_bytes_and_headers_name_the_gap() -> None:
    events = CloudEvents("prod", RawObjects())
    events.note_gap("gap/5/9")

    assert events.data(a_delta(body=BODY)) == BODY
    assert events.headers(a_delta(), HEADERS)["kubedelta-gap"] == b"gap/5/9"
    assert events.headers(a_delta(), HEADERS)["ce_type"] == b"kubedelta.object.updated.v1"


STEPS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([Op.UPDATED, Op.DELETED])), max_size=12)


@given(STEPS, st.randoms(use_true_random=False))
def test_the_largest_sequence_of_an_object_is_its_state(steps: list[tuple[str, Op]], chance: Any) -> None:
    """Whatever the order of arrival and the repetitions: the promise to engines that keep the newest row. A delete that
    a list found has the version of the state before it."""
    deltas = [a_delta(1_795_251_600_000 + n, key=f"shop/{name}", op=op) for n, (name, op) in enumerate(steps)]
    expected = {delta.key: delta.id for delta in deltas if delta.op is not Op.DELETED}
    for delta in deltas:
        expected.pop(delta.key, None)
        if delta.op is not Op.DELETED:
            expected[delta.key] = delta.id
    rows = [read(delta) for delta in deltas] * 2
    chance.shuffle(rows)
    table: dict[str, dict[str, Any]] = {}
    for row in rows:
        key = f"{row['namespace']}/{row['name']}"
        if key not in table or int(row["sequence"]) >= int(table[key]["sequence"]):
            table[key] = row

    assert {key: row["id"] for key, row in table.items() if not row["deleted"]} == expected
