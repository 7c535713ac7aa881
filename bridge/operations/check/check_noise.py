"""``kubedelta check --noise``: watches each resource for some seconds, and names the paths that change most often."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from bridge.kube import Catalogue, KubeClient
from bridge.model.answers import (
    Announced,
    Bookmark,
    EventType,
    ListerWatcher,
    ListRequest,
    Opened,
    Page,
    Unreadable,
    WatchRequest,
)
from bridge.model.object import ApiObject
from bridge.model.primitives.printable import counted
from bridge.model.resource import Resource, Scope
from bridge.operations.check.findings import CheckResult, Finding
from bridge.operations.check.noise import NoiseTally
from bridge.plan.keys import likely_redaction
from bridge.plan.plan import Plan
from bridge.plan.resolve import Resolution, ignored_by, rules_for
from bridge.transform.digest import IgnoredPaths
from bridge.transform.transform import transform_for

MOST_LISTED = 10_000
"""Objects of a resource in a scope, whose states are read before the watch."""
MOST_KEPT = 64 << 20
"""Bytes of states of all resources, which are kept for the comparison."""
_OVERHEAD = 600
"""Bytes of a kept state, beside its body."""
_PAGE = 500
_LISTS = 4
"""Lists at a time."""


async def check_noise(
    plan: Plan, client: KubeClient, catalogue: Catalogue, resolution: Resolution, seconds: float
) -> AsyncIterator[Finding]:
    """Yields a note for each resource that was watched in part, and the noisiest paths. ``seconds``: the time of each
    watch, which begins behind its list."""
    tally = NoiseTally()
    states = _KnownStates(MOST_KEPT)
    lists = asyncio.Semaphore(_LISTS)
    redaction = likely_redaction(plan)
    watches = []
    for (_, scope), resource in resolution.desired.items():
        rules = rules_for(plan.wanted, resource, catalogue)
        paths = ignored_by(plan.wanted, resource, scope, catalogue)
        transform = transform_for(resource, redaction.extended(rules))
        form = _comparable(transform, IgnoredPaths(paths))
        lister = client.lister_watcher(resource, scope, managed_fields=False, shard=plan.shard)
        watches.append(_NoiseWatch(resource, scope, lister, form, bool(paths), tally, states, lists, seconds))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each.run()) for each in watches]
    for each, task in zip(watches, tasks, strict=True):
        for reason in task.result():
            yield Finding(f"noise: {each.resource}", CheckResult.NOTE, reason)
    yield _result(tally, states, seconds)


def _comparable(transform: Callable[[ApiObject], ApiObject], ignored: IgnoredPaths) -> Callable[[ApiObject], bytes]:
    return lambda thing: ignored.remaining(transform(thing).body)


def _result(tally: NoiseTally, states: _KnownStates, seconds: float) -> Finding:
    unknown = f"; of {counted(states.unknown, 'further update')} the state before is unknown" if states.unknown else ""
    ignored = f"; ignore_changes has ignored {counted(tally.ignored, 'further update')}" if tally.ignored else ""
    others = f"; {counted(tally.others, 'update')} changed paths that were not counted" if tally.others else ""
    left_out = f"{unknown}{ignored}{others}"
    noisiest = tally.noisiest()
    if not noisiest:
        return Finding("noise", CheckResult.RIGHT, f"no update was compared in {seconds:g} s{left_out}")
    found = f"in {seconds:g} s, {counted(tally.compared, 'update')} changed most often{left_out}:"
    return Finding("noise", CheckResult.NOTE, found, noise=noisiest, manifest=tally.entries(noisiest))


class _KnownStates:
    """The last known states of objects, within a bound on bytes: beyond it, the states of the oldest versions leave,
    for objects that change often have new versions."""

    def __init__(self, most: int) -> None:
        self.unknown = 0
        """Updates without a state before."""
        self.dropped: set[Resource] = set()
        """Resources of which states have left."""
        self._most = most
        self._size = 0
        self._states: dict[tuple[Resource, str], tuple[str, str, bytes]] = {}

    def put(self, resource: Resource, thing: ApiObject, body: bytes) -> bytes | None:
        """Returns the state before; None for another object, or if none is kept."""
        before = self.remove(resource, thing.key)
        self._states[resource, thing.key] = (thing.uid, thing.resource_version, body)
        self._size += len(body) + _OVERHEAD
        if self._size > self._most:
            self._drop_oldest()
        return before[2] if before is not None and before[0] == thing.uid else None

    def remove(self, resource: Resource, key: str) -> tuple[str, str, bytes] | None:
        before = self._states.pop((resource, key), None)
        if before is not None:
            self._size -= len(before[2]) + _OVERHEAD
        return before

    def _drop_oldest(self) -> None:
        """Drops half of the bytes, so that the order is made seldom."""
        for resource, key in sorted(self._states, key=lambda each: _age(self._states[each][1])):
            if self._size <= self._most // 2:
                return
            self.remove(resource, key)
            self.dropped.add(resource)


def _age(version: str) -> tuple[int, str]:
    # Digits of one length have the order of their numbers.
    return len(version), version


@dataclass(frozen=True, slots=True)
class _NoiseWatch:
    """A resource in a scope."""

    resource: Resource
    scope: Scope
    lister: ListerWatcher
    form: Callable[[ApiObject], bytes]
    ignores: bool
    tally: NoiseTally
    states: _KnownStates
    lists: asyncio.Semaphore
    seconds: float

    async def run(self) -> list[str]:
        """Returns what was not looked at."""
        loop = asyncio.get_running_loop()
        reasons = []
        async with self.lists:
            began = loop.time()
            version, reason = await self._list()
        reasons += [reason] if reason else []
        if version is not None:
            ends = loop.time() + self.seconds
            try:
                async with asyncio.timeout_at(ends):
                    reasons.append(await self._watch(version, ends))
            except TimeoutError:
                pass
            # Updates between the list and the watch are among those of the watch.
            self.tally.watched(self.resource.name, loop.time() - began)
        if self.resource in self.states.dropped:
            reasons.append("its oldest states were not kept, so the first updates of these objects are not compared")
        return [each for each in reasons if each]

    async def _list(self) -> tuple[str | None, str]:
        """The version of a consistent list, and why not all of its objects were read."""
        request = ListRequest(version="", limit=_PAGE)
        version = None
        seen = 0
        while True:
            answer = await self.lister.list(request)
            if not isinstance(answer, Page):
                return version, f"after {counted(seen, 'object')}, the list ended: {answer.reason}"
            version = version or answer.version
            for each in answer.objects:
                self.states.put(self.resource, each, self.form(each))
            seen += len(answer.objects)
            if answer.next_page is None:
                return version, ""
            if seen >= MOST_LISTED:
                return (
                    version,
                    f"the list was read up to {counted(seen, 'object')}: later ones count from a second update",
                )
            request = ListRequest(version="", limit=_PAGE, next_page=answer.next_page)

    async def _watch(self, version: str, ends: float) -> str:
        """Returns why the watch ended before its time."""
        loop = asyncio.get_running_loop()
        async with self.lister.watch(WatchRequest(version=version, timeout=math.ceil(self.seconds) + 5)) as answers:
            async for answer in answers:
                match answer:
                    case Announced():
                        for event, thing in answer.events:
                            self._take(event, thing)
                    case Opened() | Bookmark() | Unreadable():
                        pass
                    case _:
                        return f"the watch ended early: {getattr(answer, 'reason', 'it was silent')}"
                # Without a wait in between, the timeout of a busy watch would not pass.
                await asyncio.sleep(0)
                if loop.time() >= ends:
                    return ""
        return ""

    def _take(self, event: EventType, thing: ApiObject) -> None:
        if event is EventType.DELETED:
            self.states.remove(self.resource, thing.key)
            return
        body = self.form(thing)
        before = self.states.put(self.resource, thing, body)
        if before is not None:
            self.tally.update(self.resource.name, before, body, ignores=self.ignores)
        elif event is EventType.MODIFIED:
            self.states.unknown += 1
