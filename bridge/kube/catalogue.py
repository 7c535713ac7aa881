"""Holds the resources that an API server serves, and resolves kubectl's names for them.

kubectl searches the plurals of all groups first, and then the short names, so there an aggregated API server with a
resource called ``po`` gets the name of the pods. Here the plurals, kinds and short names of the core group come first,
and then those of the other groups that kube-apiserver serves itself. A name that nothing serves raises UnknownResource,
with similar names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches

import msgspec
from msgspec import structs

from bridge.model.resource import Resource, ResourceName


class Served(msgspec.Struct, frozen=True):
    """A resource that can be listed and watched, with its other names."""

    resource: Resource
    singular: str
    short_names: tuple[str, ...] = ()
    custom: bool = False
    """A CustomResourceDefinition made it, so kube-apiserver itself serves it."""


class GroupVersion(msgspec.Struct, frozen=True):
    group: str
    version: str
    served: tuple[Served, ...] = ()
    unwatchable: tuple[str, ...] = ()
    """Names, as kubectl writes them, of resources without list or watch."""
    stale: bool = False
    """The group's server does not answer; the fields hold its last known contents."""
    rejected: tuple[str, ...] = ()
    """Rejected names, escaped, each with its reason."""

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Document(msgspec.Struct, frozen=True):
    """The contents of a discovery document (/api or /apis)."""

    path: str
    etag: str | None
    versions: tuple[GroupVersion, ...]
    rejected: tuple[str, ...] = ()
    """Rejected groups and versions."""


class Catalogue(msgspec.Struct, frozen=True):
    """All resources that can be listed and watched, in the server's order: the core group first, then its groups by
    priority, and the preferred version of each group before its others."""

    documents: tuple[Document, ...] = ()

    @property
    def versions(self) -> list[GroupVersion]:
        return [version for document in self.documents for version in document.versions]

    @property
    def served(self) -> list[Served]:
        return [served for version in self.versions for served in version.served]

    @property
    def resources(self) -> list[Resource]:
        return [served.resource for served in self.served]

    @property
    def stale(self) -> frozenset[str]:
        """Groups with their versions (``metrics.k8s.io/v1beta1``) whose contents the server does not know now."""
        return frozenset(str(version) for version in self.versions if version.stale)

    @property
    def rejected(self) -> frozenset[str]:
        """Rejected names of all documents, escaped, each with its reason."""
        within = {each for version in self.versions for each in version.rejected}
        return frozenset(within.union(*(document.rejected for document in self.documents)))

    def document(self, path: str) -> Document | None:
        return next((each for each in self.documents if each.path == path), None)


def keep_stale(found: Sequence[GroupVersion], previous: Document | None) -> tuple[GroupVersion, ...]:
    """Replaces stale groups by their contents in ``previous``: an aggregated API server that is down has not removed
    its resources."""
    known = {str(version): version for version in previous.versions} if previous else {}
    return tuple(
        structs.replace(known.get(str(version), version), stale=True) if version.stale else version for version in found
    )


# ── kubectl's names ───────────────────────────────────────────────────────────

NOISE = frozenset({"leases.coordination.k8s.io", "endpoints"})
"""Left out of ``*``: a heartbeat of every node every ten seconds, and the predecessor of EndpointSlices."""

TWINS = {"events.events.k8s.io": "events"}
"""The same objects under two names: ``*`` leaves out the first if the second is served."""

BUILT_IN = frozenset(
    {"apps", "autoscaling", "batch", "extensions", "policy"}
    | {
        f"{each}.k8s.io"
        for each in (
            "admissionregistration",
            "apiextensions",
            "apiregistration",
            "authentication",
            "authorization",
            "certificates",
            "coordination",
            "discovery",
            "events",
            "flowcontrol.apiserver",
            "internal.apiserver",
            "networking",
            "node",
            "rbac.authorization",
            "resource",
            "scheduling",
            "storage",
            "storagemigration",
        )
    }
)
"""The groups that kube-apiserver serves itself, beside the core group. Others end in ``.k8s.io`` too."""

LEGACY_GROUP = "extensions"
"""Its resources moved to other groups: ``*`` leaves out a resource of it if another group serves the same plural."""


class UnknownResource(Exception):
    """The cluster serves no resource of this name now. ``nearest`` are similar names, most similar first."""

    def __init__(self, name: str, reason: str, nearest: tuple[str, ...] = ()) -> None:
        hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
        super().__init__(f"{name}: {reason}{hint}")
        self.name = name
        self.reason = f"{reason}{hint}"
        self.nearest = nearest


