from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from bridge.kube import ClusterAccess, NamedObject, connect
from bridge.model.answers import Announced, Busy, Conflict, EventType, Failed, Opened, Refused, WatchRequest
from bridge.model.resource import Resource
from bridge.playground import StatusError
from tests.kit.playground import Playground

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
NAME = "leases.coordination.k8s.io"


@pytest.fixture
async def cluster() -> AsyncIterator[Playground]:
    async with Playground() as running:
        yield running


@pytest.fixture
async def lease(cluster: Playground) -> AsyncIterator[NamedObject]:
    async with connect(ClusterAccess(server=cluster.url)) as client:
        yield client.named_object(LEASES, "default", "kubedelta")


def body(holder: str, version: str | None = None) -> bytes:
    metadata = {"name": "kubedelta", "namespace": "default"}
    if version is not None:
        metadata["resourceVersion"] = version
    return json.dumps(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
        }
    ).encode()


async def test_an_object_is_created_read_and_updated(lease: NamedObject) -> None:
    missing = await lease.read()
    assert isinstance(missing, Refused)
    assert missing.status == 404
    created = await lease.create(body("a"))
    assert isinstance(created, bytes)
    assert await lease.read() == created
    version = json.loads(created)["metadata"]["resourceVersion"]
    updated = await lease.update(body("b", version))
    assert isinstance(updated, bytes)
    assert json.loads(updated)["spec"]["holderIdentity"] == "b"


async def test_a_write_over_another_version_is_a_conflict(lease: NamedObject) -> None:
    created = await lease.create(body("a"))
    assert isinstance(created, bytes)
    version = json.loads(created)["metadata"]["resourceVersion"]
    assert isinstance(await lease.create(body("b")), Conflict)
    assert isinstance(await lease.update(body("b", version)), bytes)
    assert isinstance(await lease.update(body("c", version)), Conflict)


async def test_an_update_of_a_deleted_object_is_refused(cluster: Playground, lease: NamedObject) -> None:
    created = await lease.create(body("a"))
    assert isinstance(created, bytes)
    cluster.delete(NAME, "kubedelta")
    answer = await lease.update(body("b", json.loads(created)["metadata"]["resourceVersion"]))
    assert isinstance(answer, Refused)
    assert answer.status == 404


async def test_failures_are_answers(cluster: Playground, lease: NamedObject) -> None:
    with cluster.misbehave.fail(StatusError(500, "InternalError", "etcd is away"), NAME):
        assert isinstance(await lease.read(), Failed)
        assert isinstance(await lease.create(body("a")), Failed)
    with cluster.misbehave.fail(StatusError(429, "TooManyRequests", "later", retry_after=1), NAME):
        assert isinstance(await lease.update(body("a", "1")), Busy)
    async with cluster.refusing_connections():
        assert isinstance(await lease.read(), Busy)


async def test_the_watch_shows_this_object_alone(cluster: Playground, lease: NamedObject) -> None:
    created = await lease.create(body("a"))
    assert isinstance(created, bytes)
    version = json.loads(created)["metadata"]["resourceVersion"]
    cluster.create(NAME, {"metadata": {"name": "other"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 1}})
    cluster.patch(NAME, "kubedelta", {"spec": {"holderIdentity": "b"}})
    seen = []
    async with lease.watch(WatchRequest(version=version, timeout=60)) as answers:
        async for answer in answers:
            if isinstance(answer, Opened):
                continue
            assert isinstance(answer, Announced)
            seen += [(kind, each.key) for kind, each in answer.events]
            break
    assert seen == [(EventType.MODIFIED, "default/kubedelta")]
