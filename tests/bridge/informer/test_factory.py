"""One informer for everybody who asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from bridge.informer import NotSyncedInTime, SharedInformerFactory, by_label
from bridge.informer.controller import Transform
from bridge.model.answers import ListerWatcher, Refused, WatchRequest
from bridge.model.change import Change, ChangeBatch
from bridge.model.object import ApiObject
from bridge.model.record import Delta
from bridge.model.resource import Resource, Scope
from bridge.model.versions import Checkpoint, VersionTable
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.informer import InformerStopped
from tests.kit.model_ledger import ModelLedger
from tests.kit.records import NODES, PODS
from tests.kit.simulated_cluster import SimulatedCluster

SHOP = Scope(namespace="shop")


class Clusters:
    """One simulated cluster for each resource and scope that is asked for."""

    def __init__(self) -> None:
        self.by_name: dict[str, SimulatedCluster] = {}
        self.asked: list[tuple[Resource, Scope]] = []

    def __call__(self, resource: Resource, scope: Scope) -> ListerWatcher:
        self.asked.append((resource, scope))
        return self[resource, scope]

    def __getitem__(self, of: tuple[Resource, Scope]) -> SimulatedCluster:
        return self.by_name.setdefault(f"{of[0]} {of[1]}", SimulatedCluster())


@pytest.fixture
def clusters() -> Clusters:
    clusters = Clusters()
    for name in ("db", "web"):
        clusters[PODS, Scope()].put(name)
    clusters[NODES, Scope()].put("node-1")
    return clusters


# ── As a library ─────────────────────────────────────────────────────────────


async def test_a_library_user_lists_by_index_and_gets_events(clusters: Clusters) -> None:
    handled: list[str] = []

    async def hear(changes: Sequence[Change]) -> None:
        handled.extend(f"{change.op} {change.object.name}" for change in changes)

    async with SharedInformerFactory(clusters) as factory:
        pods = factory.informer(PODS)
        registration = pods.handlers.add("mine", hear)
        await factory.start().wait_synced(timeout=30)
        await registration.wait_synced()
        assert [pod.name for pod in pods.lister.by_index("namespace", "shop")] == ["db", "web"]
        clusters[PODS, Scope()].delete("db")
        await asyncio.sleep(1)

    assert handled == ["added db", "added web", "deleted db"]


async def test_a_factory_starts_with_the_indices_it_was_given(clusters: Clusters) -> None:
    async with SharedInformerFactory(clusters, indexers={"tier": by_label("tier")}) as factory:
        pods = factory.informer(PODS)
        await factory.start().wait_synced(timeout=30)

        assert pods.indexer.indices == ("tier",)
        assert len(pods.lister.list("shop")) == 2


# ── Sharing ──────────────────────────────────────────────────────────────────


async def test_a_resource_and_scope_have_one_informer_for_all_versions(clusters: Clusters) -> None:
    deployments = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
    async with SharedInformerFactory(clusters) as factory:
        first = factory.informer(deployments)

        assert factory.informer(deployments, Scope()) is first
        assert factory.informer(replace(deployments, version="v1beta1")) is first
        assert factory.informer(deployments, SHOP) is not first
        assert factory.informer(replace(deployments, group="extensions")) is not first
        assert factory.informers == tuple(dict.fromkeys(factory.informers))
        assert len(clusters.asked) == 3


async def test_starting_again_starts_only_what_was_asked_for_since(clusters: Clusters) -> None:
    async with SharedInformerFactory(clusters) as factory:
        pods = factory.informer(PODS)
        await factory.start().wait_synced(timeout=30)
        nodes = factory.informer(NODES)
        await factory.wait_synced(timeout=30)
        assert not nodes.has_synced

        await factory.start().start().wait_synced(timeout=30)
        assert (pods.has_synced, nodes.has_synced) == (True, True)
        assert len(clusters[PODS, Scope()].requests) == 1


async def test_a_transform_is_chosen_by_resource(clusters: Clusters) -> None:
    def mark(thing: ApiObject) -> ApiObject:
        return ApiObject(thing.key, thing.uid, thing.resource_version, b"marked")

    def transform(resource: Resource, _: Scope) -> Transform | None:
        return mark if resource == PODS else None

    async with SharedInformerFactory(clusters, transform=transform) as factory:
        pods, nodes = factory.informer(PODS), factory.informer(NODES)
        await factory.start().wait_synced(timeout=30)

        assert {pod.body for pod in pods.lister.list()} == {b"marked"}
        assert {node.body for node in nodes.lister.list()} != {b"marked"}


async def test_with_one_outlet_every_informer_delivers_there(clusters: Clusters) -> None:
    batches: list[ChangeBatch] = []

    async def deliver(batch: ChangeBatch) -> None:
        batches.append(batch)

    async with SharedInformerFactory(clusters, deliver=deliver) as factory:
        for resource in (PODS, NODES):
            factory.informer(resource)
        await factory.start().wait_synced(timeout=30)

    assert {batch.resource for batch in batches} == {PODS, NODES}


async def test_only_a_new_informer_starts_from_the_checkpoint(clusters: Clusters) -> None:
    ledger = ModelLedger()

    async def deliver(batch: ChangeBatch) -> list[Delta]:
        return ledger.commit(batch)

    for _ in range(2):
        async with SharedInformerFactory(clusters, deliver=deliver, stored=ledger.stored, indexers={}) as factory:
            pods = factory.informer(PODS, Scope(), ledger.checkpoint())
            await factory.start().wait_synced(timeout=30)
            await asyncio.sleep(1)
            assert factory.informer(PODS, Scope(), Checkpoint(VersionTable(), None, None)) is pods
            assert [pod.name for pod in pods.lister.list("shop")] == ["db", "web"]

    assert ledger.last == 2
    assert [type(request) for request in clusters[PODS, Scope()].requests] == [WatchRequest, WatchRequest]


# ── Waiting ──────────────────────────────────────────────────────────────────


async def test_a_wait_that_times_out_names_the_missing_and_the_reasons(clusters: Clusters) -> None:
    clusters[NODES, Scope()].next_answers.extend([Refused(403, "nodes is forbidden")] * 10)
    clusters[PODS, SHOP].latency = 3600.0
    async with SharedInformerFactory(clusters) as factory:
        factory.informer(PODS)
        factory.informer(NODES)
        factory.informer(PODS, SHOP)
        factory.start()
        factory.informer(NODES, SHOP)
        with pytest.raises(NotSyncedInTime) as raised:
            await factory.wait_synced(timeout=30)

    assert str(raised.value) == (
        "not synced after 30 s: nodes, all (nodes is forbidden); pods, namespace shop (no answer yet)"
    )


async def test_a_resource_that_is_refused_holds_up_nobody_else(clusters: Clusters) -> None:
    clusters[NODES, Scope()].next_answers.extend([Refused(404, "not found")] * 100)
    async with SharedInformerFactory(clusters) as factory:
        pods, nodes = factory.informer(PODS), factory.informer(NODES)
        factory.start()
        await pods.wait_synced()
        await asyncio.sleep(60)

        assert (pods.live, nodes.has_synced, nodes.refused) == (True, False, True)


async def test_waiting_goes_on_for_the_others_when_one_is_retired(clusters: Clusters) -> None:
    clusters[PODS, Scope()].latency = 20.0
    clusters[NODES, Scope()].latency = 40.0
    async with SharedInformerFactory(clusters) as factory:
        pods, nodes = factory.informer(PODS), factory.informer(NODES)
        factory.start()
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(factory.wait_synced(timeout=60))
            await asyncio.sleep(1)
            await factory.remove(nodes)
            await asyncio.sleep(1)
            assert not waiting.done()
        assert pods.has_synced


# ── The end ──────────────────────────────────────────────────────────────────


async def test_a_removed_informer_exports_deletes_and_can_be_recreated(clusters: Clusters) -> None:
    delivered: list[str] = []

    async def deliver(batch: ChangeBatch) -> None:
        delivered.extend(f"{change.op} {change.object.name}" for change in batch.changes)

    async with SharedInformerFactory(clusters, deliver=deliver) as factory:
        pods = factory.informer(PODS)
        await factory.start().wait_synced(timeout=30)
        await factory.remove(pods)
        assert delivered == ["added db", "added web", "deleted db", "deleted web"]
        assert factory.informers == ()

        again = factory.informer(PODS)
        assert again is not pods
        await factory.start().wait_synced(timeout=30)
        assert delivered[4:] == ["added db", "added web"]


async def test_an_informer_that_was_never_started_can_be_retired(clusters: Clusters) -> None:
    async with SharedInformerFactory(clusters) as factory:
        await factory.remove(factory.informer(PODS))

        assert factory.informers == ()


@pytest.mark.parametrize("end", [lambda factory: factory.stop(), lambda _: asyncio.sleep(0)], ids=["stop", "leave"])
async def test_what_was_read_is_delivered_before_the_factory_ends(
    clusters: Clusters, end: Callable[[SharedInformerFactory], object]
) -> None:
    delivered: list[str] = []
    facts: list[Fact] = []

    async def slow(changes: Sequence[Change]) -> None:
        await asyncio.sleep(2)
        delivered.extend(f"{change.op} {change.object.name}" for change in changes)

    async with SharedInformerFactory(clusters, report=facts.append) as factory:
        factory.informer(PODS).handlers.add("slow", slow)
        await factory.start().wait_synced(timeout=30)
        await end(factory)  # type: ignore[misc]

    assert delivered == ["added db", "added web"]
    assert [fact for fact in facts if isinstance(fact, InformerStopped)] == [InformerStopped(PODS, Scope())]


async def test_a_failing_handler_ends_the_factory_and_all_informers(clusters: Clusters) -> None:
    async def broken(_: Sequence[Change]) -> None:
        raise LookupError("a bug in a handler")

    async def use() -> None:
        async with SharedInformerFactory(clusters) as factory:
            factory.informer(NODES)
            factory.informer(PODS).handlers.add("broken", broken)
            await factory.start().wait_synced()
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as raised:
        await use()
    assert raised.group_contains(LookupError, match="a bug in a handler")


async def test_an_error_in_the_body_ends_the_factory_with_it(clusters: Clusters) -> None:
    async def use() -> None:
        async with SharedInformerFactory(clusters) as factory:
            factory.informer(PODS)
            await factory.start().wait_synced()
            raise LookupError("a bug of the user")

    with pytest.raises(ExceptionGroup) as raised:
        await use()
    assert raised.group_contains(LookupError, match="a bug of the user")
