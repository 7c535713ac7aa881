"""The examination that every sink passes, against the real thing: what is said of a record is so."""

from __future__ import annotations

import json
import random
from itertools import accumulate, cycle, pairwise

import pytest
from msgspec.structs import replace

from bridge.model.change import Evidence, Op
from bridge.model.record import Delta, Record, SnapshotEdge, SnapshotScope
from bridge.model.resource import Resource
from tests.contracts.conftest import AT_MOST_ONCE, EVERY
from tests.contracts.destinations import Destination
from tests.contracts.rules import Results, assert_holds, assert_same, deliver, deliver_all
from tests.kit.records import CLUSTER_ROLES, DEPLOYMENTS, NODES, PODS, a_delta, a_gap, a_snapshot, changes

pytestmark = pytest.mark.parametrize("kind", [*EVERY, AT_MOST_ONCE], indirect=True)

CERTIFICATES = Resource("cert-manager.io", "v1alpha2", "certificates", "Certificate", True)

ODD_NAMES = [
    "system:node:a.b", "a.b", "a_b", "a=2Eb", "a-b", "A-B", "_", "=", "*", ">", "a*", "a>b", "...", "-",
    'say "hi"', "a'b", "back\\slash", "{name}", "{}", "%", "%41", "a b", "tab\there", "line\nbreak", "line\r\nbreak",
    "\x85", "\u2028", "ä", "日本", "😀", "\x7f", "?a=b&c#d", "x" * 253,
]  # fmt: skip
"""What the names of a cluster role may be: anything without a slash, but for . and ..; here even percent signs."""

ODD_BODIES = [
    b"{}",
    '{"a":"\x85\u2028\u2029 \\u2028 \\u0000 \\"quoted\\" \\\\ / \\/ 😀 \\ud83d\\ude00"}'.encode(),
    b'{"big":123456789012345678901234567890,"exact":1.10,"exponent":1E400,"zero":-0.0}',
    b'{"same":1,"same":2}',
    b'{"space" : [ 1 ,\t2 ] }',
    b'{"data":{"data":"data"},"id":"not the id"}',
    b'{"long":"' + b"x" * 200_000 + b'"}',
]


def a_role(sequence: int, name: str) -> Delta:
    body = json.dumps({"metadata": {"name": name}}, ensure_ascii=False).encode()
    return a_delta(sequence, resource=CLUSTER_ROLES, key=name, body=body)


def varied() -> list[Record]:
    """One record of every sort there is."""
    records: list[Record] = []

    def add(**settings: object) -> None:
        records.append(a_delta(len(records) + 1, **settings))  # type: ignore[arg-type]

    for op in Op:
        for evidence in Evidence:
            add(op=op, evidence=evidence)
    for resource, key in ((DEPLOYMENTS, "shop/web"), (CERTIFICATES, "shop/a.b"), (NODES, "node-1"), (PODS, "web/shop")):
        add(resource=resource, key=key)
    for name in ODD_NAMES:
        records.append(a_role(len(records) + 1, name))
    for body in ODD_BODIES:
        add(body=body)
    add(epoch=2)
    add(epoch=3)
    add(snapshot="snapshot/mine/9")
    add(snapshot="snapshot/mine/9", last_of_snapshot=True)
    once_more = a_delta(len(records) + 1, op=Op.SYNC, snapshot="snapshot/mine/9/4")
    records.append(replace(once_more, replay=4))
    records.append(a_gap(len(records) + 1, len(records) + 10))
    records.extend(a_snapshot(edge, through=records[-1].sequence) for edge in SnapshotEdge)
    return records


async def test_acknowledged_records_are_there_at_once_as_sent(destination: Destination) -> None:
    sent = varied()
    async with destination.opened_patiently() as sink:
        results = await deliver_all(sink, sent, destination.max_batch)
        found = await destination.stored()

    assert results == Results(stored={record.id for record in sent}, deliveries=1)
    assert_holds(found, sent, results.stored)
    assert len(found) == len(sent)


async def test_no_two_objects_are_taken_for_one(destination: Destination) -> None:
    sent = [a_role(n, name) for n, name in enumerate(ODD_NAMES, 1)]
    async with destination.opened() as sink:
        await deliver_all(sink, sent, len(sent))

    found = await destination.stored()
    assert len({each.key for each in found}) == len(ODD_NAMES)
    if destination.kind == "nats":
        assert len({each.where for each in found}) == len(ODD_NAMES)


