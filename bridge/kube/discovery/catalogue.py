"""The resources that an API server serves. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import structs

from bridge.model.resource import Resource


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
