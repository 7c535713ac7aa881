"""Reads discovery documents, aggregated and classic, into groups with versions and resources; checks their names, and
bounds their number.

An aggregated API server writes its own part of the document, and the names of its resources become paths of URLs,
topics and lines of logs. The bridge accepts the names that kube-apiserver accepts in a CustomResourceDefinition or an
APIService (apimachinery's ``pkg/util/validation``): DNS names, which cannot leave their segment of a path. A name that
is not accepted, or a malformed entry, is rejected alone, with a reason for the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from bridge.kube.catalogue import GroupVersion, Served
from bridge.kube.wire.objects import UNREADABLE
from bridge.kube.wire.status import shortened
from bridge.model.resource import Resource

MOST_VERSIONS = 5_000
"""Pairs of group and version in a document."""
MOST_RESOURCES = 2_000
"""Resources of a group in a version. The largest known groups have some hundred."""
MOST_SHORT_NAMES = 16
"""Short names of a resource."""
MOST_MEMBERS = 2_000_000
"""Members of all objects and arrays in a document: ten thousand resources have some 300,000."""
LONGEST_SUBDOMAIN = 253
MOST_REJECTED = 20
"""Rejections that are reported singly."""

NEEDED_VERBS = frozenset({"list", "watch"})
CUSTOM_VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
"""The order in which kube-apiserver writes the verbs of custom resources (apiextensions-apiserver's ``crdHandler``);
every other server sorts them. So this order shows that a definition made the resource."""

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_KIND = re.compile(r"[A-Za-z](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?")

T = TypeVar("T")


class Contents(NamedTuple):
    """The accepted and the rejected part of a document."""

    versions: tuple[GroupVersion, ...]
    rejected: tuple[str, ...]


# ── Aggregated discovery (KEP-3352): everything in one document ───────────────


class _AggregatedResource(msgspec.Struct, rename="camel"):
    """A resource. Only its name must be a string: another member that is null or of another type counts as missing."""

    resource: str
    response_kind: Any = None
    scope: Any = None
    singular_resource: Any = None
    verbs: Any = None
    short_names: Any = None

    def found(self) -> _FoundResource:
        kind = self.response_kind.get("kind") if isinstance(self.response_kind, dict) else None
        namespaced = self.scope == "Namespaced"
        return _found(self.resource, kind, namespaced, self.singular_resource, self.verbs, self.short_names)


class _AggregatedVersion(msgspec.Struct):
    version: str
    resources: list[msgspec.Raw] | None = None
    freshness: Any = None


class _AggregatedGroup(msgspec.Struct):
    metadata: Any = None
    versions: list[msgspec.Raw] | None = None


class _Aggregated(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


def read_aggregated(body: bytes, path: str) -> Contents:
    """Reads an APIGroupDiscoveryList, v2 or v2beta1. A malformed group, version or resource is rejected alone; a
    malformed document raises an error of UNREADABLE."""
    versions: list[GroupVersion] = []
    rejected: list[str] = []
    for group, found in _each(_entries(body, _Aggregated).items, _AggregatedGroup, "group", MOST_VERSIONS, rejected):
        metadata = found.metadata if isinstance(found.metadata, dict) else {}
        name = _text(metadata.get("name"))
        group = f"{printed(name)} version" if name else f"{group} version"
        for _, each in _each(found.versions, _AggregatedVersion, group, MOST_VERSIONS, rejected):
            _accept(_aggregated_version(name, each), path, versions, rejected)
    return Contents(tuple(versions), some(rejected))


def _aggregated_version(group: str, version: _AggregatedVersion) -> GroupVersion:
    rejected: list[str] = []
    found = _each(version.resources, _AggregatedResource, "resource", MOST_RESOURCES, rejected)
    resources = [each.found() for _, each in found]
    return _group_version(group, version.version, resources, rejected, stale=version.freshness == "Stale")


# ── Classic discovery: a list of groups, and a document for each ──────────────


class _ClassicVersion(msgspec.Struct, rename="camel"):
    group_version: str


class _ClassicGroup(msgspec.Struct, rename="camel"):
    versions: list[msgspec.Raw] | None = None
    preferred_version: msgspec.Raw = msgspec.Raw(b"null")


class _ClassicGroups(msgspec.Struct):
    groups: list[msgspec.Raw] | None = None
    versions: Any = None
    """The core group's versions, in /api."""


class _ClassicResource(msgspec.Struct, rename="camel"):
    name: str
    kind: Any = None
    namespaced: Any = None
    singular_name: Any = None
    verbs: Any = None
    short_names: Any = None

    def found(self) -> _FoundResource:
        return _found(self.name, self.kind, self.namespaced is True, self.singular_name, self.verbs, self.short_names)


class _ClassicResources(msgspec.Struct):
    resources: list[msgspec.Raw] | None = None


def read_classic_groups(body: bytes, path: str) -> Contents:
    """Reads an APIVersions or APIGroupList: groups with versions, preferred versions first, without their resources,
    which take a request for each. A malformed group or version is rejected alone. Raises an error of
    UNREADABLE."""
    document = _entries(body, _ClassicGroups)
    rejected: list[str] = []
    names = _texts(document.versions)[:MOST_VERSIONS]
    for _, group in _each(document.groups, _ClassicGroup, "group", MOST_VERSIONS, rejected):
        preferred = [group.preferred_version] if bytes(group.preferred_version) != b"null" else []
        of_group = [*preferred, *(group.versions or ())]
        found = _each(of_group, _ClassicVersion, "a version of a group: entry", MOST_VERSIONS, rejected)
        names += dict.fromkeys(each.group_version for _, each in found)
    versions: list[GroupVersion] = []
    for name in names:
        _accept(gone(name), path, versions, rejected)
    return Contents(tuple(versions), some(rejected))


def read_classic_resources(name: str, body: bytes) -> GroupVersion:
    """Reads the APIResourceList of a group in a version. A malformed resource is rejected alone. Raises an error of
    UNREADABLE."""
    rejected: list[str] = []
    entries = _entries(body, _ClassicResources).resources
    found = _each(entries, _ClassicResource, "resource", 2 * MOST_RESOURCES, rejected)
    resources = [each.found() for _, each in found if "/" not in each.name]  # Subresources.
    return _group_version(*_parts(name), resources, rejected)


def unknown_for_now(name: str) -> GroupVersion:
    """A group whose server does not answer."""
    return GroupVersion(*_parts(name), stale=True)


def gone(name: str) -> GroupVersion:
    """A group without resources."""
    return GroupVersion(*_parts(name))


def _parts(name: str) -> tuple[str, str]:
    group, _, version = name.rpartition("/")
    return group, version


# ── Common to both formats ────────────────────────────────────────────────────


class _FoundResource(NamedTuple):
    plural: str
    kind: str
    namespaced: bool
    singular: str
    verbs: list[str]
    short_names: list[str]


def _found(plural: str, kind: Any, namespaced: bool, singular: Any, verbs: Any, short_names: Any) -> _FoundResource:
    return _FoundResource(plural, _text(kind), namespaced, _text(singular), _texts(verbs), _texts(short_names))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _entries(body: bytes, document: type[T]) -> T:
    """Decodes a document whose entries are decoded one by one: a malformed one must not cost its neighbours. An entry
    that is not decoded yet takes more memory than a byte of it."""
    if body.count(b",") > MOST_MEMBERS:
        raise msgspec.DecodeError(f"it has more than {MOST_MEMBERS} members")
    return msgspec.json.decode(body, type=document)


def _each(
    entries: Sequence[msgspec.Raw] | None, kind: type[T], what: str, most: int, rejected: list[str]
) -> Iterator[tuple[str, T]]:
    """Decodes the first ``most`` entries, each with its place. A malformed one is rejected."""
    found = entries or ()
    for number, each in enumerate(found[:most], 1):
        place = f"{what} {number}"
        try:
            decoded = msgspec.json.decode(each, type=kind)
        except UNREADABLE as error:
            if len(rejected) <= MOST_REJECTED:
                rejected.append(f"{place}: {shortened(str(error))}")
        else:
            yield place, decoded
    if len(found) > most:
        rejected.append(f"{what}: only the first {most} of {len(found)} are taken in")


def _accept(version: GroupVersion, path: str, versions: list[GroupVersion], rejected: list[str]) -> None:
    if not is_group(version.group, path) or not is_label(version.version):
        if len(rejected) <= MOST_REJECTED:
            rejected.append(f"{printed(str(version))}: a group is a DNS name, and a version a DNS label")
    elif len(versions) >= MOST_VERSIONS:
        rejected.append(f"{version}: only the first {MOST_VERSIONS} groups and versions are taken in")
    else:
        versions.append(version)


def _group_version(
    group: str, version: str, found: list[_FoundResource], rejected: list[str], *, stale: bool = False
) -> GroupVersion:
    served: dict[str, Served] = {}
    unwatchable: list[str] = []
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
    if len(found) > MOST_RESOURCES:  # Beside subresources.
        rejected.append(f"resource: only the first {MOST_RESOURCES} of {len(found)} are taken in")
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


# ── Names ─────────────────────────────────────────────────────────────────────


def is_accepted(resource: Resource) -> bool:
    """Whether all names of the resource are accepted. A checkpoint's resources pass here too: an older release may have
    accepted more."""
    group = is_group(resource.group, "/apis" if resource.group else "/api")
    return group and is_label(resource.version) and is_label(resource.plural) and is_kind(resource.kind)


def is_label(name: str) -> bool:
    """RFC 1123: plurals, singulars, short names and versions."""
    return _LABEL.fullmatch(name) is not None


def is_kind(name: str) -> bool:
    return _KIND.fullmatch(name) is not None


def is_group(name: str, path: str) -> bool:
    """The core group has no name and is served under /api; all other groups have a name and are served under /apis."""
    if path == "/api":
        return name == ""
    return len(name) <= LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


def printed(name: str) -> str:
    """A rejected name for a log line: quoted, escaped, and shortened."""
    return shortened(ascii(name[:100]))


def some(rejected: Iterable[str]) -> tuple[str, ...]:
    """The distinct reasons. Reasons beyond MOST_REJECTED are replaced by a note that there are more."""
    once = tuple(dict.fromkeys(rejected))
    return once if len(once) <= MOST_REJECTED else (*once[:MOST_REJECTED], "more like these")
