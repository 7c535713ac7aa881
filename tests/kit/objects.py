"""Kubernetes objects for tests, as the API server would send them: ``a_pod("web").at("7")``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from bridge.model.object import ApiObject, object_key

BEYOND_ANY_STACK = 300_000
"""Levels that the decoder of no Python reads: 3.11 stops at 1,000, 3.12 at 10,000, and 3.14 where the stack of the
thread ends, behind more than 100,000 in 8 MiB."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """One object through all of its versions."""

    name: str
    namespace: str = "shop"
    incarnation: int = 1
    labels: tuple[tuple[str, str], ...] = ()
    kind: str = "Pod"

    @property
    def key(self) -> str:
        return object_key(self.namespace, self.name)

    @property
    def uid(self) -> str:
        return f"uid-{self.key}-{self.incarnation}"

    def at(self, version: str | int, **spec: Any) -> ApiObject:
        """The object at one version. Without a ``spec`` two versions differ in their version alone."""
        metadata = {"name": self.name, "uid": self.uid, "resourceVersion": str(version)}
        if self.namespace:
            metadata["namespace"] = self.namespace
        manifest: dict[str, Any] = {"kind": self.kind, "apiVersion": "v1", "metadata": metadata, "spec": spec}
        if self.labels:
            manifest["metadata"] |= {"labels": dict(self.labels)}
        return ApiObject(self.key, self.uid, str(version), msgspec.json.encode(manifest))

    def born_again(self) -> Blueprint:
        """Another object under the same name."""
        return replace(self, incarnation=self.incarnation + 1)

    def labelled(self, **labels: str) -> Blueprint:
        return replace(self, labels=tuple(labels.items()))


def a_pod(name: str = "web", namespace: str = "shop") -> Blueprint:
    return Blueprint(name, namespace)


def a_node(name: str) -> Blueprint:
    return Blueprint(name, namespace="", kind="Node")
