"""Decides the meaning of writes: changes that count, generations, grace periods."""

from __future__ import annotations

from bridge.playground.objects import crds
from bridge.playground.objects.catalogue import Kind
from bridge.playground.objects.objects import Manifest

WITH_GENERATION = frozenset(
    {"pods", "replicationcontrollers", "deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps"}
    | {"jobs.batch", "cronjobs.batch", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io"}
    | {"poddisruptionbudgets.policy", crds.NAME}
)
"""Built-in kinds whose changes of spec are counted in metadata.generation."""


def essence(manifest: Manifest) -> Manifest:
    """The manifest without resourceVersion and managedFields: a write that leaves it equal is not a change."""
    metadata = {
        name: value for name, value in manifest["metadata"].items() if name not in ("resourceVersion", "managedFields")
    }
    return {**manifest, "metadata": metadata}


def grace_of(kind: Kind, manifest: Manifest, grace: int | None) -> int:
    """Seconds that a pod stays after its delete: 0 before it has a node and after its end."""
    if kind.name != "pods" or not (manifest.get("spec") or {}).get("nodeName"):
        return 0
    if (manifest.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if grace is not None:
        return grace
    known: int = manifest["metadata"].get(
        "deletionGracePeriodSeconds", manifest["spec"].get("terminationGracePeriodSeconds", 30)
    )
    return known
