"""The chart's shards of two replicas, as processes of the pods that the controllers of Kubernetes make of them."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from bridge.model.primitives.shard import Shard, ShardBy
from bridge.model.resource import Resource
from tests.cluster.fixtures import MakeStream, fresh_name
from tests.cluster.kube_client import KubeClient
from tests.cluster.servers import ControllerManager, Nats
from tests.deploy import kubelet
from tests.deploy.guide import Shell, commands_of
from tests.deploy.helm import CHART, Helm
from tests.deploy.kubelet import Kubelet
from tests.deploy.nodes import Nodes, running
from tests.kit.churn import KINDS, Churn, an_object, churning
from tests.kit.deadlines import BUSY
from tests.kit.independent_watch import IndependentWatch
from tests.kit.received import Received, by_uid, from_nats, received_lists
from tests.kit.replicas import Replicas

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

TIMES = {"lease_duration": "3s", "renew_deadline": "2s", "retry_period": "300ms"}


@dataclass(frozen=True, slots=True)
class Deployed:
    """A release whose pods run, and a namespace that they watch."""

    nodes: Nodes
    kubelet: Kubelet
    watch: IndependentWatch
    helm: Helm
    kubeconfig: Path
    watched: str
    stream: str
    nats: Nats

    async def release(self, *words: str, **values: object) -> None:
        config = {
            "cluster": {"name": "testbed"},
            "resources": [{"resource": kind, "namespaces": [self.watched]} for kind in KINDS],
            "sinks": {
                "live": {
                    "type": "nats",
                    "servers": [self.nats.url],
                    "stream": self.stream,
                    "subject": f"{self.stream}.{{resource}}.{{name}}",
                    "sole_writer": False,
                }
            },
            "election": {"enabled": True, **TIMES},
        }
        given: dict[str, Any] = {
            "config": config,
            "replicas": 2,
            "redaction": {"existingSecret": "kubedelta-redaction"},
            "rbac": {"namespaced": True},
            "persistence": {"storageClass": self.nodes.storage_class},
            **values,
        }
        install = ("upgrade", "--install", "kubedelta", str(CHART), "-f", "-")
        await asyncio.to_thread(self.helm.on_cluster, self.kubeconfig, self.nodes.namespace, *install, values=given)

    def group(self, index: int, of: int) -> Replicas:
        """The pods of a shard."""
        return Replicas([self.kubelet.bridges[each] for each in pods_of(of) if f"-{index}-of-" in each])

    async def received(self) -> list[Received]:
        return received_lists(from_nats(await self.nats.read_all(self.stream)))

    async def version(self) -> int:
        """The newest."""
        return int((await self.nodes.kube.get(f"{self.root}/configmaps"))["metadata"]["resourceVersion"])

    @property
    def root(self) -> str:
        return f"/api/v1/namespaces/{self.watched}"

    async def judged(self, since: int) -> None:
        """All that happened behind this version has arrived, once, in the order of each object."""
        made = [self.nodes.kube.create(f"{self.root}/{kind}", an_object(kind, fresh_name("last"))) for kind in KINDS]
        last = {each["metadata"]["uid"] for each in await asyncio.gather(*made)}
        async with asyncio.timeout(60 * BUSY):
            while last - {each.uid for each in await self.received()}:  # noqa: ASYNC110  # nothing announces it
                await asyncio.sleep(0.2)
        versions = [each.version for each in await self.received() if int(each.resource_version) > since]
        happened = [each for each in self.watch.versions if int(each.resource_version) > since]
        assert by_uid(versions) == by_uid(happened)
        print(f"{len(versions)} versions of {len(by_uid(versions))} objects, each once")
        assert {Shard(2, 0, ShardBy.UID).contains(uid, "") for uid in by_uid(versions)} == {True, False}


Deploying: TypeAlias = Callable[[], AbstractAsyncContextManager[Deployed]]


def churning_in(deployed: Deployed) -> AbstractAsyncContextManager[Churn]:
    return churning(deployed.nodes.kube.server, deployed.watched, pause=0.1)


def pods_of(of: int) -> list[str]:
    return [f"kubedelta-{index}-of-{of}-{replica}" for index in range(of) for replica in range(2)]


@pytest.fixture
def deploying(
    kube: KubeClient,
    controller_manager: ControllerManager,
    namespace: str,
    helm: Helm,
    kubeconfig: Path,
    nats_server: Nats,
    nats_stream: MakeStream,
    shell: Shell,
    tmp_path: Path,
) -> Deploying:
    """Two shards of two replicas; the Secret is made by the commands of the guide, and there is nothing else."""
    assert controller_manager.running

    @asynccontextmanager
    async def deployed() -> AsyncIterator[Deployed]:
        [secret] = commands_of("replicas.md", "In a cluster")
        await shell(secret)
        watched, stream = fresh_name("watched"), await nats_stream()
        await kube.create_namespace(watched)
        uninstall = partial(helm.on_cluster, kubeconfig, namespace, "uninstall", "kubedelta")
        async with (
            kubelet.running(kube, namespace, tmp_path / "pods") as kubelets,
            running(kube, namespace, kubelets) as nodes,
            IndependentWatch(kube, watched) as watch,
        ):
            for kind in KINDS:
                await watch.follow(Resource("", "v1", kind, kind, True))
            made = Deployed(nodes, kubelets, watch, helm, kubeconfig, watched, stream.name, nats_server)
            await made.release(shards=2)
            try:
                yield made
            finally:
                await asyncio.to_thread(uninstall)
                await kube.delete_namespace(watched)

    return deployed


async def test_two_shards_share_all_objects_and_each_has_a_follower(deploying: Deploying, shell: Shell) -> None:
    async with deploying() as deployed, churning_in(deployed) as churn:
        await deployed.nodes.ready(*pods_of(2))
        since = await deployed.version()
        await churn.until_made(40)
        for name, each in deployed.kubelet.bridges.items():
            [index] = re.findall(r"-(\d)-of-2-", name)
            assert (await each.metrics()).value("shard_info", index=index, of="2", by="uid") == 1

        first, second = deployed.group(0, 2), deployed.group(1, 2)
        leader = await first.leader()
        await first.until_in_sync(leader)
        await asyncio.to_thread(leader.kill9)
        assert await first.leader(other_than=leader) is first.other(leader)
        await churn.until_made(40)
        await asyncio.to_thread(leader.start)

        leader = await second.leader()
        lost = next(name for name, each in deployed.kubelet.bridges.items() if each is second.other(leader))
        before = await deployed.nodes.kube.get(f"{deployed.nodes.pods}/{lost}")
        [anew] = commands_of("replicas.md", "A volume is lost")
        await shell(anew.replace("kubedelta-1", lost))
        await deployed.nodes.replaced(before)
        await deployed.nodes.ready(*pods_of(2))
        assert leader.logged("a follower has got a copy of the whole state")
        await deployed.group(1, 2).until_equal()
        await churn.until_made(40)
        await deployed.group(1, 2).until_in_sync(leader)
        await asyncio.to_thread(leader.kill9)
        assert await deployed.group(1, 2).leader(other_than=leader) is deployed.kubelet.bridges[lost]
        await churn.until_made(40)
        churn.stop()
        await deployed.judged(since)
        await asyncio.to_thread(leader.start)