def resolve_name(name: str, catalogue: Catalogue) -> tuple[Resource, ...]:
    """The resources of a name, in the version that the name gives or else the server prefers. Never empty.

    - ``pods``, ``pod``, ``po``, ``Pod``: plural, singular, short name or kind, in capital or small letters. If several
      groups serve the name, the core group wins, then the built-in groups, then other groups in the server's order: an
      aggregated API server cannot take over ``po`` or ``secrets``.
    - ``deployments.apps``, ``deployments.v1.apps``, ``certificates.v1.cert-manager.io``: of a group, in a version.
      Groups are written in full: the meaning of kubectl's shortened groups changes with the next definition.
    - ``*.cert-manager.io``, ``*.v1.cert-manager.io``: all resources of a group.
    - ``*``: all resources, with each object once: without ``events.events.k8s.io`` (the core group's events),
      without the resources of ``extensions`` that a newer group serves, and without ``leases.coordination.k8s.io`` and
      ``endpoints``, which are watched only by their own names.

    Raises UnknownResource.
    """
    text = name.strip()
    if "/" in text:
        raise UnknownResource(name, "a name has no slash, and subresources cannot be watched")
    parsed = ResourceName.parsed(text)
    if parsed.is_wildcard:
        return _everything(name, parsed, catalogue)
    # Rank by rank, and within a rank reading by reading: a plural of a lower rank must not win over a short name of a
    # higher rank.
    for served in _by_rank(catalogue):
        for group, version in parsed.readings:
            within = [each for each in served if _is_of(each.resource, group, version)]
            for names in (_plural, _singular_and_kind, _short_names):
                for each in within:
                    if parsed.word in names(each):
                        return (each.resource,)
    raise UnknownResource(name, *_why_unknown(text, catalogue))


def _by_rank(catalogue: Catalogue) -> tuple[list[Served], list[Served], list[Served]]:
    """The resources of the core group, of the other built-in groups, and of all other groups."""
    core: list[Served] = []
    built_in: list[Served] = []
    others: list[Served] = []
    for each in catalogue.served:
        group = each.resource.group
        (core if not group else built_in if group in BUILT_IN else others).append(each)
    return core, built_in, others


def _everything(name: str, parsed: ResourceName, catalogue: Catalogue) -> tuple[Resource, ...]:
    for group, version in parsed.readings:
        found: dict[str, Resource] = {}
        for each in catalogue.resources:
            if _is_of(each, group, version):
                found.setdefault(each.name, each)  # The preferred version comes first.
        if found:
            return tuple(found.values() if parsed.rest else _once(found.values()))
    groups = {each.group for each in catalogue.versions}
    raise UnknownResource(
        name, "this cluster serves no resources under it", _nearest(name.strip(), {f"*.{each}" for each in groups})
    )


def _once(resources: Collection[Resource]) -> Iterator[Resource]:
    names = {each.name for each in resources}
    plurals = {each.plural for each in resources if each.group != LEGACY_GROUP}
    for each in resources:
        legacy = each.group == LEGACY_GROUP and each.plural in plurals
        if each.name not in NOISE and TWINS.get(each.name) not in names and not legacy:
            yield each


def _is_of(resource: Resource, group: str | None, version: str | None) -> bool:
    return group in {None, resource.group} and version in {None, resource.version}


def _plural(served: Served) -> Iterable[str]:
    return (served.resource.plural,)


def _singular_and_kind(served: Served) -> Iterable[str]:
    return (served.singular.lower(), served.resource.kind.lower())


def _short_names(served: Served) -> Iterable[str]:
    return served.short_names


def _why_unknown(text: str, catalogue: Catalogue) -> tuple[str, tuple[str, ...]]:
    for version in catalogue.versions:
        for unwatchable in version.unwatchable:
            if text in {unwatchable, unwatchable.partition(".")[0]}:
                return f"this cluster serves {unwatchable}, but it cannot be listed and watched", ()
    return "this cluster serves no resource of that name", _nearest(text, {each.name for each in catalogue.resources})


def _nearest(text: str, known: set[str]) -> tuple[str, ...]:
    """At most three known names similar to ``text``, most similar first. ``text`` may leave out the group."""
    spoken = {name.partition(".")[0]: name for name in sorted(known, reverse=True)} | {name: name for name in known}
    matches = get_close_matches(text.lower(), spoken, n=3)
    return tuple(dict.fromkeys(spoken[match] for match in matches))


# ── Stores ────────────────────────────────────────────────────────────────────


def store_of(resource: Resource, catalogue: Catalogue) -> str:
    """The name of the store that holds the objects of a resource; "" for kube-apiserver's own etcd.

    Discovery does not show which groups an aggregated API server serves, and to list APIServices is a right that the
    bridge does not have. But kube-apiserver writes the verbs of custom resources in an order of its own: a group that
    is neither built in nor made by definitions alone counts as aggregated, and as a store of its own. Events have one
    too, because many clusters keep them apart (``--etcd-servers-overrides``). A group that is wrongly separated costs
    two more requests after a broken connection; a group that is wrongly merged would be proven by another store.
    """
    if resource.plural == "events" and resource.group in {"", "events.k8s.io"}:
        return "events"
    if not resource.group or resource.group in BUILT_IN:
        return ""
    within = [served.custom for served in catalogue.served if served.resource.group == resource.group]
    return "" if within and all(within) else resource.group
