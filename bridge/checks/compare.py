"""Compares the objects at a destination with the live objects, without I/O of its own.

Both sides change during the comparison. So an object that differs at first is a candidate, and is compared again and
again. It is a difference only if the destination never reaches a state that the cluster had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.model.change import Op
from bridge.model.formats.object_paths import ObjectName, object_name
from bridge.model.formats.stored_record import StoredKind, StoredVersion
from bridge.model.primitives.shard import Shard
from bridge.model.resource import Resource, ResourceName, Scope
from bridge.model.versions import is_older
from bridge.plan.cluster_view import Version
from bridge.plan.plan import Wanted
from sinks.reader import ReadFilter


class DifferenceKind(StrEnum):
    MISSING = "missing"
    """The object is live; the destination does not have it, or has it as deleted."""
    STALE = "stale"
    """The destination has another version, or another object (uid) of the same name."""
    EXTRA = "extra"
    """The destination has the object; the cluster does not."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An object whose stored version differs from its live version."""

    kind: DifferenceKind
    key: str
    """The partition key."""
    live: Version | None
    stored: Version | None


# ── Coverage ─────────────────────────────────────────────────────────────────


class Coverage:
    """The objects that the configuration covers.

    A resource that the cluster does not serve has no live objects. Its objects at the destination are compared all the
    same, if a configured name means it, as far as the name alone shows that.
    """

    def __init__(
        self,
        wanted: Sequence[Wanted],
        listed: Iterable[tuple[Resource, Scope]],
        served: Iterable[Resource],
        unresolved: Collection[str] = (),
    ) -> None:
        """``listed``: resources and scopes of the comparison. ``served``: all resources of the cluster.
        ``unresolved``: configured names without a resource on the cluster."""
        self._wanted = wanted
        self._served = {resource.name for resource in served}
        self._namespaces: dict[str, set[str | None]] = {}
        filters = []
        for resource, scope in listed:
            self._namespaces.setdefault(resource.name, set()).add(scope.namespace)
            namespace = scope.namespace if resource.namespaced else ""
            filters.append(ReadFilter(resource.group, resource.version, resource.plural, resource.kind, namespace))
        for each in wanted:
            if each.is_wildcard:
                filters.append(ReadFilter())
            elif each.name in unresolved:
                filters.append(ReadFilter(plural=ResourceName.parsed(each.name).word))
        self.filters = tuple(dict.fromkeys(filters))
        """Filters that find every covered object at the destination."""

    def covers(self, name: ObjectName) -> bool:
        if name.resource in self._served:
            namespaces = self._namespaces.get(name.resource, set())
            return None in namespaces or name.namespace in namespaces
        return any(
            ResourceName.parsed(each.name).may_mean(name.group, name.plural) and _reaches(each.scopes, name.namespace)
            for each in self._wanted
        )


def _reaches(scopes: Sequence[Scope], namespace: str) -> bool:
    return not namespace or any(scope.namespace in (None, namespace) for scope in scopes)


# ── The destination ──────────────────────────────────────────────────────────


class Holdings:
    """The state of a consumer that has read a destination: the last record of each object."""

    def __init__(self, cluster: str, coverage: Coverage, shard: Shard | None = None) -> None:
        """``shard``: only objects of this shard count. Other bridges write the records of the others."""
        self._cluster = cluster
        self._coverage = coverage
        self._shard = shard
        self.objects: dict[str, Version] = {}
        """Partition key → version, of covered objects whose last record is no delete."""
        self.arrived: dict[str, dict[str, str]] = {}
        """Partition key → uid → newest resourceVersion of records since ``watch``, deletes included."""
        self._watching = False
        self.records = 0
        self.gaps = 0
        """Gap records in the stream."""
        self.foreign = 0
        """Records of other programs or clusters, and unreadable records."""
        self.of_other_shards = 0
        """Records of objects in other shards."""
        self.uncovered: Counter[str] = Counter()
        """Resource's name → records about objects that the configuration does not cover."""

    def watch(self) -> None:
        self._watching = True

    def take(self, batch: Iterable[StoredVersion]) -> None:
        for stored in batch:
            self.records += 1
            if stored.kind is StoredKind.OBJECT:
                self._take_object(stored)
            elif stored.kind is StoredKind.FOREIGN or stored.partition_key != self._cluster:
                self.foreign += 1
            elif stored.kind is StoredKind.GAP:
                self.gaps += 1

    def _take_object(self, stored: StoredVersion) -> None:
        key = stored.partition_key
        if self._shard is not None and not self._shard.contains(stored.uid, "/".join(key.split("/")[-2:])):
            self.of_other_shards += 1
            return
        # A known key has passed these checks.
        if key not in self.objects:
            name = object_name(key)
            if name is None or name.cluster != self._cluster:
                self.foreign += 1
                return
            if not self._coverage.covers(name):
                self.uncovered[name.resource] += 1
                return
        if self._watching:
            newest = self.arrived.setdefault(key, {})
            if not is_older(stored.resource_version, than=newest.get(stored.uid, "")):
                newest[stored.uid] = stored.resource_version
        if stored.op is Op.DELETED:
            self.objects.pop(key, None)
        else:
            self.objects[key] = Version(stored.uid, stored.resource_version)


# ── Comparing ────────────────────────────────────────────────────────────────


def differences(live: Mapping[str, Version], stored: Mapping[str, Version]) -> dict[str, Difference]:
    """Partition key → difference between two states, which may be of different moments."""
    found = {key: each for key, version in live.items() if (each := difference(key, version, stored.get(key)))}
    for key in stored.keys() - live.keys():
        found[key] = Difference(DifferenceKind.EXTRA, key, None, stored[key])
    return found


def difference(key: str, live: Version | None, stored: Version | None) -> Difference | None:
    if live == stored:
        return None
    if stored is None:
        return Difference(DifferenceKind.MISSING, key, live, stored)
    return Difference(DifferenceKind.EXTRA if live is None else DifferenceKind.STALE, key, live, stored)


@dataclass(slots=True)
class Candidate:
    """An object that differed. ``difference`` is the latest result."""

    difference: Difference
    seen: list[Version | None] = field(default_factory=list)
    """Its live versions, one for each comparison; None where the object was gone."""

    def compare_again(self, live: Version | None, stored: Version | None, arrived: Mapping[str, str]) -> bool:
        """Compares again, with the cluster read before the destination. True if both are equal, or if the destination
        received a version that the cluster had at an earlier comparison, or a newer version: then deliveries work, and
        the rest is on its way. ``arrived``: as in ``Holdings``, from before the first comparison."""
        found = difference(self.difference.key, live, stored)
        if found is None:
            return True
        self.difference = found
        self.seen.append(live)
        if stored is None and None in self.seen:
            return True  # The object was gone in the cluster before: the delete arrived since.
        return any(_came_to(each, arrived) for each in self.seen if each)


def _came_to(live: Version, arrived: Mapping[str, str]) -> bool:
    newest = arrived.get(live.uid)
    return newest is not None and (newest == live.resource_version or is_older(live.resource_version, than=newest))
