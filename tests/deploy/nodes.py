"""In place of scheduler, provisioner and kubelet beside a real controller-manager.

Pods get a node once their claims are bound, run and become ready, and go once they are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import MERGE, STRATEGIC, KubeClient, KubeError, Manifest
from tests.deploy.kubelet import Kubelet
from tests.kit.deadlines import BUSY

VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PROVISIONER = "volumes.kubedelta.test"


@dataclass(frozen=True, slots=True)
class Nodes:
    """Of one namespace, with a storage class of its own."""

    kube: KubeClient
    namespace: str
    storage_class: str
    sick: set[str] = field(default_factory=set)
    """Names of pods that do not become ready."""
    kubelet: Kubelet | None = None
    """Runs the pods. None: a pod is a name without a process."""
    _seen: list[tuple[str, str]] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def claims(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"

    async def heal(self, name: str) -> None:
        """The pod becomes ready."""
        self.sick.discard(name)
        await self.work()

    async def volume_of(self, claim: str) -> str:
        """The volume that is bound to it."""
        found = await self.kube.wait_for(self.claims, _is_bound, fieldSelector=f"metadata.name={claim}")
        return str(found[0]["spec"]["volumeName"])

    async def ready(self, *names: str) -> dict[str, Manifest]:
        """These pods and no others are there, and ready. By their names."""
        found = await self.kube.wait_for(
            self.pods,
            lambda pods: (
                sorted(names) == sorted(each["metadata"]["name"] for each in pods) and all(map(is_ready, pods))
            ),
        )
        return {each["metadata"]["name"]: each for each in found}

    async def replaced(self, former: Manifest) -> Manifest:
        """The next pod of this name, once it runs."""
        found = await self.kube.wait_for(
            self.pods,
            lambda pods: any(
                each["metadata"]["uid"] != former["metadata"]["uid"] and each["status"]["phase"] == "Running"
                for each in pods
            ),
            fieldSelector=f"metadata.name={former['metadata']['name']}",
        )
        return found[-1]

    async def saw(self, *happened: tuple[Manifest, str]) -> list[tuple[Manifest, str]]:
        """These (pod, "made", "ready" or "gone") in the order in which they happened; waits until all have."""
        wanted = {(pod["metadata"]["uid"], what): pod for pod, what in happened}
        async with asyncio.timeout(60 * BUSY), self._news:
            await self._news.wait_for(lambda: wanted.keys() <= {*self._seen})
        return [(wanted[each], each[1]) for each in self._seen if each in wanted]

    # ── What they do ─────────────────────────────────────────────────────────

    async def follow(self, collection: str) -> None:
        """Works at each event. Does not end."""
        while True:
            with suppress(KubeError):
                async with aclosing(self.kube.watch(collection)) as events:
                    async for event in events:
                        if collection == self.pods:
                            await self._note(event["type"], event["object"])
                        await self.work()

    async def _note(self, kind: str, pod: Manifest) -> None:
        what = {"ADDED": "made", "DELETED": "gone"}.get(kind, "ready" if is_ready(pod) else "")
        if what and (found := (pod["metadata"]["uid"], what)) not in self._seen:
            async with self._news:
                self._seen.append(found)
                self._news.notify_all()

    async def work(self) -> None:
        pods = (await self.kube.get(self.pods))["items"]
        claims = {each["metadata"]["name"]: each for each in (await self.kube.get(self.claims))["items"]}
        volumes = [each for each in (await self.kube.get(VOLUMES))["items"] if self._is_ours(each)]
        promised = {each["spec"]["claimRef"]["name"] for each in volumes if "claimRef" in each["spec"]}
        for claim in claims.values():
            if not claim["spec"].get("volumeName") and claim["metadata"]["name"] not in promised:
                await self._provision(claim)
        for volume in volumes:
            policy = volume["spec"]["persistentVolumeReclaimPolicy"]
            if (volume["status"].get("phase"), policy) == ("Released", "Delete"):
                await _unless_changed(self.kube.delete(f"{VOLUMES}/{volume['metadata']['name']}"))
        for pod in pods:
            await self._work_on(pod, claims)

    async def _work_on(self, pod: Manifest, claims: dict[str, Manifest]) -> None:
        name = pod["metadata"]["name"]
        path = f"{self.pods}/{name}"
        if "deletionTimestamp" in pod["metadata"]:
            if self.kubelet is not None:
                await self.kubelet.end(pod)
            await _unless_changed(self.kube.delete(path, gracePeriodSeconds=0))
        elif "nodeName" not in pod["spec"]:
            if all(each in claims and _is_bound([claims[each]]) for each in _claims_of(pod)):
                target = {"apiVersion": "v1", "kind": "Node", "name": f"node-of-{name}"}
                await _unless_changed(
                    self.kube.create(f"{path}/binding", {"metadata": {"name": name}, "target": target})
                )
        elif pod["status"]["phase"] != "Running" or not is_ready(pod):
            well = name not in self.sick and (self.kubelet is None or await self.kubelet.is_ready(pod))
            if not well and pod["status"]["phase"] == "Running":
                return
            ready = {"type": "Ready", "status": str(well)}
            status = {"phase": "Running", "conditions": [ready]}
            await _unless_changed(self.kube.patch(f"{path}/status", {"status": status}, STRATEGIC))

    async def _provision(self, claim: Manifest) -> None:
        """As an external provisioner does; the binder binds it."""
        metadata, name = claim["metadata"], fresh_name("pv")
        spec = {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": self.storage_class,
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                **{part: metadata[part] for part in ("namespace", "name", "uid", "resourceVersion")},
            },
        }
        annotations = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
        await self.kube.create(VOLUMES, {"metadata": {"name": name, "annotations": annotations}, "spec": spec})

    def _is_ours(self, volume: Manifest) -> bool:
        return bool(volume["spec"].get("storageClassName") == self.storage_class)

    async def close(self) -> None:
        """No volume stays."""
        for volume in (await self.kube.get(VOLUMES))["items"]:
            if self._is_ours(volume):
                path = f"{VOLUMES}/{volume['metadata']['name']}"
                await _unless_changed(self.kube.delete(path))
                await _unless_changed(self.kube.patch(path, {"metadata": {"finalizers": None}}, MERGE))


@asynccontextmanager
async def running(kube: KubeClient, namespace: str, kubelet: Kubelet | None = None) -> AsyncIterator[Nodes]:
    """Nodes that work inside the context."""
    name = fresh_name("class")
    spec = {"metadata": {"name": name}, "provisioner": PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer"}
    await kube.create(CLASSES, spec)
    nodes = Nodes(kube, namespace, name, kubelet=kubelet)
    try:
        async with asyncio.TaskGroup() as tasks:
            working = [tasks.create_task(nodes.follow(each)) for each in (nodes.pods, nodes.claims, VOLUMES)]
            if kubelet is not None:
                working.append(tasks.create_task(kubelet.probe(nodes.work)))
            try:
                yield nodes
            finally:
                for each in working:
                    each.cancel()
    finally:
        await nodes.close()
        await kube.delete(f"{CLASSES}/{name}")


def is_ready(pod: Manifest) -> bool:
    return (
        any((each["type"], each["status"]) == ("Ready", "True") for each in pod["status"].get("conditions", ()))
        and "deletionTimestamp" not in pod["metadata"]
    )


def _is_bound(claims: list[Manifest]) -> bool:
    return [each["status"].get("phase") for each in claims] == ["Bound"]


def _claims_of(pod: Manifest) -> list[str]:
    volumes = pod["spec"]["volumes"]
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]


async def _unless_changed(asked: object) -> None:
    """The next event brings the next attempt."""
    try:
        await asked  # type: ignore[misc]
    except KubeError as error:
        if error.code not in {404, 409}:
            raise
