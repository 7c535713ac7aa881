"""Simulates a small cluster: deployments roll and scale, pods crash and come back, a CRD appears and is used.

Stories are sequences of changes to deployments, pods and configuration, as real clusters have them. A story is an
iterator: each step makes a single change. Two stories must not change the same deployment at the same time;
``ClusterSimulation`` ensures that.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from bridge.playground import manifests
from bridge.playground.objects.objects import Manifest
from bridge.playground.server import Playground

Story: TypeAlias = Iterator[None]

DEPLOYMENTS, REPLICA_SETS, PODS = "deployments.apps", "replicasets.apps", "pods"
LEASES, NODES = "leases.coordination.k8s.io", "nodes"
DEFINITIONS, CERTIFICATES = "customresourcedefinitions.apiextensions.k8s.io", "certificates.certs.example.com"

_KEPT_REPLICA_SETS = 2
_LARGEST, _MOST_CERTIFICATES = 6, 12

_NODES = ("node-a", "node-b", "node-c")
_DEPLOYMENTS = {"shop": ("web", "cart", "search"), "payments": ("ledger", "gateway"), "monitoring": ("metrics",)}
_AT_ONCE = 4
"""Stories that run at the same time."""

_SHORTEST_NAP = 0.01
"""Seconds. Above a hundred changes a second, each wake-up makes several."""
_LONGEST_BURST = 0.01
"""Seconds of changes without a nap."""
_NAP_FOR_WORK = 1
"""The least length of a nap, as a multiple of the time of the work before."""


@dataclass(slots=True)
class _RunningStory:
    """A running story, and the deployment that it holds ("" for none)."""

    story: Story
    held: str


class ClusterSimulation:
    """Changes the objects of a server over time. The same seed makes the same changes, unless other clients change the
    server's objects."""

    def __init__(self, server: Playground, *, rate: float = 20.0, seed: int = 0, definition_after: float = 3.0) -> None:
        """``rate`` is in changes per second; ``definition_after`` is the time until the CRD appears, in seconds."""
        self._server = server
        self._rate = rate
        self._random = Random(seed)
        self._stories = Stories(server, self._random)
        self._definition_after = definition_after
        self._running: list[_RunningStory] = []

    def populate(self) -> None:
        """Creates the initial cluster: nodes, and every deployment with all its pods up."""
        for node in _NODES:
            self._server.create(NODES, manifests.node(node), manager="kubelet")
            self._server.create(LEASES, manifests.lease(node, namespace="kube-node-lease", holder=node, seconds=40))
        for namespace, names in _DEPLOYMENTS.items():
            self._server.create("configmaps", manifests.config_map("settings", namespace=namespace))
            self._server.create("secrets", manifests.secret("database", namespace=namespace))
            for name in names:
                for _ in self._stories.deploy(namespace, name, self._random.randint(2, 4)):
                    pass

    async def run(self) -> None:
        """Makes changes until it is cancelled. An empty cluster is populated first."""
        if not self._server.list(NODES):
            self.populate()
        clock = asyncio.get_running_loop().time
        began, made, defined = clock(), 0, False
        while True:
            lived = clock() - began
            if not defined and lived >= self._definition_after:
                self.define()
                defined = True
            due = int(lived * self._rate) - made
            # Changes missed by a slow machine, or during a pause of the process, are skipped: the watchers need the
            # event loop as well.
            began_steps = clock()
            while due > 0 and clock() - began_steps < _LONGEST_BURST:
                self.step()
                due -= 1
            made = int(lived * self._rate)
            busy = clock() - began_steps
            await asyncio.sleep(max(1 / self._rate, _SHORTEST_NAP, busy * _NAP_FOR_WORK))

    def define(self) -> None:
        """Creates the CRD, so that stories of its objects can begin."""
        for _ in self._stories.define_certificates():
            pass

    def step(self) -> None:
        """Makes exactly one change."""
        while True:
            while len(self._running) < _AT_ONCE:
                self._begin()
            running = self._random.choice(self._running)
            try:
                return next(running.story)
            except StopIteration:
                self._running.remove(running)

    def _begin(self) -> None:
        stories = self._stories
        namespace = self._random.choice(list(_DEPLOYMENTS))
        held = {each.held for each in self._running}
        free = [name for name in _DEPLOYMENTS[namespace] if f"{namespace}/{name}" not in held]
        plain: list[Callable[[], Story]] = [
            stories.heartbeat,
            lambda: stories.reconfigure(namespace, "settings"),
            lambda: stories.rotate(namespace, "database"),
            lambda: stories.job(namespace),
        ]
        if any(kind.name == CERTIFICATES for kind in self._server.catalogue):
            plain.append(lambda: stories.certify(namespace))
        if free and self._random.random() < 0.6:
            name = self._random.choice(free)
            begin = self._random.choice((stories.roll, stories.scale, stories.crash))
            self._running.append(_RunningStory(begin(namespace, name), f"{namespace}/{name}"))
        else:
            self._running.append(_RunningStory(self._random.choice(plain)(), ""))