async def test_a_gap_is_reported_in_words_of_its_own(destination: Destination) -> None:
    async with destination.opened() as sink:
        await deliver_all(sink, [a_gap(5, 9)], 1)
        (found,) = await destination.stored()

    assert_same(found, a_gap(5, 9))
    assert found.attributes["type"] == "kubedelta.gap.v1"
    reason = "the outbox was full"
    assert json.loads(found.body) == {"first": 5, "last": 9, "count": 5, "reason": reason, "resources": None}


async def test_a_snapshots_edges_are_reported_in_words_of_their_own(destination: Destination) -> None:
    some = SnapshotScope("deployments.apps", where="object.spec.replicas > 1")
    edges = [
        a_snapshot(SnapshotEdge.BEGAN, 9, 4),
        a_snapshot(SnapshotEdge.ENDED, 9, 4),
        replace(a_snapshot(SnapshotEdge.ENDED, 9, 2), number=3, only=some),
        replace(a_snapshot(SnapshotEdge.CANCELLED, 9, 2), number=4),
    ]
    async with destination.opened() as sink:
        await deliver_all(sink, edges, 1)
        found = await destination.stored()

    assert [each.attributes["type"] for each in found] == [
        "kubedelta.snapshot.began.v1",
        "kubedelta.snapshot.ended.v1",
        "kubedelta.snapshot.ended.v1",
        "kubedelta.snapshot.cancelled.v1",
    ]
    results = {"sink": "audit", "through": 9, "count": 4}
    only = {"resource": "deployments.apps", "where": "object.spec.replicas > 1"}
    assert [json.loads(each.body) for each in found] == [
        results,
        results | {"objects": 4},
        {"sink": "audit", "through": 9, "count": 2, "objects": 2, "only": only},
        {"sink": "audit", "through": 9, "count": 2, "objects": 2},
    ]


async def test_what_has_the_id_of_an_earlier_epoch_is_no_repetition(destination: Destination) -> None:
    sent = [a_delta(1), a_delta(1, epoch=2)]
    async with destination.opened() as sink:
        for record in sent:
            await deliver_all(sink, [record], 1)
        found = await destination.stored()

    assert [(each.id, each.attributes["source"]) for each in found] == [
        (sent[0].id, "/clusters/prod-eu1"),
        (sent[0].id, "/clusters/prod-eu1/epochs/2"),
    ]


async def test_order_is_kept_over_many_batches_of_any_size(destination: Destination) -> None:
    sent = changes(1500, keys=11)
    sizes = cycle([1, 2, 3, 50, 7, 100, 31, 1])
    bounds = [0, *(end for end, _ in zip(accumulate(sizes), range(60), strict=False) if end < len(sent)), len(sent)]
    results = Results()
    async with destination.opened_patiently() as sink:
        for start, end in pairwise(bounds):
            assert await deliver(sink, sent[start:end], results) == []
    found = await destination.stored()

    assert_holds(found, sent, results.stored)
    assert len(found) == len(sent) == len(results.stored)


async def test_close_right_after_the_last_receipt_loses_nothing(destination: Destination) -> None:
    sent = changes(destination.max_batch)
    async with destination.opened() as sink:
        left = await deliver(sink, sent)
    found = await destination.stored()

    assert not left
    assert [each.id for each in sorted(found, key=lambda each: each.attributes["sequence"])] == [
        record.id for record in sent
    ]


async def test_more_than_any_queue_holds_goes_through(destination: Destination) -> None:
    noise = random.Random(1).randbytes(450_000).hex().encode()
    count = 42 if destination.kind in ("kafka", "nats") else 14  # The others have no queue.
    sent = [a_delta(n, key=f"shop/web-{n % 5}", body=b'{"noise":"%s%d"}' % (noise, n)) for n in range(1, count + 1)]
    results = Results()
    async with destination.opened_patiently() as sink:
        await deliver_all(sink, sent, len(sent), results)
    found = await destination.stored()

    assert results.stored == {record.id for record in sent}
    assert_holds(found, sent, results.stored)
    assert len(found) == len(sent)
