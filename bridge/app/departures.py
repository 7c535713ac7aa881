"""Counts the objects that changed entries of ``resources`` would export as deleted."""

from __future__ import annotations

from collections.abc import Collection

from bridge.kube import KubeClient
from bridge.model.resource import Resource
from bridge.operations.verify.cluster_view import ClusterView, partition_of
from bridge.outbox import Ledger, covering
from bridge.plan.resolve import ResourceChange


async def departures(cluster: str, client: KubeClient, ledger: Ledger, change: ResourceChange) -> dict[str, int]:
    """Resource → number of objects, for resources whose scopes change. Where a selector decides, the server is asked
    for the names that it chooses. Raises ClusterUnavailable, ClusterRefuses and Damaged. Memory: the keys of one
    resource at a time."""
    found = {}
    for resource, scopes in change.scopes.items():
        if set(scopes) != set(change.former[resource]):
            keys = await ledger.keys(resource.name)
            found[resource.name] = await _count(cluster, client, change, resource, keys)
    return {name: count for name, count in found.items() if count}


async def _count(
    cluster: str, client: KubeClient, change: ResourceChange, resource: Resource, keys: Collection[str]
) -> int:
    scopes = change.scopes[resource]
    whole = [scope for scope in scopes if not (scope.label_selector or scope.field_selector)]
    left = [key for key in keys if covering(whole, key) is None]
    chosen = [scope for scope in scopes if scope not in whole]
    served = {
        (name, scope): each
        for (name, scope), each in change.resolution.desired.items()
        if name == resource.name and scope in chosen
    }
    if left and served:
        live = await ClusterView(cluster, client, served).look()
        return sum(partition_of(cluster, resource, key) not in live for key in left)
    # Without the resource on the server, its objects stay until further discoveries decide.
    return sum(covering(chosen, key) is None for key in left)
