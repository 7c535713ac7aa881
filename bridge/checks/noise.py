"""``kubedelta check --noise``: watches each resource for some seconds, and names the paths that change most often, with
entries of ``ignore_changes`` to paste.

Objects are compared in their exported form, stripped and redacted, and by the same function that makes ``changed`` in
records; paths that the configuration ignores do not count. A name that has no form in a path counts as its map. Memory
is bounded, and the findings say what was not looked at.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from textwrap import indent

import yaml

from bridge.checks.findings import CheckResult, Finding, NoisyPath
from bridge.kube import Catalogue, KubeClient
from bridge.model.answers import (
    Announced,
    Bookmark,
    EventType,
    ListerWatcher,
    Opened,
    Page,
    Unreadable,
    WatchRequest,
)
from bridge.model.formats.content import Include
from bridge.model.object import ApiObject
from bridge.model.primitives.field_path import FieldPath
from bridge.model.primitives.printable import counted
from bridge.model.resource import Resource
from bridge.model.versions import number_of
from bridge.plan.cluster_view import pages
from bridge.plan.entries import Resolution, ignored_by
from bridge.plan.keys import likely_transform
from bridge.plan.plan import Plan
from bridge.views.differences import differences

MOST_LISTED = 10_000
"""Objects of a resource in a scope, whose states are read before the watch."""
MOST_KEPT = 64 << 20
"""Bytes of states of all resources, which are kept for the comparison."""
MOST_PATHS = 10_000
"""Different sets of paths that are counted. Updates with later ones count as others."""
NOISIEST = 10
_OVERHEAD = 600
"""Bytes of a kept state, beside its body."""
_LISTS = 4
"""Lists at a time."""


async def check_noise(
    plan: Plan, client: KubeClient, catalogue: Catalogue, resolution: Resolution, seconds: float
) -> AsyncIterator[Finding]:
    """Yields a note for each resource that was watched in part, and the noisiest paths. ``seconds``: the time of each
    watch, which begins behind its list."""
    tally = NoiseTally()
    states = _KnownStates()
    lists = asyncio.Semaphore(_LISTS)
    watches = []
    for (_, scope), resource in resolution.desired.items():
        ignored = tuple(ignored_by(plan.wanted, resource, scope, catalogue))
        lister = client.lister_watcher(resource, scope, managed_fields=False, shard=plan.shard)
        transform = likely_transform(plan, catalogue, resource)
        watches.append(_NoiseWatch(resource, lister, transform, ignored, tally, states, lists, seconds))
    for each, reasons in zip(watches, await asyncio.gather(*(each.run() for each in watches)), strict=True):
        for reason in reasons:
            yield Finding(f"noise: {each.resource}", CheckResult.NOTE, reason)
    yield _result(tally, states, seconds)


def _result(tally: NoiseTally, states: _KnownStates, seconds: float) -> Finding:
    left_out = ""
    if states.unknown:
        left_out += f"; of {counted(states.unknown, 'further update')} the state before is unknown"
    if tally.ignored:
        left_out += f"; ignore_changes has ignored {counted(tally.ignored, 'further update')}"
    if tally.others:
        left_out += f"; {counted(tally.others, 'update')} changed paths that were not counted"
    if not (noisiest := tally.noisiest()):
        return Finding("noise", CheckResult.RIGHT, f"no update was compared in {seconds:g} s{left_out}")
    found = f"in {seconds:g} s, {counted(tally.compared, 'update')} changed most often{left_out}:"
    return Finding("noise", CheckResult.NOTE, found, noise=noisiest, manifest=tally.entries(noisiest))


class NoiseTally:
    """Counts the updates of all resources by their changed paths."""

    def __init__(self) -> None:
        self.compared = 0
        self.ignored = 0
        """Updates that the configuration ignores already."""
        self.others = 0
        """Updates with sets of paths beyond ``MOST_PATHS``."""
        self._seconds: dict[str, float] = {}
        self._updates: Counter[tuple[str, frozenset[str]]] = Counter()

    def watched(self, resource: str, seconds: float) -> None:
        """The time of the updates of the resource; of its scopes, the longest counts."""
        self._seconds[resource] = max(self._seconds.get(resource, 1e-3), seconds)

    def update(self, resource: str, before: bytes, after: bytes, ignored: Sequence[FieldPath]) -> None:
        """``ignored``: the paths that the configuration ignores."""
        found = differences(before, after, [Include.CHANGED]).changed or ()
        changed = frozenset(path for path in found if not _covered(path, ignored))
        if ignored and not changed:
            self.ignored += 1
            return
        self.compared += 1
        changed = changed or frozenset([NoisyPath.NOWHERE])
        if (resource, changed) in self._updates or len(self._updates) < MOST_PATHS:
            self._updates[resource, changed] += 1
        else:
            self.others += 1

    def noisiest(self) -> list[NoisyPath]:
        """At most ``NOISIEST``, the noisiest first."""
        counts: Counter[tuple[str, str]] = Counter()
        for (resource, paths), count in self._updates.items():
            counts.update(dict.fromkeys([(resource, path) for path in paths], count))
        found = [
            NoisyPath(resource, path, count, self._rate(resource, count), count / self.compared)
            for (resource, path), count in counts.items()
        ]
        return sorted(found, key=lambda each: (-each.per_second, each.resource, each.path))[:NOISIEST]

    def entries(self, noisiest: Sequence[NoisyPath]) -> str:
        """Entries of the configuration that ignore these paths, as YAML, each with the updates that would not be
        exported. Empty if no path can be ignored."""
        lines = ["resources:"]
        for resource in dict.fromkeys(each.resource for each in noisiest if each.can_be_ignored):
            paths = [each.path for each in noisiest if each.resource == resource and each.can_be_ignored]
            updates = {changed: count for (name, changed), count in self._updates.items() if name == resource}
            saved = sum(count for changed, count in updates.items() if changed.issubset(paths))
            rates = f"{self._rate(resource, saved):.1f} of {self._rate(resource, sum(updates.values())):.1f} updates/s"
            entry = yaml.safe_dump(
                [{"resource": resource, "ignore_changes": paths}], sort_keys=False, width=float("inf")
            )
            lines.append(indent(f"# {rates} would not be exported\n{entry}", "  ").rstrip())
        return "\n".join(lines) if lines[1:] else ""

    def _rate(self, resource: str, count: int) -> float:
        return count / self._seconds[resource]


def _covered(path: str, ignored: Sequence[FieldPath]) -> bool:
    changed = FieldPath.parsed(path)
    covers = (each.meets(changed) and len(each.steps) <= len(changed.steps) for each in ignored)
    return path != NoisyPath.WHOLE and any(covers)


class _KnownStates:
    """The last known states of objects, within a bound on bytes: beyond it, the states of the oldest versions leave,
    for objects that change often have new versions."""

    def __init__(self) -> None:
        self.unknown = 0
        """Updates without a state before."""
        self.dropped: set[Resource] = set()
        """Resources of which states have left."""
        self._size = 0
        self._states: dict[tuple[Resource, str], ApiObject] = {}

    def put(self, resource: Resource, thing: ApiObject) -> bytes | None:
        """Returns the state before; None for another object, or if none is kept."""
        before = self.remove(resource, thing.key)
        self._states[resource, thing.key] = thing
        self._size += len(thing.body) + _OVERHEAD
        if self._size > MOST_KEPT:
            self._drop_oldest()
        return before.body if before is not None and before.uid == thing.uid else None

    def remove(self, resource: Resource, key: str) -> ApiObject | None:
        before = self._states.pop((resource, key), None)
        if before is not None:
            self._size -= len(before.body) + _OVERHEAD
        return before

    def _drop_oldest(self) -> None:
        """Drops half of the bytes, so that the order is made seldom."""
        for resource, key in sorted(self._states, key=lambda each: number_of(self._states[each].resource_version) or 0):
            if self._size <= MOST_KEPT // 2:
                return
            self.remove(resource, key)
            self.dropped.add(resource)


@dataclass(frozen=True, slots=True)
class _NoiseWatch:
    """A resource in a scope."""

    resource: Resource
    lister: ListerWatcher
    transform: Callable[[ApiObject], ApiObject]
    ignored: Sequence[FieldPath]
    tally: NoiseTally
    states: _KnownStates
    lists: asyncio.Semaphore
    seconds: float

    async def run(self) -> list[str]:
        """Returns what was not looked at."""
        loop = asyncio.get_running_loop()
        async with self.lists:
            began = loop.time()
            version, why_not_all = await self._list()
        reasons = [why_not_all]
        if version is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.seconds):
                    reasons.append(await self._watch(version))
            # Updates between the list and the watch are among those of the watch.
            self.tally.watched(self.resource.name, loop.time() - began)
        if self.resource in self.states.dropped:
            reasons.append("its oldest states were not kept, so the first updates of these objects are not compared")
        return [each for each in reasons if each]

    async def _list(self) -> tuple[str | None, str]:
        """The version of a consistent list, and why not all of its objects were read."""
        version = None
        seen = 0
        async for answer in pages(self.lister):
            if not isinstance(answer, Page):
                return version, f"after {counted(seen, 'object')}, the list ended: {answer.reason}"
            version = version or answer.version
            for each in answer.objects:
                self.states.put(self.resource, self.transform(each))
            seen += len(answer.objects)
            if seen >= MOST_LISTED and answer.next_page is not None:
                read = counted(seen, "object")
                return version, f"the list was read up to {read}: later ones count from a second update"
        return version, ""

    async def _watch(self, version: str) -> str:
        """Returns why the watch ended before its time."""
        async with self.lister.watch(WatchRequest(version=version, timeout=int(self.seconds) + 6)) as answers:
            async for answer in answers:
                if isinstance(answer, Announced):
                    for event, thing in answer.events:
                        self._take(event, thing)
                elif not isinstance(answer, Opened | Bookmark | Unreadable):
                    return f"the watch ended early: {getattr(answer, 'reason', 'it was silent')}"
                # Without a wait in between, the timeout of a busy watch would not pass.
                await asyncio.sleep(0)
        return ""

    def _take(self, event: EventType, thing: ApiObject) -> None:
        if event is EventType.DELETED:
            self.states.remove(self.resource, thing.key)
            return
        exported = self.transform(thing)
        if (before := self.states.put(self.resource, exported)) is not None:
            self.tally.update(self.resource.name, before, exported.body, self.ignored)
        elif event is EventType.MODIFIED:
            self.states.unknown += 1
