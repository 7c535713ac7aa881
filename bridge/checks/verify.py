"""Reads back a destination and lists the cluster for ``kubedelta verify``, until the differences between them are
certain. It changes neither.

For a sink with a selection, ``Expected`` says which live objects the sink has to have, and which differences follow
from the steps that it gets; it reads the redaction key, since expressions see redacted objects. An older version at the
destination is right where only ignored paths changed since: ``IgnoredStates`` knows that by the digests in the state of
the bridge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bridge.checks.compare import Candidate, Coverage, Difference, DifferenceKind, Holdings, differences
from bridge.kube import ApiError, Catalogue, connect
from bridge.model.change import Op
from bridge.model.formats.object_paths import object_name
from bridge.model.formats.stored_record import StoredVersions
from bridge.model.object import ApiObject
from bridge.model.primitives.printable import counted
from bridge.model.resource import Resource
from bridge.model.versions import is_older
from bridge.outbox import Damaged, LedgerObject, StateError, look_at
from bridge.plan.cluster_view import (
    ClusterUnavailable,
    ClusterView,
    Matches,
    Progress,
    Version,
    digest_in,
    partition_of,
)
from bridge.plan.entries import Resolution, resolve_entries, resolve_wanted
from bridge.plan.keys import likely_transform
from bridge.plan.plan import Plan, SinkPlan
from bridge.telemetry.facts import discard
from bridge.views.decisions import Views
from bridge.views.language import Cel
from bridge.views.selection import compile_selection
from sinks.base import RecordReader

_FIRST_PAUSE = 0.5
"""Seconds between the first two comparisons; each later pause is twice as long."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a comparison."""

    source: str
    """A short description of the destination."""
    live: int
    """Objects in the cluster."""
    stored: int
    """Objects at the destination."""
    records: int
    """Records read at the destination."""
    differences: Sequence[Difference]
    """By ascending key."""
    gaps: int
    """Gap records at the destination. Later records may have repaired their effect."""
    foreign: int
    """Records at the destination of other programs or clusters, and unreadable records."""
    uncovered: Mapping[str, int]
    """Resource → records about objects that the configuration does not cover."""
    notes: Sequence[str]
    """Further findings for the operator."""


async def verify(
    plan: Plan, sink: SinkPlan, reader: RecordReader, *, settle: float, progress: Progress | None = None
) -> Verification:
    """Compares both sides, and repeats the comparison of differing objects for ``settle`` seconds, since recent changes
    may be on their way.

    ``reader`` is passed unopened, and is closed on return. ``progress`` is called after each part of either side.
    Raises ClusterUnavailable, ClusterRefuses, CredentialsError and Unavailable.
    """
    try:
        source = await reader.open()
        async with connect(plan.access, report=discard) as client:
            catalogue = await client.discover()
            meant = resolve_wanted(plan.wanted, catalogue)
            expected = None if sink.select is None else Expected(plan, sink, catalogue, meant)
            view = ClusterView(
                plan.cluster,
                client,
                meant.desired,
                matching=None if expected is None else expected.matching,
                digest_in=partial(digest_in, plan, catalogue),
                shard=plan.shard,
                progress=progress,
            )
            coverage = Coverage(plan.wanted, view.listed, catalogue.resources, meant.unresolved)
            states = IgnoredStates(plan.state, plan.cluster)
            holdings = Holdings(plan.cluster, coverage, plan.shard)
            comparison = _Comparison(reader, view, coverage, holdings, StoredVersions(), expected, states, progress)
            unknown = tuple(f"{name}: {reason}" for name, reason in meant.unresolved.items())
            return await comparison.run(source, unknown, settle)
    except ApiError as error:
        raise ClusterUnavailable(str(error)) from error
    finally:
        await reader.close()


