"""Roles and bindings on a real API server. Its authorizer reads them from a cache, which follows the store later."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from tests.cluster.kube_client import KubeClient, Manifest
from tests.kit.deadlines import BUSY

API = "rbac.authorization.k8s.io"


@asynccontextmanager
async def roles_of(kube: KubeClient, user: str = "restricted") -> AsyncIterator[Roles]:
    """Roles for one user; they go at the end, and the user's rights with them."""
    roles = Roles(kube, user)
    yield roles
    await roles.delete()


def bound_to(manifests: Iterable[Manifest], user: str) -> list[Manifest]:
    """The roles and bindings among the manifests, bound to a user of the testbed."""
    subjects = [{"kind": "User", "name": user, "apiGroup": API}]
    of_rbac = (each for each in manifests if each["apiVersion"].startswith(f"{API}/"))
    return [each | ({"subjects": subjects} if "subjects" in each else {}) for each in of_rbac]


class Roles:
    """Every method returns when the authorizer knows of the change: from then on the user has these rights alone.

    Other sources must not grant the same rules to the user. Methods raise KubeError, and TimeoutError.
    """

    def __init__(self, kube: KubeClient, user: str) -> None:
        self._kube = kube
        self._user = user
        self._applied: dict[str, Manifest] = {}
        self._namespaces: set[str] = set()
        self._ours: set[str] = set()

    async def apply(self, *manifests: Manifest) -> None:
        """Create roles and bindings, or replace them where this object created them."""
        for manifest in manifests:
            collection = _collection(manifest)
            path = f"{collection}/{manifest['metadata']['name']}"
            if path in self._applied:
                await self._kube.replace(path, manifest)
            else:
                await self._kube.create(collection, manifest, fieldValidation="Strict")
            self._applied[path] = manifest
            self._namespaces.add(manifest["metadata"].get("namespace", "default"))
            self._ours.update(map(_rule, manifest.get("rules", ())))
        await self._until_known()

    async def let(self, verbs: list[str], resources: dict[str, list[str]], namespace: str = "") -> None:
        """Let the user do this to resources, by group, in the namespace; in the whole cluster without one."""
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": "granted", **({"namespace": namespace} if namespace else {})}
        head = {"apiVersion": f"{API}/v1", "metadata": metadata}
        rules = [{"apiGroups": [group], "resources": names, "verbs": verbs} for group, names in resources.items()]
        reference = {"apiGroup": API, "kind": kind, "name": metadata["name"]}
        subject = {"apiGroup": API, "kind": "User", "name": self._user}
        await self.apply(
            {"kind": kind, **head, "rules": rules},
            {"kind": f"{kind}Binding", **head, "roleRef": reference, "subjects": [subject]},
        )

    async def delete(self) -> None:
        """All of them."""
        while self._applied:
            path, _ = self._applied.popitem()
            await self._kube.delete(path)
        await self._until_known()

    async def _until_known(self) -> None:
        async with asyncio.timeout(15 * BUSY):
            for namespace in self._namespaces:
                while await self._known(namespace) & self._ours != self._granted(namespace):  # noqa: ASYNC110  # nothing announces it
                    await asyncio.sleep(0.02)

    async def _known(self, namespace: str) -> set[str]:
        """The rules for the user in this namespace, as the authorizer finds them."""
        answer = await self._kube.http.post(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            json={"spec": {"namespace": namespace}},
            headers={"Impersonate-User": self._user},
        )
        status = answer.raise_for_status().json()["status"]
        return {_rule(each) for each in (*status["resourceRules"], *status["nonResourceRules"])}

    def _granted(self, namespace: str) -> set[str]:
        """What it should find."""
        found: set[str] = set()
        for binding in self._applied.values():
            if "roleRef" in binding and binding["metadata"].get("namespace", namespace) == namespace:
                kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
                metadata = {"name": name, **({"namespace": namespace} if kind == "Role" else {})}
                role = self._applied.get(f"{_collection({'kind': kind, 'metadata': metadata})}/{name}", {})
                found.update(map(_rule, role.get("rules", ())))
        return found


def _collection(manifest: Manifest) -> str:
    namespace = manifest["metadata"].get("namespace")
    return f"/apis/{API}/v1{f'/namespaces/{namespace}' if namespace else ''}/{manifest['kind'].lower()}s"


def _rule(rule: Manifest) -> str:
    """The same for equal rules."""
    return json.dumps({name: sorted(values) for name, values in rule.items() if values}, sort_keys=True)
