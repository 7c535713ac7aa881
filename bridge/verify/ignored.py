"""Versions that a destination does not have because only ignored paths changed: they are known by the digests in the
state of the bridge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from bridge.kube import Catalogue
from bridge.model.formats.object_paths import object_name, partition_key
from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope
from bridge.model.versions.version import is_older
from bridge.outbox import Damaged, LedgerObject, StateError, look_at
from bridge.plan.plan import Plan
from bridge.plan.redaction_key_file import likely_redaction
from bridge.resources.resolve import ignored_by, rules_for
from bridge.transform.digest import IgnoredPaths
from bridge.transform.transform import transform_for
from bridge.verify.compare import Difference, DifferenceKind

Digest: TypeAlias = Callable[[ApiObject], bytes]
Digests: TypeAlias = Callable[[Resource, Scope], Digest | None]
"""Makes the digest of live objects in a scope, as the bridge makes it; None where no changes are ignored."""


def digests_by(plan: Plan, catalogue: Catalogue) -> Digests:
    redaction = likely_redaction(plan)

    def of(resource: Resource, scope: Scope) -> Digest | None:
        paths = ignored_by(plan.wanted, resource, scope, catalogue)
        if not paths:
            return None
        ignored = IgnoredPaths(paths)
        transform = transform_for(resource, redaction.extended(rules_for(plan.wanted, resource, catalogue)))
        return lambda live: ignored.digest(transform(live).body)

    return of


IgnoringBy: TypeAlias = Callable[[Catalogue], tuple[Digests, "IgnoredStates"]]
"""Called once the cluster is known."""


def ignoring_by(plan: Plan) -> IgnoringBy | None:
    """None if the plan ignores no changes."""
    if not any(each.ignore_changes for each in plan.wanted):
        return None
    return lambda catalogue: (digests_by(plan, catalogue), IgnoredStates(plan.state, plan.cluster))


class IgnoredStates:
    """Explains older versions at a destination. ``directory``: the state directory; without a state in it, versions of
    objects whose changes may be ignored are not judged."""

    def __init__(self, directory: Path, cluster: str) -> None:
        self._directory = directory
        self._cluster = cluster
        self._unjudged: set[str] = set()

    def unexplained(self, differences: Iterable[Difference], digests: Mapping[str, bytes]) -> Iterator[Difference]:
        """The differences that no ignored change explains. ``digests``: partition key → digest of the live object."""
        found = list(differences)
        stale = {each.key: each for each in found if each.key in digests and _is_older_version(each)}
        exported = self._exported({name.resource for key in stale if (name := object_name(key))}) if stale else {}
        for each in found:
            if each.key not in stale:
                yield each
            elif exported is None:
                self._unjudged.add(each.key)
            elif (held := exported.get(each.key)) is None or not _explains(held, each, digests[each.key]):
                yield each

    def notes(self) -> Iterator[str]:
        if self._unjudged:
            yield (
                f"{len(self._unjudged)} objects have older versions, of resources with ignore_changes: without the "
                "state of the bridge in state.directory, it is unknown whether only ignored paths changed"
            )

    def _exported(self, resources: set[str]) -> dict[str, LedgerObject] | None:
        """Partition key → the exported state; None if there is no state that can be read."""
        try:
            with look_at(self._directory) as look:
                if look is None:
                    return None
                served = [each for each in look.resources() if each.name in resources]
                return {_key(self._cluster, each, held): held for each in served for held in look.objects(each)}
        except (StateError, Damaged, OSError):
            return None


def _is_older_version(each: Difference) -> bool:
    if each.kind is not DifferenceKind.STALE or each.live is None or each.stored is None:
        return False
    is_same = each.live.uid == each.stored.uid
    return is_same and is_older(each.stored.resource_version, than=each.live.resource_version)


def _explains(held: LedgerObject, each: Difference, digest: bytes) -> bool:
    """Whether the destination has the exported state, from which the live state differs in ignored paths alone."""
    stored = each.stored
    return stored is not None and (held.uid, held.version, held.digest) == (stored.uid, stored.resource_version, digest)


def _key(cluster: str, resource: Resource, held: LedgerObject) -> str:
    namespace, _, name = held.key.rpartition("/")
    return partition_key(cluster, resource.group, resource.plural, namespace, name)
