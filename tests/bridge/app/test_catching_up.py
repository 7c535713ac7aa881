"""A new leader waits until its outbox has what the API server had."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from bridge.app.catching_up import LONGEST, wait_caught_up
from bridge.model.answers import Failed, ListAnswer, Page
from bridge.model.resource import Resource, Scope
from bridge.model.versions.frontier import Point, informer_key
from bridge.outbox import Waypoints
from tests.kit.informed import PODS
from tests.kit.scripted_source import ScriptedSource
from tests.kit.virtual_time import run_in_virtual_time, settled

KEY = informer_key(PODS.name, Scope())


@dataclass
class Informed:
    source: ScriptedSource
    resource: Resource = PODS
    scope: Scope = field(default_factory=Scope)


def at(version: str) -> ListAnswer:
    return Page([], version, None)


def waypoints(version: str, epoch: int = 1) -> Waypoints:
    found = Waypoints()
    found.begin(PODS.name, {KEY: (Point(epoch, version), Point(epoch, version))})
    return found


def waits(own: Waypoints, *answers: ListAnswer, then: Point | None = None) -> tuple[list[str], float]:
    """What may be missing, and the seconds until that is known. ``then``: reached once it waits."""

    async def wait() -> tuple[list[str], float]:
        loop = asyncio.get_running_loop()
        began, informed = loop.time(), Informed(ScriptedSource(*answers))
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(wait_caught_up(lambda: [informed], own))
            await settled()
            if then is not None:
                assert not waiting.done()
                own.reach(KEY, then)
        return list(waiting.result()), loop.time() - began

    return run_in_virtual_time(wait())


def test_a_log_that_has_everything_waits_for_nothing() -> None:
    assert waits(waypoints("7"), at("7")) == ([], 0)
    assert waits(Waypoints()) == ([], 0)


def test_a_bookmark_or_a_change_ends_the_wait() -> None:
    missing, seconds = waits(waypoints("7"), at("10"), then=Point(1, "12"))
    assert missing == []
    assert seconds < 2


def test_a_list_in_another_history_ends_the_wait() -> None:
    missing, seconds = waits(waypoints("7"), at("10"), then=Point(2, "3"))
    assert missing == []
    assert seconds < 2


def test_a_failed_request_is_repeated() -> None:
    missing, seconds = waits(waypoints("7"), Failed("no route"), at("7"))
    assert missing == []
    assert 0 < seconds < 2


def test_versions_without_an_order_prove_nothing() -> None:
    assert waits(waypoints("a1"), at("b2")) == ([], 0)


def test_a_watch_that_lags_on_is_named() -> None:
    assert waits(waypoints("7"), at("10"), then=Point(1, "9")) == ([str(PODS)], LONGEST)
