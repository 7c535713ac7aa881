"""Objects of other shapes than the pod's, each beside a pod of its size: what a shape costs is seen per KB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.servers import Load


@dataclass(frozen=True, slots=True)
class Shape:
    """An object of `load/objects`, of which the load server serves one resource."""

    title: str
    resource: str
    """group/version/plural/kind."""
    kilobytes: float
    """On the wire, in a watch."""

    @property
    def is_custom(self) -> bool:
        """client-go has no type for it."""
        return self.resource.startswith("load.")


SHAPES: Mapping[str, Shape] = {
    "widget": Shape("a custom resource with two field managers", "load.kubedelta.test/v1/routes/Route", 2.6),
    "deployment": Shape("a Deployment that kubectl applied", "apps/v1/deployments/Deployment", 8.8),
    "event": Shape("an Event", "/v1/events/Event", 1.3),
    "secret": Shape("a Secret of cert-manager", "/v1/secrets/Secret", 5.8),
    "configmap": Shape("a ConfigMap of 200 KB", "/v1/configmaps/ConfigMap", 200),
    "node": Shape("a Node with 50 images", "/v1/nodes/Node", 13.2),
    "text": Shape("a ConfigMap in Russian and Japanese", "/v1/configmaps/ConfigMap", 7.3),
}
"""By the name of the object."""

_MOST_OBJECTS = 100_000_000
"""Bytes of all objects."""


def loads(name: str, objects: int) -> tuple[Load, Load]:
    """Objects of this shape, and as many pods of its size, at most ``objects``."""
    shape = SHAPES[name]
    count = max(1, min(objects, int(_MOST_OBJECTS / (shape.kilobytes * 1000))))
    pods = Load(pods=count, size=f"{shape.kilobytes:g}")
    return replace(pods, size=name, resource=shape.resource), pods
