from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.election.lease import (
    FRONTIER,
    LAST_TERM,
    MOST_FRONTIER,
    TERM,
    LeaseHolder,
    MalformedLease,
    created,
    fits,
    lease_of,
    released,
    renewed,
    taken,
)

NOW = datetime(2026, 11, 23, 9, 30, 0, 5, tzinfo=UTC)
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
    made = json.loads(created(CLAIM, "apps", "kubedelta", "f", NOW))

    assert made == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "apps", "name": "kubedelta", "annotations": {TERM: "7", FRONTIER: "f"}},
        "spec": {
            "holderIdentity": "pod-0_f00d",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-11-23T09:30:00.000005Z",
            "renewTime": "2026-11-23T09:30:00.000005Z",
            "leaseTransitions": 0,
        },
    }


def test_taking_keeps_the_frontier_and_unknown_members() -> None:
    before = lease_of(
        body(
            {"holderIdentity": "pod-1_cafe", "leaseDurationSeconds": 30, "leaseTransitions": 4, "strategy": "OldestE"},
            {TERM: "6", FRONTIER: "far", "team": "blue"},
            labels={"app": "kubedelta"},
            managedFields=[{"manager": "kubedelta"}],
        )
    )

    made = json.loads(taken(before, CLAIM, NOW))

    assert made["metadata"] == {
        "name": "kubedelta",
        "namespace": "apps",
        "resourceVersion": "41",
        "labels": {"app": "kubedelta"},
        "annotations": {TERM: "7", FRONTIER: "far", "team": "blue"},
    }
    assert (made["spec"]["leaseTransitions"], made["spec"]["strategy"]) == (5, "OldestE")


def test_a_release_has_no_holder_and_the_last_frontier() -> None:
    made = json.loads(released(lease_of(body(annotations={TERM: "9" * 16})), 7, "last", NOW))

    assert (made["spec"]["holderIdentity"], made["spec"]["leaseDurationSeconds"]) == (None, 1)
    assert made["metadata"]["annotations"] == {TERM: "7", FRONTIER: "last"}


@given(st.timedeltas(timedelta(days=-400), timedelta(days=400)))
def test_each_renewal_is_a_change(step: timedelta) -> None:
    """Also where the wall clock was set back: watchers see only that."""
    lease = lease_of(renewed(lease_of(body()), 7, "", NOW))

    again = lease_of(renewed(lease, 7, "", NOW + step))

    assert again.renewed > lease.renewed
    assert again.record != lease.record


@pytest.mark.parametrize("renew", ["", "yesterday", "2026-11-23T09:30:00", "9999-12-31T23:59:59.999999Z"])
def test_any_renew_time_before_can_be_renewed(renew: str) -> None:
    lease = lease_of(body({"holderIdentity": "x", "renewTime": renew}))

    assert lease_of(renewed(lease, 7, "", NOW)).renewed == "2026-11-23T09:30:00.000005Z"


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


def test_a_frontier_beyond_the_bound_does_not_count() -> None:
    assert lease_of(body(annotations={FRONTIER: "x" * MOST_FRONTIER})).frontier == "x" * MOST_FRONTIER
    assert lease_of(body(annotations={FRONTIER: "x" * (MOST_FRONTIER + 1)})).frontier == ""
    assert not fits("ä" * (MOST_FRONTIER // 2 + 1))


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
