"""Reads back a destination and lists the cluster for ``kubedelta verify``, until the differences between them are
certain. It changes neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from bridge.checks.compare import Candidate, Coverage, Difference, Holdings, differences
from bridge.checks.expected import Expected, IgnoredStates
from bridge.kube import ApiError, connect
from bridge.model.formats.object_paths import object_name
from bridge.model.primitives.printable import counted
from bridge.model.versions.stored_version import StoredVersions
from bridge.plan.cluster_view import ClusterUnavailable, ClusterView, Progress, Version, digests_by
from bridge.plan.entries import resolve_wanted
from bridge.plan.plan import Plan, SinkPlan
from bridge.telemetry.facts import discard
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
            digests = digests_by(plan, catalogue)
            view = ClusterView(
                plan.cluster,
                client,
                meant.desired,
                matching=None if expected is None else expected.matching,
                digests=digests,
                shard=plan.shard,
                progress=progress,
            )
            coverage = Coverage(plan.wanted, view.listed, catalogue.resources, meant.unresolved)
            states = None if digests is None else IgnoredStates(plan.state, plan.cluster)
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
    states: IgnoredStates | None
    """None if no changes are ignored."""
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
        if self.states is None:
            return left
        unexplained = self.states.unexplained([each.difference for each in left.values()], self.view.digests)
        return {each.key: left[each.key] for each in unexplained}

    def _notes(self) -> Iterator[str]:
        if others := self.holdings.of_other_shards:
            yield f"{counted(others, 'record')} of other shards were not compared"
        if self.expected is not None:
            yield from self.expected.notes(resource.name for resource, _ in self.view.listed)
        if self.states is not None:
            yield from self.states.notes()

    async def _read_on(self) -> None:
        async with aclosing(self.reader.read(self.coverage.filters)) as batches:
            async for batch in batches:
                for record in batch:
                    self.holdings.take(self.versions.of(record))
                if self.progress is not None:
                    read, left = self.holdings.records, self.reader.left
                    self.progress("records read", read, None if left is None else read + left)
