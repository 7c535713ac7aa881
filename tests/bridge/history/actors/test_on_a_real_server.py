"""Who changed what, by the audit log of a real kube-apiserver, against an independent watch."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from bridge.history.actors.audit import UID_ANNOTATION, Actor, Join, actors_of
from bridge.history.actors.joining import Made, StepOfObject, made_by
from bridge.model.resource import Resource
from tests.cluster.fixtures import OwnServers, StartKubeApiServer
from tests.cluster.kube_client import KubeClient, KubeError, Manifest
from tests.cluster.servers import ControllerManager, Etcd
from tests.kit.deadlines import BUSY
from tests.kit.independent_watch import IndependentWatch

POLICIES = Path(__file__).parents[4] / "deploy" / "audit"
NAMESPACE = "actors"
RESOURCES = [
    Resource("", "v1", "configmaps", "ConfigMap", True),
    Resource("", "v1", "pods", "Pod", True),
    Resource("apps", "v1", "deployments", "Deployment", True),
    Resource("apps", "v1", "replicasets", "ReplicaSet", True),
]
BY_KIND = {each.kind: each for each in RESOURCES}
MAPS, PODS, DEPLOYMENTS, _ = (each.path(NAMESPACE) for each in RESOURCES)
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "web", "image": "web"}], "automountServiceAccountToken": False},
}


class Told(NamedTuple):
    """A step, and who made it."""

    name: str
    op: str
    made: Made | None

    @property
    def by(self) -> tuple[str, str] | None:
        """The join, and the verb with its subresource."""
        if self.made is None:
            return None
        actor = self.made.actor
        return self.made.join, f"{actor.verb}/{actor.subresource}" if actor.subresource else actor.verb


class Witness(IndependentWatch):
    """Knows when it saw each step."""

    def __init__(self, kube: KubeClient) -> None:
        super().__init__(kube, NAMESPACE)
        self.times: list[datetime] = []

    async def _take(self, resource: Resource, op: str, thing: Manifest) -> None:
        self.times.append(datetime.now(UTC))
        await super()._take(resource, op, thing)

    def told(self, actors: list[Actor]) -> list[Told]:
        claims = defaultdict[tuple[str, str], list[Actor]](list)
        for actor in actors:
            _, group, plural, _, name = actor.key.split("/")
            claims[plural if group == "core" else f"{plural}.{group}", name].append(actor)
        steps = defaultdict[tuple[str, str], list[tuple[str, StepOfObject]]](list)
        newest: dict[str, str] = {}
        for (version, thing), time in zip(self.happened, self.times, strict=True):
            key = BY_KIND[thing["kind"]].name, thing["metadata"]["name"]
            before = newest.get(version.uid, "")
            newest[version.uid] = version.resource_version
            step = StepOfObject(
                uid=version.uid,
                version=version.resource_version,
                before=before,
                deleted=version.op == "deleted",
                time=time,
            )
            steps[key].append((version.op, step))
        return [
            Told(key[1], op, made)
            for key, known in steps.items()
            for (op, _), made in zip(known, made_by([step for _, step in known], claims[key]), strict=True)
        ]


class Audited:
    """An API server with the audit policy and the admission policy of this repository."""

    def __init__(self, kube: KubeClient, log: Path) -> None:
        self.kube = kube
        self._log = log

    async def apply_policy(self) -> None:
        for each in yaml.safe_load_all((POLICIES / "admission-policy.yaml").read_text()):
            plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}.get(
                each["kind"], "validatingadmissionpolicybindings"
            )
            await self.kube.create(f"/apis/admissionregistration.k8s.io/v1/{plural}", each)
        async with asyncio.timeout(60 * BUSY):
            while UID_ANNOTATION.encode() not in self._log.read_bytes():  # A policy works a moment after it was made.
                await self.kube.create(
                    "/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "probe-"}}
                )

    def actors(self) -> list[Actor]:
        return [each for line in self._log.read_bytes().splitlines() for each in actors_of(line, "prod", str)]


@pytest.fixture
async def audited(
    start_etcd: Callable[[], Etcd], start_kube_apiserver: StartKubeApiServer, tmp_path: Path
) -> AsyncIterator[Audited]:
    log = tmp_path / "audit.log"
    policy = POLICIES / "policy.yaml"
    server = start_kube_apiserver(start_etcd(), f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    async with KubeClient(server) as kube:
        found = Audited(kube, log)
        await found.apply_policy()
        await kube.create_namespace(NAMESPACE)
        yield found


def deployment(**metadata: Any) -> Manifest:
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    return {"metadata": metadata, "spec": spec}


async def test_every_verb_and_subresource_is_joined_to_its_step(audited: Audited) -> None:
    kube = audited.kube
    async with Witness(kube) as seen:
        for each in RESOURCES:
            await seen.follow(each)
        await kube.create(PODS, {"metadata": {"name": "web"}, "spec": TEMPLATE["spec"]})
        labelled = await kube.patch(f"{PODS}/web", {"metadata": {"labels": {"tier": "front"}}})
        await kube.patch(f"{PODS}/web", {"metadata": {"labels": {"tier": "front"}}})
        await kube.replace(
            f"{PODS}/web", {**labelled, "metadata": {**labelled["metadata"], "labels": {"tier": "back"}}}
        )
        with pytest.raises(KubeError, match="Conflict"):
            await kube.replace(f"{PODS}/web", {**labelled, "metadata": {**labelled["metadata"], "labels": {}}})
        await kube.patch(f"{PODS}/web/status", {"status": {"phase": "Running"}})
        await kube.delete(f"{PODS}/web")
        await kube.create(PODS, {"metadata": {"name": "bound"}, "spec": TEMPLATE["spec"]})
        node = {"kind": "Node", "name": "node-1"}
        await kube.create(f"{PODS}/bound/binding", {"metadata": {"name": "bound"}, "target": node})
        await kube.delete(f"{PODS}/bound")
        await kube.create(DEPLOYMENTS, deployment(name="shop"))
        await kube.patch(f"{DEPLOYMENTS}/shop/scale", {"spec": {"replicas": 3}})
        await kube.patch(f"{DEPLOYMENTS}/shop", {"spec": {"replicas": 4}}, dryRun="All")
        await kube.create(DEPLOYMENTS, deployment(generateName="made-", finalizers=["example.com/wait"]))
        await kube.delete(DEPLOYMENTS)
        await kube.create(MAPS, {"metadata": {"name": "settings"}, "data": {"n": "1"}})
        await kube.patch(f"{MAPS}/settings", {"data": {"n": "2"}})
        await kube.delete(f"{MAPS}/settings")
        await seen.until(BY_KIND["ConfigMap"], lambda left: not left)
        await seen.until(BY_KIND["Deployment"], lambda left: [*map(is_leaving, left)] == [True])
        await seen.until(BY_KIND["Pod"], lambda left: [*map(is_leaving, left)] == [True])
    told = seen.told(audited.actors())
    assert [(each.op, each.by) for each in told if each.name == "web"] == [
        ("added", (Join.VERSION, "create")),
        ("updated", (Join.VERSION, "patch")),
        ("updated", (Join.VERSION, "update")),
        ("updated", (Join.VERSION, "patch/status")),
        ("updated", (Join.WINDOW, "delete")),
        ("deleted", (Join.VERSION, "delete")),
    ]
    assert [(each.op, each.by) for each in told if each.name == "bound"] == [
        ("added", (Join.VERSION, "create")),
        ("updated", (Join.WINDOW, "create/binding")),
        ("updated", (Join.VERSION, "delete")),
    ]
    assert [(each.op, each.by) for each in told if each.name == "shop"] == [
        ("added", (Join.VERSION, "create")),
        ("updated", (Join.VERSION, "patch/scale")),
        ("deleted", (Join.BEFORE, "deletecollection")),
    ]
    assert [(each.op, each.by) for each in told if each.name.startswith("made-")] == [
        ("added", (Join.VERSION, "create")),
        ("updated", (Join.BEFORE, "deletecollection")),
    ]
    assert [(each.op, each.by) for each in told if each.name == "settings"] == [
        ("added", (Join.BEFORE, "create")),
        ("updated", (Join.BEFORE, "patch")),
        ("deleted", (Join.BEFORE, "delete")),
    ]


def is_leaving(thing: Manifest) -> bool:
    return "deletionTimestamp" in thing["metadata"]


async def test_the_shares_of_each_join_while_controllers_work(
    audited: Audited, own_servers: OwnServers, kubernetes_build: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Deployments with their replica sets and pods, retried updates, garbage collection, the end of the namespace."""
    kube = audited.kube
    own_servers.start(lambda folder: ControllerManager(folder, kubernetes_build, kube.server))

    async def count_up(name: str) -> None:
        """As a client does that tries again behind a conflict."""
        for _ in range(10):
            while True:
                thing = await kube.get(f"{MAPS}/{name}")
                thing["data"] = {"n": str(int(thing["data"]["n"]) + 1)}
                with suppress(KubeError):
                    await kube.replace(f"{MAPS}/{name}", thing)
                    break

    async with Witness(kube) as seen:
        for each in RESOURCES:
            await seen.follow(each)
        await kube.create(MAPS, {"metadata": {"name": "counter"}, "data": {"n": "0"}})
        for number in range(5):
            await kube.create(DEPLOYMENTS, deployment(name=f"shop-{number}"))
        await asyncio.gather(*(count_up("counter") for _ in range(4)))
        await seen.until(BY_KIND["Pod"], lambda pods: len(pods) == 5)
        await kube.delete(f"{DEPLOYMENTS}/shop-0", propagationPolicy="Background")
        await seen.until(BY_KIND["Pod"], lambda pods: sum(not is_leaving(pod) for pod in pods) == 4)
        await kube.delete(f"/api/v1/namespaces/{NAMESPACE}")
        for resource in RESOURCES:
            await seen.until(resource, lambda left: not left)
    told = seen.told(audited.actors())
    shares = Counter("none" if each.made is None else str(each.made.join) for each in told)
    with capsys.disabled():
        print(f"\n{len(told)} steps, made by: {dict(shares.most_common())}")
    exact = [each.made.actor.id for each in told if each.made is not None and each.made.join is not Join.WINDOW]
    assert len(set(exact)) == len(exact)
    for step in told:
        if step.made is not None and step.made.join is not Join.WINDOW:
            is_delete = step.made.actor.verb.startswith("delete")
            assert (step.op == "added") is (step.made.actor.verb == "create")
            assert is_delete or step.op != "deleted"
    # Nobody is named where several may have done it; most steps have somebody.
    assert shares[Join.VERSION] + shares[Join.BEFORE] > 0.8 * len(told)
