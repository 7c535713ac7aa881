"""Records to deliver, made without a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.change import Evidence, Op
from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.formats.stored_record import StoredKind, StoredVersion
from bridge.model.record import Delta, Gap, Record, Snapshot, SnapshotEdge
from bridge.model.resource import Resource

PODS = Resource("", "v1", "pods", "Pod", True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
NODES = Resource("", "v1", "nodes", "Node", False)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)

TIME = "2026-11-21T09:00:00.123456Z"


def a_delta(
    sequence: int = 1,
    *,
    resource: Resource = PODS,
    key: str = "shop/web-1",
    op: Op = Op.UPDATED,
    evidence: Evidence = Evidence.WATCHED,
    uid: str | None = None,
    body: bytes | None = None,
    before: bytes | None = None,
    epoch: int = 1,
    snapshot: str | None = None,
    last_of_snapshot: bool = False,
    managers: bytes | None = None,
) -> Delta:
    """One change. The resourceVersion is a thousand more than the sequence, the uid belongs to the key."""
    version = str(1000 + sequence)
    uid = uid if uid is not None else f"uid-of-{key}"
    return Delta(
        sequence=sequence,
        op=op,
        evidence=evidence,
        resource=resource,
        key=key,
        uid=uid,
        resource_version=version,
        time=TIME,
        epoch=epoch,
        body=body if body is not None else a_body(resource, key, uid, version),
        before=before,
        snapshot=snapshot,
        last_of_snapshot=last_of_snapshot,
        managers=managers,
    )


def a_body(resource: Resource, key: str, uid: str, version: str) -> bytes:
    namespace, _, name = key.rpartition("/")
    return (
        f'{{"apiVersion":"{resource.api_version}","kind":"{resource.kind}","metadata":{{"name":"{name}",'
        f'"namespace":"{namespace}","uid":"{uid}","resourceVersion":"{version}"}}}}'
    ).encode()


def ids_of(records: Sequence[Record]) -> list[str]:
    return [record.id for record in records]


def as_stored(records: Sequence[Record]) -> list[StoredVersion]:
    """What a read of the destination gives back of them: deltas and gaps."""
    events = CloudEvents("prod")
    return [
        StoredVersion(StoredKind.OBJECT, events.partition_key(each), each.op, each.uid, each.resource_version)
        if isinstance(each, Delta)
        else StoredVersion(StoredKind.GAP, "prod")
        for each in records
    ]


def a_gap(first: int = 5, last: int = 9) -> Gap:
    return Gap(sequence=last, first=first, count=last - first + 1, reason="the outbox was full", time=TIME)


def a_snapshot(edge: SnapshotEdge = SnapshotEdge.BEGAN, through: int = 9, count: int = 4) -> Snapshot:
    return Snapshot(edge=edge, sequence=through, sink="audit", count=count, time=TIME)


def changes(count: int, *, keys: int = 7, first: int = 1) -> list[Delta]:
    """Changes of a few objects in turn, as a stream has them."""
    return [a_delta(n, key=f"shop/web-{n % keys}") for n in range(first, first + count)]
