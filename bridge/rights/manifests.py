"""Rights as manifests of rbac.authorization.k8s.io/v1. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from bridge.rights.rights import Right

Manifest: TypeAlias = Mapping[str, Any]
_API_GROUP = "rbac.authorization.k8s.io"
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Subject:
    """The account that gets the rights."""

    name: str
    namespace: str = ""
    """Of a ServiceAccount; empty for a user."""

    @classmethod
    def of_user(cls, name: str) -> Subject:
        """The subject behind an authenticated user's name."""
        if name.startswith(_ACCOUNT) and name.count(":") == 3:
            _, _, namespace, account = name.split(":")
            return cls(account, namespace)
        return cls(name)

    def manifest(self) -> Manifest:
        if self.namespace:
            return {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        return {"kind": "User", "name": self.name, "apiGroup": _API_GROUP}


def manifests(rights: Iterable[Right], *, name: str, subject: Subject) -> str:
    """YAML documents: a ClusterRole for rights in the whole cluster, a Role in each namespace of the others, each with
    its binding. All have the same ``name``. The order of the rights is kept."""
    by_namespace: dict[str | None, list[Right]] = defaultdict(list)
    for right in dict.fromkeys(rights):
        by_namespace[right.namespace].append(right)
    documents = [
        document
        for namespace, of_namespace in by_namespace.items()
        for document in _role_and_binding(namespace, of_namespace, name, subject)
    ]
    return yaml.safe_dump_all(documents, sort_keys=False).rstrip("\n")


def _role_and_binding(
    namespace: str | None, rights: Iterable[Right], name: str, subject: Subject
) -> tuple[Manifest, Manifest]:
    kind = "ClusterRole" if namespace is None else "Role"
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    role = {
        "apiVersion": f"{_API_GROUP}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": _rules(rights),
    }
    binding = {
        "apiVersion": f"{_API_GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": _API_GROUP, "kind": kind, "name": name},
        "subjects": [subject.manifest()],
    }
    return role, binding


def _rules(rights: Iterable[Right]) -> list[Manifest]:
    """A rule for all resources of a group that share verbs and object name."""
    resources: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for right in rights:
        resources[right.group, right.name, right.verbs].append(right.resource)
    return [
        {
            "apiGroups": [group],
            "resources": names,
            **({"resourceNames": [name]} if name else {}),
            "verbs": list(verbs),
        }
        for (group, name, verbs), names in resources.items()
    ]
