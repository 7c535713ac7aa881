"""Reads discovery documents, aggregated and classic, into groups with versions and resources. Pure."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from bridge.kube.discovery.accepted import (
    MOST_RESOURCES,
    MOST_SHORT_NAMES,
    MOST_VERSIONS,
    is_group,
    is_kind,
    is_label,
    printed,
    some,
)
from bridge.kube.discovery.catalogue import GroupVersion, Served
from bridge.kube.wire.objects import UNREADABLE
from bridge.kube.wire.status import shortened
from bridge.model.resource import Resource

NEEDED_VERBS = frozenset({"list", "watch"})
CUSTOM_VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
"""The order in which kube-apiserver writes the verbs of custom resources (apiextensions-apiserver's ``crdHandler``);
every other server sorts them. So this order shows that a definition made the resource."""


class Contents(NamedTuple):
    """The accepted and the rejected part of a document."""

    versions: tuple[GroupVersion, ...]
    rejected: tuple[str, ...]


# ── Aggregated discovery (KEP-3352): everything in one document ──────────────


class _ResponseKind(msgspec.Struct):
    kind: str = ""


class _AggregatedResource(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _ResponseKind | None = None
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
    versions: list[msgspec.Raw] | None = None


class _Aggregated(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


def read_aggregated(body: bytes, path: str) -> Contents:
    """Reads an APIGroupDiscoveryList, v2 or v2beta1. A malformed group is rejected; a malformed document raises an
    error of ``wire.UNREADABLE``."""
    versions: list[GroupVersion] = []
    rejected: list[str] = []
    # Group by group: a malformed group of an aggregated API server must not cost the other groups.
    for number, item in enumerate(msgspec.json.decode(body, type=_Aggregated).items or (), 1):
        group = f"group {number}"
        try:
            found = msgspec.json.decode(item, type=_AggregatedGroup)
            group = found.metadata.name
            for each in found.versions or ():
                version = _aggregated_version(group, msgspec.json.decode(each, type=_AggregatedVersion))
                _accept(version, path, versions, rejected)
        except UNREADABLE as error:
            rejected.append(f"{printed(group)}: {shortened(str(error))}")
    return Contents(tuple(versions), some(rejected))


def _aggregated_version(group: str, version: _AggregatedVersion) -> GroupVersion:
    found = [
        _FoundResource(
            each.resource,
            each.response_kind.kind if each.response_kind else "",
            each.scope == "Namespaced",
            each.singular_resource,
            each.verbs,
            each.short_names,
        )
        for each in version.resources or ()
    ]
    return _group_version(group, version.version, found, stale=version.freshness == "Stale")


# ── Classic discovery: a list of groups, and a document for each ─────────────


class _ClassicVersion(msgspec.Struct, rename="camel"):
    group_version: str


class _ClassicGroup(msgspec.Struct, rename="camel"):
    versions: list[_ClassicVersion] | None = None
    preferred_version: _ClassicVersion | None = None


class _ClassicGroups(msgspec.Struct):
    groups: list[_ClassicGroup] | None = None
    versions: list[str] | None = None
    """The core group's versions, in /api."""


class _ClassicResource(msgspec.Struct, rename="camel"):
    name: str
    kind: str = ""
    namespaced: bool = False
    singular_name: str = ""
    verbs: list[str] = []
    short_names: list[str] = []


class _ClassicResources(msgspec.Struct):
    resources: list[_ClassicResource] | None = None


def read_classic_groups(body: bytes, path: str) -> Contents:
    """Reads an APIVersions or APIGroupList: groups with versions, preferred versions first, without their resources,
    which take a request for each. Raises an error of ``wire.UNREADABLE``."""
    document = msgspec.json.decode(body, type=_ClassicGroups)
    names = list(document.versions or ())
    for group in document.groups or ():
        preferred = [group.preferred_version] if group.preferred_version else []
        names += dict.fromkeys(each.group_version for each in (*preferred, *(group.versions or ())))
    versions: list[GroupVersion] = []
    rejected: list[str] = []
    for name in names:
        _accept(gone(name), path, versions, rejected)
    return Contents(tuple(versions), some(rejected))


def read_classic_resources(name: str, body: bytes) -> GroupVersion:
    """Reads the APIResourceList of a group in a version. Raises an error of ``wire.UNREADABLE``."""
    document = msgspec.json.decode(body, type=_ClassicResources)
    found = [
        _FoundResource(each.name, each.kind, each.namespaced, each.singular_name, each.verbs, each.short_names)
        for each in document.resources or ()
        if "/" not in each.name  # Subresources.
    ]
    return _group_version(*_parts(name), found)


def unknown_for_now(name: str) -> GroupVersion:
    """A group whose server does not answer."""
    return GroupVersion(*_parts(name), stale=True)


def gone(name: str) -> GroupVersion:
    """A group without resources."""
    return GroupVersion(*_parts(name))


def _parts(name: str) -> tuple[str, str]:
    group, _, version = name.rpartition("/")
    return group, version


# ── Common to both formats ───────────────────────────────────────────────────


class _FoundResource(msgspec.Struct, array_like=True):
    plural: str
    kind: str
    namespaced: bool
    singular: str
    verbs: list[str]
    short_names: list[str]


def _accept(version: GroupVersion, path: str, versions: list[GroupVersion], rejected: list[str]) -> None:
    if not is_group(version.group, path) or not is_label(version.version):
        rejected.append(f"{printed(str(version))}: a group is a DNS name, and a version a DNS label")
    elif len(versions) >= MOST_VERSIONS:
        rejected.append(f"{version}: only the first {MOST_VERSIONS} groups and versions are taken in")
    else:
        versions.append(version)


def _group_version(group: str, version: str, found: list[_FoundResource], *, stale: bool = False) -> GroupVersion:
    served: dict[str, Served] = {}
    unwatchable: list[str] = []
    rejected: list[str] = []
    for each in found[:MOST_RESOURCES]:
        resource = Resource(group, version, each.plural, each.kind, each.namespaced)
        watchable = each.kind and NEEDED_VERBS.issubset(each.verbs)
        if is_label(each.plural) and is_kind(each.kind) and watchable:
            found_here = Served(resource, _singular(each), _short_names(each, rejected), each.verbs == CUSTOM_VERBS)
            served.setdefault(each.plural, found_here)
        elif is_label(each.plural) and not watchable:
            unwatchable.append(resource.name)
        elif watchable:
            rejected.append(f"{printed(each.plural)} of kind {printed(each.kind)}: a DNS label and a kind are expected")
    if len(found) > MOST_RESOURCES:
        rejected.append(f"only the first {MOST_RESOURCES} of its {len(found)} resources are taken in")
    within = GroupVersion(group, version, tuple(served.values()), tuple(unwatchable), stale)
    return replace(within, rejected=some(f"{within} {text}" for text in rejected)) if rejected else within


def _singular(found: _FoundResource) -> str:
    return found.singular if is_label(found.singular) else found.kind.lower()


def _short_names(found: _FoundResource, rejected: list[str]) -> tuple[str, ...]:
    rejected += (
        f"{found.plural}: its short name {printed(name)}: a DNS label is expected"
        for name in found.short_names[:MOST_SHORT_NAMES]
        if not is_label(name)
    )
    return tuple(name for name in found.short_names[:MOST_SHORT_NAMES] if is_label(name))
