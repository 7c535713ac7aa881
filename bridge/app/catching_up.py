"""What the API server has, against what the outbox has: watches may lag behind those of the leader before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeAlias

from bridge.model.answers import ListerWatcher, ListRequest, Page, Part, Refused
from bridge.model.resource import Resource, Scope
from bridge.model.versions.frontier import Point, informer_key
from bridge.model.versions.version import is_older
from bridge.outbox import OtherLeaders, Waypoints

LONGEST = 300.0
"""Seconds. kube-apiserver sends a bookmark at least every 75 s, also where nothing changes."""
PAUSE = 0.5
LONGEST_PAUSE = 30.0
_AT_ONCE = 8
"""Requests."""
_PATIENCE = 10.0
"""Seconds for a resource."""


class Informer(Protocol):
    resource: Resource
    scope: Scope

    @property
    def source(self) -> ListerWatcher: ...


RunningInformers: TypeAlias = "Callable[[], Iterable[Informer]]"
Learn: TypeAlias = Callable[[Mapping[str, Point]], None]


async def bound_former_leaders(informers: RunningInformers, others: OtherLeaders, waypoints: Waypoints) -> None:
    """Learns after each takeover how far the leaders before can have come that did not end in order: not beyond the
    version that the API server has by then. Until cancelled."""
    pause = PAUSE
    while True:
        await others.unbounded.wait()
        others.anew.clear()
        await _learn(informers(), others.without_bound, waypoints, partial(others.bound, takeover=others.takeovers))
        if others.without_bound:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await others.anew.wait()
        pause = PAUSE if others.anew.is_set() else min(LONGEST_PAUSE, 2 * pause)


async def wait_caught_up(informers: RunningInformers, waypoints: Waypoints) -> Collection[str]:
    """Returns when the outbox has every change from before the call, of all informers that run. After ``LONGEST``
    seconds it returns nevertheless, with the informers of which a change may be missing."""
    newest: dict[str, Point] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST):
            while _behind(newest, waypoints):
                await _learn(informers(), waypoints.running - newest.keys(), waypoints, newest.update)
                if _behind(newest, waypoints):
                    await asyncio.sleep(PAUSE)
    behind = _behind(newest, waypoints)
    return sorted({str(each.resource) for each in informers() if _key(each) in behind} if behind else ())


async def _learn(informers: Iterable[Informer], asked: Collection[str], waypoints: Waypoints, learn: Learn) -> None:
    """Learns the newest versions of the API server for these informers (``informer_key``), with one request for all
    informers of a resource, which have one store behind them: as soon as each is known, and none of those that fail, or
    that know no point yet."""
    resources: dict[str, dict[str, Informer]] = {}
    for each in informers:
        if (key := _key(each)) in asked and key in waypoints.reached:
            resources.setdefault(each.resource.name, {})[key] = each
    gate = asyncio.Semaphore(_AT_ONCE)
    async with asyncio.TaskGroup() as tasks:
        for of_resource in resources.values():
            tasks.create_task(_ask(of_resource, waypoints, gate, learn), name="newest version")


async def _ask(informers: Mapping[str, Informer], waypoints: Waypoints, gate: asyncio.Semaphore, learn: Learn) -> None:
    async with gate:
        before = {key: point for key, point in waypoints.reached.items() if key in informers}
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                version = await _version(informers.values())
                # A store that was restored meanwhile proves nothing about what was delivered before.
                proven = (key for key, point in before.items() if version and not is_older(version, point.version))
                learn({key: before[key]._replace(version=version) for key in proven})


async def _version(informers: Iterable[Informer]) -> str:
    """Of the first of these informers that may list; empty if the API server does not say."""
    for each in informers:
        answer = await each.source.list(ListRequest(version="", limit=1), _ignore)
        if isinstance(answer, Page):
            return answer.version
        if not isinstance(answer, Refused):
            return ""
    return ""


def _behind(newest: Mapping[str, Point], waypoints: Waypoints) -> Collection[str]:
    return [each for each in waypoints.running if not _has(waypoints.reached.get(each), newest.get(each))]


def _has(reached: Point | None, newest: Point | None) -> bool:
    """Versions without an order, which aggregated servers may have, prove nothing either way, and count as reached."""
    if reached is None or newest is None:
        return False
    return reached.epoch > newest.epoch or not newest.version.isdecimal() or reached.covers(newest)


def _key(informer: Informer) -> str:
    return informer_key(informer.resource.name, informer.scope)


async def _ignore(part: Part) -> None:
    """Ignores objects: some servers send their whole cache, whatever the limit."""
