"""Knows the kinds that the server serves, and their paths in the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from bridge.model.resource import Resource

EVERY_VERB = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource named in discovery. The server serves only ``status``."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str | None = None
    """The group of its kind, if it differs from the resource's group."""
    version: str | None = None


class PrinterColumn(msgspec.Struct, frozen=True):
    """A column of the tables that kubectl prints, as a CustomResourceDefinition has it."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    """Above 0 for a column that only ``-o wide`` shows."""
    path: str = msgspec.field(name="jsonPath", default="")
    """The JSONPath of its cells, in a custom kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of object, in all served versions."""

    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    """The preferred version first."""
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = EVERY_VERB
    subresources: tuple[Subresource, ...] = ()
    singular: str = ""
    list_kind: str = ""
    custom: bool = False
    """A CustomResourceDefinition made it: JSON members are sorted by name, list items have kind and apiVersion."""
    stored_as: str = ""
    """The collection that another kind has, in whose form the objects are (events, in both of their groups)."""
    hash_version: str = ""
    """The version behind discovery's storageVersionHash; by default the preferred version."""
    status_versions: tuple[str, ...] | None = None
    """Versions with a status subresource; None if all versions have it."""
    columns: Mapping[str, tuple[PrinterColumn, ...]] = field(default_factory=dict)
    """The columns that a custom kind's definition adds to the name, by version."""

    @property
    def name(self) -> str:
        """As kubectl names it: ``pods``, ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def collection(self) -> str:
        """The name of the collection that stores its objects."""
        return self.stored_as or self.name

    @property
    def watchable(self) -> bool:
        return "watch" in self.verbs

    def has_status(self, version: str) -> bool:
        return any(each.name == "status" for each in self.subresources_in(version))

    def subresources_in(self, version: str) -> tuple[Subresource, ...]:
        if self.status_versions is None or version in self.status_versions:
            return self.subresources
        return tuple(each for each in self.subresources if each.name != "status")

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    def resource(self, version: str = "") -> Resource:
        """The resource in the model of the bridge; ``version`` defaults to the preferred version."""
        return Resource(self.group, version or self.versions[0], self.plural, self.kind, self.namespaced)


class ServedKinds:
    """The kinds served now. Custom kinds come and go with their definitions."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._by_name: dict[str, Kind] = {}
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._groups: dict[str, list[str]] = {}
        self.documents: dict[bool, tuple[bytes, str]] = {}
        """What discovery has made of them, until they change."""
        for kind in kinds:
            self._put(kind)
        self._index()

    def add(self, kind: Kind) -> None:
        self._put(kind)
        self._index()

    def _put(self, kind: Kind) -> None:
        self._by_name.pop(kind.name, None)
        self._by_name[kind.name] = kind

    def remove(self, name: str) -> None:
        if self._by_name.pop(name, None):
            self._index()

    def named(self, name: str) -> Kind:
        """By kubectl's name, ``deployments.apps``. Raises LookupError."""
        try:
            return self._by_name[name]
        except KeyError:
            raise LookupError(f"the playground serves no {name}; names are like pods, deployments.apps") from None

    def at(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_path.get((group, version, plural))

    def versions(self, group: str) -> list[str]:
        """The group's versions, preferred first; empty for an unknown group."""
        return self._groups.get(group, [])

    def groups(self) -> list[str]:
        """The named groups, in discovery's order."""
        return [group for group in self._groups if group]

    def within(self, group: str, version: str) -> list[Kind]:
        """The kinds of a group in a version, sorted by name as in discovery."""
        found = (kind for kind in self if kind.group == group and version in kind.versions)
        return sorted(found, key=lambda kind: kind.plural)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_name.values())

    def _index(self) -> None:
        self.documents = {}
        self._by_path = {(kind.group, version, kind.plural): kind for kind in self for version in kind.versions}
        self._groups = {}
        for kind in self:
            known = self._groups.setdefault(kind.group, [])
            known += [version for version in kind.versions if version not in known]
