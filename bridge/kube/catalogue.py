"""What an API server serves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bridge.model.resource import Resource


@dataclass(frozen=True, slots=True)
class Served:
    """A resource that can be listed and watched, with the other names it goes by."""

    resource: Resource
    singular: str
    short_names: tuple[str, ...] = ()
    custom: bool = False
    """By a definition: kube-apiserver itself serves it."""


@dataclass(frozen=True, slots=True)
class GroupVersion:
    group: str
    version: str
    served: tuple[Served, ...] = ()
    unwatchable: tuple[str, ...] = ()
    """Names, as kubectl has them, of resources without list or watch."""
    stale: bool = False
    """The server could not say; this is what it said before."""
    rejected: tuple[str, ...] = ()
    """What it said besides, and is not accepted: names, escaped, each with the reason."""

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class Document:
    """What one discovery address said."""

    path: str
    etag: str | None
    versions: tuple[GroupVersion, ...]
    rejected: tuple[str, ...] = ()
    """Groups and versions that are not accepted."""


@dataclass(frozen=True, slots=True)
class Catalogue:
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
        """Groups with their versions, ``metrics.k8s.io/v1beta1``, of which the server says that it cannot say."""
        return frozenset(str(version) for version in self.versions if version.stale)

    @property
    def rejected(self) -> frozenset[str]:
        """What is not accepted, of all documents: names, escaped, each with the reason."""
        within = {each for version in self.versions for each in version.rejected}
        return frozenset(within.union(*(document.rejected for document in self.documents)))

    def document(self, path: str) -> Document | None:
        return next((each for each in self.documents if each.path == path), None)


@dataclass(frozen=True, slots=True)
class CatalogueChange:
    appeared: tuple[Resource, ...]
    gone: tuple[Resource, ...]
    """A definition that changes its version has one here and one in ``appeared``, with the same name."""


def difference(before: Catalogue, after: Catalogue) -> CatalogueChange:
    old, new = before.resources, after.resources
    known, found = set(old), set(new)
    return CatalogueChange(
        tuple(each for each in new if each not in known), tuple(each for each in old if each not in found)
    )


def keep_stale(found: Sequence[GroupVersion], previous: Document | None) -> tuple[GroupVersion, ...]:
    """Where the server could not say what it serves, what it served before still holds: an aggregated server that is
    down has taken nothing away."""
    known = {str(version): version for version in previous.versions} if previous else {}
    return tuple(
        replace(known.get(str(version), version), stale=True) if version.stale else version for version in found
    )
