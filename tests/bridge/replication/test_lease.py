from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.replication.lease import (
    LAST_TERM,
    PUBLISHED,
    TERM,
    LeaseHolder,
    MalformedLease,
    Published,
    created,
    lease_of,
    released,
    renewed,
    taken,
)

NOW = datetime(2026, 11, 23, 9, 30, 0, 5, tzinfo=UTC)
SAID = Published(leader="pod-0_f00d", term=7, address="10.0.0.1:8083", fingerprint="ab", in_sync=("pod-1_cafe",))
TEXT = msgspec.json.encode(SAID).decode()
CLAIM = LeaseHolder(holder="pod-0_f00d", seconds=15.0, term=7)


def body(spec: Any = None, annotations: Any = None, **metadata: Any) -> bytes:
    whole: dict[str, Any] = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kubedelta", "namespace": "apps", "resourceVersion": "41", **metadata},
        "spec": {"holderIdentity": "pod-1_cafe", "leaseDurationSeconds": 15} if spec is None else spec,
    }
    if annotations is not None:
        whole["metadata"]["annotations"] = annotations
    return json.dumps(whole).encode()


def test_a_new_lease_is_a_whole_object() -> None:
    made = json.loads(created(CLAIM, "apps", "kubedelta", SAID, NOW))

    assert made == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "apps", "name": "kubedelta", "annotations": {TERM: "7", PUBLISHED: TEXT}},
        "spec": {
            "holderIdentity": "pod-0_f00d",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-11-23T09:30:00.000005Z",
            "renewTime": "2026-11-23T09:30:00.000005Z",
            "leaseTransitions": 0,
        },
    }


def test_taking_keeps_what_was_published_and_unknown_members() -> None:
    before = lease_of(
        body(
            {"holderIdentity": "pod-1_cafe", "leaseDurationSeconds": 30, "leaseTransitions": 4, "strategy": "OldestE"},
            {TERM: "6", PUBLISHED: TEXT, "team": "blue"},
            labels={"app": "kubedelta"},
            managedFields=[{"manager": "kubedelta"}],
        )
    )

    made = json.loads(taken(before, CLAIM, NOW, clean=True))

    assert made["metadata"] == {
        "name": "kubedelta",
        "namespace": "apps",
        "resourceVersion": "41",
        "labels": {"app": "kubedelta"},
        "annotations": {TERM: "7", PUBLISHED: TEXT, "team": "blue"},
    }
    assert (made["spec"]["leaseTransitions"], made["spec"]["strategy"]) == (5, "OldestE")


def test_a_release_has_no_holder_and_the_last_publication() -> None:
    made = json.loads(released(lease_of(body(annotations={TERM: "9" * 16})), 7, SAID, NOW))

    assert (made["spec"]["holderIdentity"], made["spec"]["leaseDurationSeconds"]) == (None, 1)
    assert made["metadata"]["annotations"] == {TERM: "7", PUBLISHED: TEXT}


@given(st.timedeltas(timedelta(days=-400), timedelta(days=400)))
def test_each_renewal_is_a_change(step: timedelta) -> None:
    """Also where the wall clock was set back: watchers see only that."""
    lease = lease_of(renewed(lease_of(body()), 7, None, NOW))

    again = lease_of(renewed(lease, 7, None, NOW + step))

    assert again.renewed > lease.renewed
    assert again.record != lease.record


@pytest.mark.parametrize("renew", ["", "yesterday", "2026-11-23T09:30:00", "9999-12-31T23:59:59.999999Z"])
def test_any_renew_time_before_can_be_renewed(renew: str) -> None:
    lease = lease_of(body({"holderIdentity": "x", "renewTime": renew}))

    assert lease_of(renewed(lease, 7, None, NOW)).renewed == "2026-11-23T09:30:00.000005Z"


def test_labels_and_other_annotations_are_no_renewal() -> None:
    assert lease_of(body(annotations={"team": "red"}, labels={"a": "b"})).record == lease_of(body()).record


def test_a_lease_without_a_holder_is_free() -> None:
    for spec in ({}, {"holderIdentity": None}, {"holderIdentity": ""}):
        assert lease_of(body(spec)).holder == ""


@pytest.mark.parametrize(("seconds", "counted"), [(None, 1.0), (0, 1.0), (-5, 1.0), (15, 15.0), (2**31 - 1, 3600.0)])
def test_a_duration_is_bounded(seconds: int | None, counted: float) -> None:
    assert lease_of(body({"holderIdentity": "x", "leaseDurationSeconds": seconds})).duration == counted


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("7", 7),
        ("", 0),
        ("-1", 0),
        ("7.5", 0),
        ("٧", 0),
        ("9" * 400, 0),
        ("9" * 16, LAST_TERM),
    ],
)
def test_a_term_of_another_form_does_not_count(text: str, term: int) -> None:
    assert lease_of(body(annotations={TERM: text})).term == term


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "[]",
        '{"leader":5,"term":1}',
        '{"term":1}',
        '{"leader":"a","term":"1"}',
        '{"leader":"' + "a" * 600 + '","term":1}',
        '{"leader":"a","term":1,"in_sync":[' + ",".join(['"b"'] * 65) + "]}",
        '{"leader":"a","term":1,"x":"' + "a" * 17_000 + '"}',
        "[" * 10_000,
        '{"leader":"\\ud800',
    ],
)
def test_a_publication_of_another_form_does_not_count(text: str) -> None:
    assert lease_of(body(annotations={PUBLISHED: text})).published is None


def test_a_publication_comes_back_as_it_was_written() -> None:
    assert lease_of(renewed(lease_of(body()), 7, SAID, NOW)).published == SAID


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"[]",
        b'"\xff"',
        b"[" * 100_000,
        json.dumps({"metadata": {"resourceVersion": "1", "name": "x"}}).encode(),
        body({"holderIdentity": 7}),
        body({"holderIdentity": "x" * 513}),
        body(annotations={TERM: 7}),
        body(annotations={"x": "y" * (1 << 20)}),
    ],
)
def test_another_object_is_no_free_lease(bad: bytes) -> None:
    with pytest.raises(MalformedLease):
        lease_of(bad)
