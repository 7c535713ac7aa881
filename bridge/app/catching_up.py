"""Waits until the outbox has what the API server had: watches may lag behind those of the leader before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Protocol

from bridge.model.answers import ListerWatcher, ListRequest, Page, Part
from bridge.model.resource import Resource, Scope
from bridge.model.versions.frontier import Point, informer_key
from bridge.outbox import Waypoints

LONGEST = 300.0
"""Seconds. kube-apiserver sends a bookmark at least every 75 s, also where nothing changes."""
PAUSE = 0.5


class Informer(Protocol):
    resource: Resource
    scope: Scope

    @property
    def source(self) -> ListerWatcher: ...


async def wait_caught_up(informers: Callable[[], Iterable[Informer]], waypoints: Waypoints) -> Collection[str]:
    """Returns when the outbox has every change from before the call, of all informers that run. After ``LONGEST``
    seconds it returns nevertheless, with the informers of which a change may be missing."""
    newest: dict[str, Point] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST):
            while _behind(newest, waypoints):
                for each in informers():
                    await _ask(each, newest, waypoints)
                if _behind(newest, waypoints):
                    await asyncio.sleep(PAUSE)
    behind = _behind(newest, waypoints)
    return sorted({str(each.resource) for each in informers() if _key(each) in behind} if behind else ())


async def _ask(informer: Informer, newest: dict[str, Point], waypoints: Waypoints) -> None:
    """Learns the newest version of the API server, once. Failures are asked again."""
    key = _key(informer)
    reached = waypoints.reached.get(key)
    if reached is None or key in newest:
        return
    answer = await informer.source.list(ListRequest(version="", limit=1), _ignore)
    if isinstance(answer, Page):
        newest[key] = Point(reached.epoch, answer.version)


def _behind(newest: dict[str, Point], waypoints: Waypoints) -> Collection[str]:
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
