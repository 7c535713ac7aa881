"""Compares what a destination holds with what is live. Pure.

Both move while one looks. So what differs at first is a suspect, is looked at again and again, and is only told as a
difference when the destination did not come to where the cluster had been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from bridge.model.change import Op
from bridge.model.resource import Resource, Scope
from bridge.model.resource_name import ResourceName
from bridge.model.versions.stored_version import ReadFilter, StoredKind, StoredVersion
from bridge.model.versions.version import is_older
from bridge.plan.plan import Wanted


class Version(msgspec.Struct, frozen=True, gc=False):
    """Which state of which object stands behind a name."""

    uid: str
    resource_version: str


class Verdict(StrEnum):
    MISSING = "missing"
    """Live; the destination has no such object, or has it as deleted."""
    STALE = "stale"
    """The destination has another version, or another object of the same name."""
    EXTRA = "extra"
    """The destination has it; in the cluster it is gone."""


@dataclass(frozen=True, slots=True)
class Difference:
    verdict: Verdict
    key: str
    """The partition key."""
    live: Version | None
    held: Version | None


@dataclass(frozen=True, slots=True)
class Name:
    """The parts of a partition key."""

    cluster: str
    group: str
    plural: str
    namespace: str
    name: str

    @property
    def resource(self) -> str:
        """As kubectl names it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def key(self) -> str:
        """``namespace/name`` or ``name``."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def parsed(cls, partition_key: str) -> Name | None:
        parts = partition_key.split("/")
        return cls(*parts) if len(parts) == 5 else None


# ── What is compared ─────────────────────────────────────────────────────────


class Coverage:
    """Which objects the configuration speaks of.

    A resource that the cluster does not serve has no live objects. What a destination holds of it is compared all the
    same where a configured name means it, as far as that can be told from the text.
    """

    def __init__(
        self,
        wanted: Sequence[Wanted],
        listed: Iterable[tuple[Resource, Scope]],
        served: Iterable[Resource],
        unresolved: Collection[str] = (),
    ) -> None:
        """``listed``: what is looked at. ``served``: all that the cluster has, whatever the configuration says.
        ``unresolved``: configured names that mean nothing there now."""
        self._wanted = wanted
        self._served = {resource.name for resource in served}
        self._namespaces: dict[str, set[str | None]] = {}
        sought = []
        for resource, scope in listed:
            self._namespaces.setdefault(resource.name, set()).add(scope.namespace)
            namespace = scope.namespace if resource.namespaced else ""
            sought.append(ReadFilter(resource.group, resource.version, resource.plural, resource.kind, namespace))
        for each in wanted:
            if each.is_wildcard:
                sought.append(ReadFilter())
            elif each.name in unresolved:
                sought.append(ReadFilter(plural=ResourceName.parsed(each.name).word))
        self.sought = tuple(dict.fromkeys(sought))
        """What must be read to find everything that is covered."""

    def covers(self, name: Name) -> bool:
        if name.resource in self._served:
            namespaces = self._namespaces.get(name.resource, set())
            return None in namespaces or name.namespace in namespaces
        return any(
            ResourceName.parsed(each.name).may_mean(name.group, name.plural) and _reaches(each.scopes, name.namespace)
            for each in self._wanted
        )


def _reaches(scopes: Sequence[Scope], namespace: str) -> bool:
    return not namespace or any(scope.namespace in (None, namespace) for scope in scopes)


# ── What is held ─────────────────────────────────────────────────────────────


class Holdings:
    """The state that a reader of one destination ends up with: of each object the last that was told of it."""

    def __init__(self, cluster: str, coverage: Coverage) -> None:
        self._cluster = cluster
        self._coverage = coverage
        self.objects: dict[str, Version] = {}
        """By partition key; those that are covered, and not told as deleted."""
        self.arrived: dict[str, dict[str, str]] = {}
        """What was told since ``watch``, deletes included: partition key → uid → newest resourceVersion."""
        self._watching = False
        self.records = 0
        self.gaps = 0
        """Notices in the stream that something is missing from it."""
        self.foreign = 0
        """Records that are not of the bridge or could not be read, or are of another cluster."""
        self.uncovered: Counter[str] = Counter()
        """Records about resources and namespaces that are not configured, by the resource's name."""

    def watch(self) -> None:
        self._watching = True

    def take(self, batch: Iterable[StoredVersion]) -> None:
        for held in batch:
            self.records += 1
            if held.kind is StoredKind.OBJECT:
                self._take_object(held)
            elif held.kind is StoredKind.FOREIGN or held.partition_key != self._cluster:
                self.foreign += 1
            elif held.kind is StoredKind.GAP:
                self.gaps += 1

    def _take_object(self, held: StoredVersion) -> None:
        key = held.partition_key
        if key not in self.objects:
            name = Name.parsed(key)
            if name is None or name.cluster != self._cluster:
                self.foreign += 1
                return
            if not self._coverage.covers(name):
                self.uncovered[name.resource] += 1
                return
        if self._watching:
            newest = self.arrived.setdefault(key, {})
            if not is_older(held.resource_version, than=newest.get(held.uid, "")):
                newest[held.uid] = held.resource_version
        if held.op is Op.DELETED:
            self.objects.pop(key, None)
        else:
            self.objects[key] = Version(held.uid, held.resource_version)


# ── Comparing ────────────────────────────────────────────────────────────────


def differences(live: Mapping[str, Version], held: Mapping[str, Version]) -> dict[str, Difference]:
    """Between two moments that may not be the same, by partition key."""
    found = {key: each for key, version in live.items() if (each := difference(key, version, held.get(key)))}
    for key in held.keys() - live.keys():
        found[key] = Difference(Verdict.EXTRA, key, None, held[key])
    return found


def difference(key: str, live: Version | None, held: Version | None) -> Difference | None:
    if live == held:
        return None
    if held is None:
        return Difference(Verdict.MISSING, key, live, held)
    return Difference(Verdict.EXTRA if live is None else Verdict.STALE, key, live, held)


@dataclass(slots=True)
class Suspect:
    """An object that differed. ``difference`` is as it looked last."""

    difference: Difference
    seen: list[Version | None] = field(default_factory=list)
    """As it was in the cluster, one look after the other; None where it was gone."""

    def clears(self, live: Version | None, held: Version | None, arrived: Mapping[str, str]) -> bool:
        """After a look at the cluster, and then at the destination: True when the destination is right, or was told
        where the cluster was at one of the looks, or what is newer. It is at work then, and the rest is under way.
        ``arrived``, as in ``Holdings``, is watched from before the first look."""
        found = difference(self.difference.key, live, held)
        if found is None:
            return True
        self.difference = found
        self.seen.append(live)
        if held is None and None in self.seen:
            return True  # It was not so at that look: the delete came since.
        return any(_came_to(each, arrived) for each in self.seen if each)


def _came_to(live: Version, arrived: Mapping[str, str]) -> bool:
    told = arrived.get(live.uid)
    return told is not None and (told == live.resource_version or is_older(live.resource_version, than=told))