@dataclass(frozen=True, slots=True)
class _Comparison:
    reader: RecordReader
    view: ClusterView
    coverage: Coverage
    holdings: Holdings
    versions: StoredVersions
    expected: Expected | None
    """None for a sink that has to have every object."""
    states: IgnoredStates
    progress: Progress | None

    async def run(self, source: str, notes: tuple[str, ...], settle: float) -> Verification:
        await self._read_on()
        self.holdings.watch()
        live = await self.view.look()
        # The first reading may have taken long. Records that arrived since often explain every difference.
        await self._read_on()
        found = differences(live, self.holdings.objects)
        left = await self._settled(
            self._unexplained({key: Candidate(each) for key, each in found.items()}, live), settle
        )
        return Verification(
            source=source,
            live=len(live),
            stored=len(self.holdings.objects),
            records=self.holdings.records,
            differences=[left[key].difference for key in sorted(left)],
            gaps=self.holdings.gaps,
            foreign=self.holdings.foreign,
            uncovered=dict(self.holdings.uncovered),
            notes=(*notes, *self._notes(), *self.reader.notes),
        )

    async def _settled(self, candidates: dict[str, Candidate], settle: float) -> dict[str, Candidate]:
        """The candidates that still differ after ``settle`` seconds and at least one more comparison."""
        now = asyncio.get_running_loop().time
        deadline = now() + settle
        pause = _FIRST_PAUSE
        while candidates:
            await asyncio.sleep(min(pause, max(0.0, deadline - now())))
            live = await self.view.look({name.resource for key in candidates if (name := object_name(key))})
            await self._read_on()
            candidates = self._unexplained(candidates, live)
            if now() >= deadline:
                break
            pause *= 2
        return candidates

    def _unexplained(self, candidates: dict[str, Candidate], live: Mapping[str, Version]) -> dict[str, Candidate]:
        stored = self.holdings.objects
        arrived = self.holdings.arrived
        left = {
            key: each
            for key, each in candidates.items()
            if not each.compare_again(live.get(key), stored.get(key), arrived.get(key, {}))
            and (self.expected is None or self.expected.counts(each.difference))
        }
        unexplained = self.states.unexplained([each.difference for each in left.values()], self.view.digests)
        return {each.key: left[each.key] for each in unexplained}

    def _notes(self) -> Iterator[str]:
        if others := self.holdings.of_other_shards:
            yield f"{counted(others, 'record')} of other shards were not compared"
        if self.expected is not None:
            yield from self.expected.notes(resource.name for resource, _ in self.view.listed)
        yield from self.states.notes()

    async def _read_on(self) -> None:
        async with aclosing(self.reader.read(self.coverage.filters)) as batches:
            async for batch in batches:
                for record in batch:
                    self.holdings.take(self.versions.of(record))
                if self.progress is not None:
                    read, left = self.holdings.records, self.reader.left
                    self.progress("records read", read, None if left is None else read + left)


# ── Sinks with a selection ───────────────────────────────────────────────────

_COMPARED = {
    "missing objects": frozenset({Op.ADDED}),
    "old versions": frozenset({Op.ADDED, Op.UPDATED}),
    "deleted objects": frozenset({Op.DELETED}),
}
"""Finding → the steps that the sink must get for certain."""


class Expected:
    """What a sink with a selection has to have."""

    def __init__(self, plan: Plan, sink: SinkPlan, catalogue: Catalogue, resolution: Resolution) -> None:
        """Raises WrongSelection and MissingLibrary for a selection that ``preflight`` finds wrong."""
        entries, _ = resolve_entries(sink.select or (), resolution, catalogue, {})
        self._sink = sink.name
        self._selection = compile_selection(entries, f"sinks.{sink.name}.select", Cel)
        self._views = Views({sink.name: self._selection}, plan.cluster)
        self._transform_of = partial(likely_transform, plan, catalogue)
        self._sure = {each.name: self._selection.of(each).sure for each in resolution.desired.values()}
        self._sure_unserved = self._selection.sure

    def matching(self, resource: Resource) -> Matches:
        """A condition on the live objects of the resource."""
        here = self._views.of(resource)
        transform = self._transform_of(resource)

        def matches(live: ApiObject) -> bool:
            thing = transform(live)
            return here.selections[self._sink].matches(here.evaluator.evaluation(thing.key, thing.body))

        return matches

    def sure(self, name: str) -> frozenset[Op]:
        """The steps of this resource that the sink gets for certain."""
        # A resource that is not served has no version here, by which an entry could cover it.
        return self._sure.get(name, self._sure_unserved)

    def counts(self, difference: Difference) -> bool:
        """Whether the sink cannot have this difference by the choice of its steps. A last step that the sink did not
        get is an update, a return into the selection, or a delete."""
        name = object_name(difference.key)
        live = difference.live
        stored = difference.stored
        sure = self.sure(name.resource) if name else frozenset(Op)
        if stored is None:
            return Op.ADDED in sure
        if live is None:
            return Op.DELETED in sure
        if live.uid != stored.uid:
            return bool({Op.ADDED, Op.DELETED} & sure)
        is_newer = is_older(live.resource_version, than=stored.resource_version)
        return is_newer or {Op.ADDED, Op.UPDATED} <= sure

    def notes(self, resources: Iterable[str]) -> Iterator[str]:
        """For each resource of which not every step is certain, the findings that are impossible for that."""
        for resource in dict.fromkeys(resources):
            if impossible := [words for words, steps in _COMPARED.items() if not steps <= self.sure(resource)]:
                these = ", ".join(impossible)
                yield f"the select of the sink chooses steps of {resource}, so these were not sought: {these}"


# ── Ignored changes ──────────────────────────────────────────────────────────


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
                return {
                    partition_of(self._cluster, each, held.key): held for each in served for held in look.objects(each)
                }
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
