"""Discovery documents, of both kinds that servers write, read into what is kept of them. Pure."""

from __future__ import annotations

import msgspec

from bridge.kube.catalogue import GroupVersion, Served
from bridge.model.resource import Resource

NEEDED_VERBS = frozenset({"list", "watch"})

# ── Aggregated discovery (KEP-3352): everything in one document ──────────────


class _Kind(msgspec.Struct):
    kind: str = ""


class _AggregatedResource(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _Kind | None = None
    scope: str = ""
    singular_resource: str = ""
    verbs: list[str] = []
    short_names: list[str] = []


class _AggregatedVersion(msgspec.Struct):
    version: str
    resources: list[_AggregatedResource] | None = None
    freshness: str = ""


class _AggregatedMetadata(msgspec.Struct):
    name: str = ""


class _AggregatedGroup(msgspec.Struct):
    metadata: _AggregatedMetadata
    versions: list[_AggregatedVersion] | None = None


class _Aggregated(msgspec.Struct):
    items: list[_AggregatedGroup] | None = None


def read_aggregated(body: bytes) -> list[GroupVersion]:
    """An APIGroupDiscoveryList, v2 or v2beta1. Raises one of ``wire.UNREADABLE``."""
    document = msgspec.json.decode(body, type=_Aggregated)
    return [
        _group_version(
            group.metadata.name,
            version.version,
            [
                _Found(
                    each.resource,
                    each.response_kind.kind if each.response_kind else "",
                    each.scope == "Namespaced",
                    each.singular_resource,
                    each.verbs,
                    each.short_names,
                )
                for each in version.resources or ()
            ],
            stale=version.freshness == "Stale",
        )
        for group in document.items or ()
        for version in group.versions or ()
    ]


# ── Classic discovery: a list of groups, and a document for each ─────────────


class _ClassicVersion(msgspec.Struct, rename="camel"):
    group_version: str


class _ClassicGroup(msgspec.Struct, rename="camel"):
    versions: list[_ClassicVersion] | None = None
    preferred_version: _ClassicVersion | None = None


class _ClassicGroups(msgspec.Struct):
    groups: list[_ClassicGroup] | None = None
    versions: list[str] | None = None
    """Of the core group, in /api."""


class _ClassicResource(msgspec.Struct, rename="camel"):
    name: str
    kind: str = ""
    namespaced: bool = False
    singular_name: str = ""
    verbs: list[str] = []
    short_names: list[str] = []


class _ClassicResources(msgspec.Struct):
    resources: list[_ClassicResource] | None = None


def read_classic_groups(body: bytes) -> list[str]:
    """The groups with their versions in an APIVersions or APIGroupList, preferred versions first: ``v1``,
    ``apps/v1``. Raises one of ``wire.UNREADABLE``."""
    document = msgspec.json.decode(body, type=_ClassicGroups)
    names = list(document.versions or ())
    for group in document.groups or ():
        preferred = [group.preferred_version] if group.preferred_version else []
        names += dict.fromkeys(each.group_version for each in (*preferred, *(group.versions or ())))
    return names


def read_classic_resources(name: str, body: bytes) -> GroupVersion:
    """The APIResourceList of a group in one version. Raises one of ``wire.UNREADABLE``."""
    document = msgspec.json.decode(body, type=_ClassicResources)
    found = [
        _Found(each.name, each.kind, each.namespaced, each.singular_name, each.verbs, each.short_names)
        for each in document.resources or ()
        if "/" not in each.name  # Subresources.
    ]
    return _group_version(*_parts(name), found)


def unknown_for_now(name: str) -> GroupVersion:
    """A group whose server does not answer."""
    return GroupVersion(*_parts(name), stale=True)


def gone(name: str) -> GroupVersion:
    """A group that serves nothing any more."""
    return GroupVersion(*_parts(name))


def _parts(name: str) -> tuple[str, str]:
    group, _, version = name.rpartition("/")
    return group, version


class _Found(msgspec.Struct, array_like=True):
    plural: str
    kind: str
    namespaced: bool
    singular: str
    verbs: list[str]
    short_names: list[str]


def _group_version(group: str, version: str, found: list[_Found], *, stale: bool = False) -> GroupVersion:
    served: list[Served] = []
    unwatchable: list[str] = []
    for each in found:
        resource = Resource(group, version, each.plural, each.kind, each.namespaced)
        if each.kind and NEEDED_VERBS.issubset(each.verbs):
            served.append(Served(resource, each.singular or each.kind.lower(), tuple(each.short_names)))
        else:
            unwatchable.append(resource.name)
    return GroupVersion(group, version, tuple(served), tuple(unwatchable), stale)