# ── Stories ──────────────────────────────────────────────────────────────────


class Stories:
    """Makes stories for a server. The same ``random`` makes the same stories."""

    def __init__(self, server: Playground, random: Random) -> None:
        self._server = server
        self._random = random
        self._count = 0

    # ── Deployments ──────────────────────────────────────────────────────────

    def deploy(self, namespace: str, name: str, replicas: int) -> Story:
        """A new deployment comes up."""
        image = f"registry.example/{name}:1.0.0"
        made = manifests.deployment(name, namespace=namespace, replicas=replicas, image=image)
        deployment = self._server.create(DEPLOYMENTS, made, manager="kubectl")
        yield
        yield from self._new_replica_set(deployment, replicas)
        yield from self._settled(namespace, name)

    def roll(self, namespace: str, name: str) -> Story:
        """A new image: a new ReplicaSet replaces the pods of the old ReplicaSet, singly."""
        deployment = self._server.get(DEPLOYMENTS, name, namespace=namespace)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        container["image"] = _next_image(container["image"])
        deployment = self._server.update(DEPLOYMENTS, deployment, manager="kubectl")
        yield
        old = self._pods(namespace, name)
        for story in (self._new_replica_set(deployment, len(old)), self._old_go(namespace, old)):
            yield from story
        yield from self._trim_replica_sets(namespace, name)
        yield from self._settled(namespace, name)

    def scale(self, namespace: str, name: str) -> Story:
        """More or fewer replicas."""
        pods = self._pods(namespace, name)
        wanted = self._random.choice([count for count in range(1, _LARGEST + 1) if count != len(pods)])
        self._server.patch(DEPLOYMENTS, name, {"spec": {"replicas": wanted}}, namespace=namespace, manager="kubectl")
        yield
        newest = self._replica_sets(namespace, name)[-1]
        for _ in range(wanted - len(pods)):
            yield from self._pod_comes(newest)
        for pod in pods[wanted:]:
            yield from self._pod_goes(pod)
        yield from self._settled(namespace, name)

    def crash(self, namespace: str, name: str) -> Story:
        """A pod crashes, and comes back."""
        pod = self._random.choice(self._pods(namespace, name))
        restarts = pod["status"]["containerStatuses"][0]["restartCount"] + 1
        for ready in (False, True):
            self._set_status(pod, manifests.pod_status("Running", ready=ready, restarts=restarts))
            yield

    def _new_replica_set(self, deployment: Manifest, replicas: int) -> Story:
        made = manifests.replica_set(deployment, self._suffix())
        made = self._server.create(REPLICA_SETS, made, manager="kube-controller-manager")
        yield
        for _ in range(replicas):
            yield from self._pod_comes(made)

    def _old_go(self, namespace: str, pods: list[Manifest]) -> Story:
        for pod in pods:
            yield from self._pod_goes(pod)

    def _trim_replica_sets(self, namespace: str, name: str) -> Story:
        for old in self._replica_sets(namespace, name)[:-_KEPT_REPLICA_SETS]:
            self._server.delete(REPLICA_SETS, old["metadata"]["name"], namespace=namespace)
            yield

    def _settled(self, namespace: str, name: str) -> Story:
        """The controller writes the deployment's status."""
        pods = len(self._pods(namespace, name))
        generation = self._server.get(DEPLOYMENTS, name, namespace=namespace)["metadata"]["generation"]
        status = {"observedGeneration": generation, "replicas": pods, "readyReplicas": pods, "availableReplicas": pods}
        self._server.patch(
            DEPLOYMENTS, name, {"status": status}, namespace=namespace, manager="kube-controller-manager"
        )
        yield

    # ── Pods ─────────────────────────────────────────────────────────────────

    def job(self, namespace: str) -> Story:
        """A pod that runs to its end and is cleaned up."""
        self._count += 1
        made = manifests.pod(f"report-{self._count:04}-{self._suffix()}", namespace=namespace, labels={"job": "report"})
        pod = self._server.create(PODS, made, manager="kube-controller-manager")
        yield
        yield from self._pod_starts(pod)
        self._set_status(pod, manifests.pod_status("Succeeded"))
        yield
        self._server.delete(PODS, pod["metadata"]["name"], namespace=namespace)
        yield

    def _pod_comes(self, replica_set: Manifest) -> Story:
        made = manifests.pod_of(replica_set, self._suffix())
        pod = self._server.create(PODS, made, manager="kube-controller-manager")
        yield
        yield from self._pod_starts(pod)

    def _pod_starts(self, pod: Manifest) -> Story:
        metadata = pod["metadata"]
        node = self._random.choice(self._server.list(NODES))["metadata"]["name"]
        self._server.patch(
            PODS,
            metadata["name"],
            {"spec": {"nodeName": node}},
            namespace=metadata["namespace"],
            manager="kube-scheduler",
        )
        yield
        for phase, ready in (("Pending", False), ("Running", False), ("Running", True)):
            self._set_status(pod, manifests.pod_status(phase, ready=ready))
            yield

    def _pod_goes(self, pod: Manifest) -> Story:
        metadata = pod["metadata"]
        for grace in (30, 0):
            self._server.delete(PODS, metadata["name"], namespace=metadata["namespace"], grace=grace)
            yield

    def _set_status(self, pod: Manifest, status: Manifest) -> None:
        metadata = pod["metadata"]
        self._server.patch(
            PODS, metadata["name"], {"status": status}, namespace=metadata["namespace"], manager="kubelet"
        )

    # ── Configuration, nodes, certificates ───────────────────────────────────

    def reconfigure(self, namespace: str, name: str) -> Story:
        """A setting of a config map changes."""
        self._count += 1
        setting = {f"setting-{self._random.randrange(8)}": f"value-{self._count}"}
        self._server.patch("configmaps", name, {"data": setting}, namespace=namespace, manager="kubectl")
        yield

    def rotate(self, namespace: str, name: str) -> Story:
        """A secret gets a new password."""
        password = base64.b64encode(self._random.randbytes(18)).decode()
        self._server.patch("secrets", name, {"data": {"password": password}}, namespace=namespace, manager="vault")
        yield

    def heartbeat(self) -> Story:
        """Every node renews its lease."""
        self._count += 1
        renewed = {"spec": {"renewTime": _micro_time(self._count)}}
        for node in self._server.list(NODES):
            self._server.patch(
                LEASES, node["metadata"]["name"], renewed, namespace="kube-node-lease", manager="kubelet"
            )
            yield

    def define_certificates(self) -> Story:
        """A CustomResourceDefinition appears."""
        plural, _, group = CERTIFICATES.partition(".")
        made = manifests.definition(plural, group, "Certificate", short_names=("cert",))
        self._server.create(DEFINITIONS, made, manager="helm")
        yield

    def certify(self, namespace: str) -> Story:
        """A certificate is requested and issued; beyond _MOST_CERTIFICATES, the oldest is deleted."""
        self._count += 1
        name = f"tls-{self._count:04}"
        made = manifests.custom(
            name,
            kind="Certificate",
            api_version="certs.example.com/v1",
            namespace=namespace,
            spec={"host": f"{name}.test"},
        )
        self._server.create(CERTIFICATES, made, manager="kubectl")
        yield
        for ready in (False, True):
            condition = {"type": "Ready", "status": str(ready), "reason": "Issued" if ready else "Pending"}
            issued = {"status": {"conditions": [condition]}}
            self._server.patch(CERTIFICATES, name, issued, namespace=namespace, manager="issuer")
            yield
        if len(known := self._server.list(CERTIFICATES)) > _MOST_CERTIFICATES:
            oldest = min(known, key=lambda each: int(each["metadata"]["resourceVersion"]))["metadata"]
            self._server.delete(CERTIFICATES, oldest["name"], namespace=oldest["namespace"])
            yield

    # ── Reading the server ───────────────────────────────────────────────────

    def _pods(self, namespace: str, deployment: str) -> list[Manifest]:
        return [
            pod
            for pod in self._server.list(PODS, namespace=namespace)
            if pod["metadata"].get("labels", {}).get("app") == deployment
        ]

    def _replica_sets(self, namespace: str, deployment: str) -> list[Manifest]:
        """From the oldest to the newest."""
        found = [
            each
            for each in self._server.list(REPLICA_SETS, namespace=namespace)
            if each["metadata"]["labels"]["app"] == deployment
        ]
        return sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))

    def _suffix(self) -> str:
        return "".join(self._random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))


def _next_image(image: str) -> str:
    name, _, version = image.rpartition(":")
    major, minor, patch = version.split(".")
    return f"{name}:{major}.{minor}.{int(patch) + 1}"


def _micro_time(count: int) -> str:
    """A time made of the counter, different for every heartbeat and independent of any clock."""
    hours, rest = divmod(count, 3600)
    return f"2026-01-{1 + hours // 24 % 28:02}T{hours % 24:02}:{rest // 60:02}:{rest % 60:02}.000000Z"
