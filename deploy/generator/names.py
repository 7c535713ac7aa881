"""files/resources.json: kubectl's names of Kubernetes' own resources, since a template cannot ask a cluster."""

from __future__ import annotations

from bridge.kube import Catalogue, ClusterAccess, connect, resolve_name
from bridge.playground import Playground


async def resource_names() -> dict[str, dict[str, str | bool]]:
    """Each plural, singular, short name and kind, alone and with its group, in small letters → the resource that it
    means where only Kubernetes' own resources are served."""
    async with Playground() as cluster, connect(ClusterAccess(server=cluster.url)) as client:
        catalogue = await client.discover()
    return {name: _resource(name, catalogue) for name in sorted(_names(catalogue))}


def _names(catalogue: Catalogue) -> set[str]:
    names = set()
    for served in catalogue.served:
        resource = served.resource
        for word in (resource.plural, served.singular, resource.kind.lower(), *served.short_names):
            names |= {word, f"{word}.{resource.group}"} if resource.group else {word}
    return names


def _resource(name: str, catalogue: Catalogue) -> dict[str, str | bool]:
    [resource] = resolve_name(name, catalogue)
    return {"group": resource.group, "resource": resource.plural, "namespaced": resource.namespaced}
