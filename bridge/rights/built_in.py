"""The names of Kubernetes' own resources, which mean the same on every cluster: no other group can claim them."""

from __future__ import annotations

from functools import cache

from bridge.kube import Catalogue, Served, UnknownResource, resolve_name
from bridge.kube.discovery.catalogue import Document, GroupVersion
from bridge.model.resource_name import ResourceName
from bridge.plan.plan import Wanted


@cache
def built_in_catalogue() -> Catalogue:
    """What a cluster without custom resources and aggregated API servers serves."""
    # Imported here: it brings the whole simulated API server along.
    from bridge.playground.objects.builtin import BUILT_IN

    versions = [
        GroupVersion(kind.group, version, (Served(kind.resource(version), kind.singular, kind.short_names),))
        for kind in BUILT_IN
        if kind.watchable
        for version in kind.versions
    ]
    return Catalogue((Document("", None, tuple(versions)),))


def is_built_in(wanted: Wanted) -> bool:
    """Whether the rights of this entry are known without a cluster. Those of a wildcard in namespaces are not: they
    depend on the resources under it that have no namespace."""
    if wanted.is_wildcard:
        return not all(scope.namespace for scope in wanted.scopes)
    try:
        resolve_name(wanted.name, built_in_catalogue())
    except UnknownResource:
        return False
    return True


def is_written_out(wanted: Wanted) -> bool:
    """Whether the entry can be taken for plural and group where no cluster can be asked."""
    return not wanted.is_wildcard and bool(ResourceName.parsed(wanted.name).group)
