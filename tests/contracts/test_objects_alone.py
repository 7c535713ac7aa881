"""Formats whose readers expect objects alone: no notice stands among them, and later records name the gap."""

from __future__ import annotations

import json

import pytest

from bridge.model.change import Op
from bridge.model.record import Delta, Record
from tests.contracts.conftest import EVERY, OVER_A_NETWORK
from tests.contracts.destinations import CLUSTER, AFile, AnEndpoint, Destination
from tests.contracts.rules import Results, attributes_of, deliver_all
from tests.kit.records import CLUSTER_ROLES, DEPLOYMENTS, a_delta, a_gap, a_snapshot

STREAM: list[Record] = [
    a_delta(1, op=Op.ADDED, body='{"a":"\u2028"}'.encode()),
    a_delta(2, op=Op.UPDATED, body=b'{"a":2}', before=b'{"a":1}'),
    a_delta(3, op=Op.DELETED, body=b'{"a":2}'),
    a_gap(4, 9),
    a_snapshot(through=9),
    a_delta(10, resource=DEPLOYMENTS, key="shop/web", body=b'{"a":3}', snapshot="snapshot/audit/9"),
    a_delta(11, resource=CLUSTER_ROLES, key="system:node", epoch=2, body=b"{}"),
]
DELTAS = [record for record in STREAM if isinstance(record, Delta)]


def row_of(delta: Delta, gap: str | None) -> dict[str, object]:
    """As docs/events.md has it, made without the code that makes it."""
    namespace, _, name = delta.key.rpartition("/")
    return {
        "cluster": CLUSTER,
        "group": delta.resource.group,
        "version": delta.resource.version,
        "resource": delta.resource.plural,
        "kind": delta.resource.kind,
        "namespace": namespace,
        "name": name,
        "uid": delta.uid,
        "resource_version": delta.resource_version,
        "op": delta.op.value,
        "deleted": int(delta.op is Op.DELETED),
        "evidence": delta.evidence.value,
        "time": delta.time,
        "epoch": delta.epoch,
        "sequence": str(delta.sequence),
        "snapshot": delta.snapshot,
        "gap": gap,
        "id": delta.id,
        "object": json.loads(delta.body),
    }


@pytest.mark.parametrize("kind", OVER_A_NETWORK, indirect=True)
@pytest.mark.parametrize("form", ["row", "raw"])
async def test_every_object_is_there_with_its_attributes(destination: Destination, form: str) -> None:
    alone = {"batch": 1} if destination.kind == "webhook" else {}
    options = {**destination.objects_alone, "format": form, **alone}
    results = Results()
    async with destination.opened(**options) as sink:
        await deliver_all(sink, STREAM, 1, results)
    stored = await destination.stored()
    found = {each.id: each for each in stored if "op" in each.attributes}

    assert results.stored == {record.id for record in STREAM}, "a notice without a place counts as stored"
    assert found.keys() == {delta.id for delta in DELTAS}
    gaps = [None, None, None, "gap/4/9", "gap/4/9"]
    for delta, gap in zip(DELTAS, gaps, strict=True):
        wanted = attributes_of(delta)
        assert found[delta.id].attributes == wanted | {"type": wanted["type"].replace("object", _named(form))}
        if form == "raw":
            assert found[delta.id].body == delta.body
        else:
            assert json.loads(found[delta.id].body) == row_of(delta, gap)
    if destination.kind == "nats":
        assert {each.where for each in stored if each.id not in found} == {"._.notice._._"}
    else:
        assert len(stored) == len(found), "a topic of objects and an endpoint get no notices"


@pytest.mark.parametrize("kind", ["webhook-batches"], indirect=True)
async def test_a_batch_of_rows_is_an_array_and_names_the_gap(destination: Destination) -> None:
    assert isinstance(destination, AnEndpoint)
    async with destination.opened(format="row") as sink:
        await deliver_all(sink, [a_gap(4, 9)], 1)
        await deliver_all(sink, DELTAS, len(DELTAS))
    [posted] = destination.receiver.accepted

    destination.schemas.check(posted.content)
    assert posted.headers["content-type"] == "application/json"
    assert posted.headers["kubedelta-gap"] == "gap/4/9"
    assert json.loads(posted.content) == [row_of(delta, "gap/4/9") for delta in DELTAS]


@pytest.mark.parametrize("kind", EVERY[-1:], indirect=True)
@pytest.mark.parametrize("form", ["row", "raw"])
async def test_lines_of_a_file_are_objects_alone(destination: Destination, form: str) -> None:
    assert isinstance(destination, AFile)
    async with destination.opened(format=form) as sink:
        await deliver_all(sink, STREAM, 1)
    texts = destination.path.read_bytes().splitlines()
    lines = [json.loads(line) for line in texts]

    for text in texts:
        destination.schemas.check(text)
    gaps = [None, None, None, "gap/4/9", "gap/4/9"]
    if form == "row":
        assert lines == [row_of(delta, gap) for delta, gap in zip(DELTAS, gaps, strict=True)]
    else:
        assert lines == [json.loads(delta.body) for delta in DELTAS]


def _named(form: str) -> str:
    return "object" if form == "raw" else form
