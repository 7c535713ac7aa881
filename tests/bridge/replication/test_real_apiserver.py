"""Electors against the real kube-apiserver, with the rights that `kubedelta rbac` prints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bridge.kube import ClusterAccess, connect
from bridge.model.policies import LeaseTiming
from bridge.model.resource import LEASES
from bridge.replication.deciding import Leading, Rules
from bridge.replication.elector import Elector
from bridge.replication.lease import PUBLISHED
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.election import LeaseFailed
from tests.bridge.replication.test_elector import FakeDuties
from tests.cluster.kube_client import KubeClient as Cluster
from tests.cluster.servers import KubeApiServer
from tests.kit.deadlines import BUSY

QUICK = LeaseTiming(lease_duration=2.0, renew_deadline=1.3, retry_period=0.3)
SOON = 30.0


class Replica:
    def __init__(self, elector: Elector, duties: FakeDuties, facts: list[Fact]) -> None:
        self.elector = elector
        self.duties = duties
        self.facts = facts

    async def until(self, holds: Callable[[Replica], bool]) -> None:
        async with asyncio.timeout(SOON):
            while not holds(self):  # noqa: ASYNC110  # a state is asked for, nothing announces it
                await asyncio.sleep(0.01)


def leads(replica: Replica) -> bool:
    return isinstance(replica.elector.state, Leading)


def knows_another(replica: Replica, uid: str) -> bool:
    """A Lease that was created anew, with what its holder says."""
    lease = replica.elector.state.known.lease  # type: ignore[union-attr]
    return lease is not None and lease.whole["metadata"]["uid"] != uid and lease.published is not None


@asynccontextmanager
async def replica(kubeconfig: Path, namespace: str, identity: str) -> AsyncIterator[Replica]:
    async with connect(ClusterAccess(kubeconfig=kubeconfig)) as client:
        facts: list[Fact] = []
        duties = FakeDuties()
        elector = Elector(
            client.named_object(LEASES, namespace, "kubedelta"),
            duties,
            Rules(identity, QUICK),
            namespace=namespace,
            name="kubedelta",
            highest_term=0,
            report=facts.append,
        )
        yield Replica(elector, duties, facts)


async def test_the_lease_goes_from_replica_to_replica(
    kube_apiserver: KubeApiServer, kube: Cluster, namespace: str, tmp_path: Path
) -> None:
    config = kube_apiserver.kubeconfig(tmp_path / "config")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/kubedelta"
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        a, b = [await stack.enter_async_context(replica(config, namespace, name)) for name in ("a", "b")]
        first = tasks.create_task(a.elector.run())
        await a.until(leads)
        second = tasks.create_task(b.elector.run())
        await b.until(lambda b: b.duties.seen[-1:] == ["first"])

        deleted = (await kube.get(path))["metadata"]["uid"]
        await kube.delete(path)
        await b.until(lambda b: knows_another(b, deleted))
        assert leads(a)
        assert not b.duties.tenures

        a.elector.stop()
        released = asyncio.get_running_loop().time()
        await b.until(leads)
        assert asyncio.get_running_loop().time() - released < 1.0 * BUSY
        await first

        lease = await kube.get(path)
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("b", 1)
        assert '"first"' in lease["metadata"]["annotations"][PUBLISHED]
        b.elector.stop()
        await second
        assert (await kube.get(path))["spec"].get("holderIdentity") in ("", None)
        assert [each for each in (*a.facts, *b.facts) if isinstance(each, LeaseFailed)] == []
