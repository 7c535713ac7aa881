"""A new leader asks the API server how far the leaders before can have come, and waits until its outbox has that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from bridge.app.catching_up import LONGEST, LONGEST_PAUSE, bound_former_leaders, wait_caught_up
from bridge.model.answers import Failed, ListAnswer, ListRequest, Page, Refused
from bridge.model.resource import Resource, Scope
from bridge.model.versions.frontier import Frontier, Point, informer_key
from bridge.outbox import OtherLeaders, Waypoints
from bridge.outbox.standby.takeover import SavedTerms
from tests.kit.informed import DEPLOYMENTS, PODS
from tests.kit.scripted_source import Asked, ScriptedSource
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


# ── Bounds ───────────────────────────────────────────────────────────────────

REFUSED = Refused(403, "forbidden")
OTHER = informer_key(DEPLOYMENTS.name, Scope())
TEAM = Scope(namespace="team")
IN_TEAM = informer_key(PODS.name, TEAM)


class NoStore:
    def write(self, *_: object, **__: object) -> None:
        pass


def behind_a_killed_leader(own: Waypoints, *keys: str) -> OtherLeaders:
    others = OtherLeaders(
        cast(Any, NoStore()), own, SavedTerms(1, 0, None, overtaken=False, restored=False, log_start=0, batches=())
    )
    others.took_over(Frontier(1, "prod", 1, "a_1", "1.0", 0, bounds=dict.fromkeys(keys)), led_last=False)
    return others


def bounds(
    others: OtherLeaders, own: Waypoints, *informers: Informed, then: Callable[[], Awaitable[None]]
) -> dict[str, Point | None]:
    async def ask() -> None:
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(bound_former_leaders(lambda: informers, others, own))
            await then()
            asking.cancel()

    run_in_virtual_time(ask())
    return dict(others.bounds)


def asked(informed: Informed) -> list[Asked]:
    assert all(each.request == ListRequest(version="", limit=1) for each in informed.source.asked)
    return informed.source.asked


def test_one_request_bounds_all_informers_of_a_resource() -> None:
    own = Waypoints()
    own.begin(PODS.name, {KEY: (Point(1, "7"), None), IN_TEAM: (Point(2, "8"), None)})
    others = behind_a_killed_leader(own, KEY, IN_TEAM)
    all_pods, team = Informed(ScriptedSource(at("10"))), Informed(ScriptedSource(), scope=TEAM)
    assert bounds(others, own, all_pods, team, then=settled) == {KEY: Point(1, "10"), IN_TEAM: Point(2, "10")}
    assert (len(asked(all_pods)), len(asked(team))) == (1, 0)
    assert not others.unbounded.is_set()


def test_another_namespace_is_asked_where_one_is_refused() -> None:
    own = Waypoints()
    own.begin(PODS.name, {KEY: (Point(1, "7"), None), IN_TEAM: (Point(1, "8"), None)})
    others = behind_a_killed_leader(own, KEY, IN_TEAM)
    refused, team = Informed(ScriptedSource(REFUSED)), Informed(ScriptedSource(at("10")), scope=TEAM)
    assert bounds(others, own, refused, team, then=settled) == {KEY: Point(1, "10"), IN_TEAM: Point(1, "10")}


def test_failures_are_repeated_less_and_less_often() -> None:
    own = waypoints("7")
    others, informed = behind_a_killed_leader(own, KEY), Informed(ScriptedSource(*[Failed("no route")] * 9, at("10")))

    assert bounds(others, own, informed, then=partial(asyncio.sleep, 600)) == {KEY: Point(1, "10")}
    pauses = [after.at - before.at for before, after in zip(asked(informed), asked(informed)[1:], strict=False)]
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert pauses[-1] == LONGEST_PAUSE


def test_a_resource_that_hangs_holds_no_other_up() -> None:
    own = two_resources()
    others = behind_a_killed_leader(own, KEY, OTHER)
    pods, hangs = Informed(ScriptedSource(at("9"))), Informed(ScriptedSource(), resource=DEPLOYMENTS)
    found = bounds(others, own, hangs, pods, then=partial(asyncio.sleep, 5))
    assert found == {KEY: Point(1, "9"), OTHER: None}


def test_only_the_watch_that_lags_is_named() -> None:
    own = two_resources()
    informers = [Informed(ScriptedSource(at("7"))), Informed(ScriptedSource(), resource=DEPLOYMENTS)]
    assert run_in_virtual_time(wait_caught_up(lambda: informers, own)) == [str(DEPLOYMENTS)]


def test_another_takeover_is_asked_about_at_once() -> None:
    own = two_resources()
    others = behind_a_killed_leader(own, KEY, OTHER)
    fails = Informed(ScriptedSource(*[Failed("no route")] * 99), resource=DEPLOYMENTS)

    async def take_over_later() -> None:
        await asyncio.sleep(100)
        others.took_over(Frontier(1, "prod", 2, "b_1", "1.0", 0, bounds={KEY: None, OTHER: None}), led_last=False)
        await settled()

    found = bounds(others, own, fails, Informed(ScriptedSource(at("9"), at("12"))), then=take_over_later)
    assert found == {KEY: Point(1, "12"), OTHER: None}


def test_a_restored_store_bounds_nothing() -> None:
    own = waypoints("7")
    others = behind_a_killed_leader(own, KEY)
    assert bounds(others, own, Informed(ScriptedSource(at("5"), at("5"))), then=settled) == {KEY: None}


def two_resources() -> Waypoints:
    own = waypoints("7")
    own.begin(DEPLOYMENTS.name, {OTHER: (Point(1, "7"), Point(1, "7"))})
    return own


def test_an_answer_from_before_another_takeover_bounds_nothing() -> None:
    own = waypoints("7")
    others = behind_a_killed_leader(own, KEY)
    earlier = others.takeovers
    others.took_over(Frontier(1, "prod", 2, "b_1", "1.0", 0, bounds={KEY: None}), led_last=False)
    others.bound({KEY: Point(1, "10")}, earlier)
    assert others.bounds == {KEY: None}


def test_a_follower_asks_for_nothing() -> None:
    own = waypoints("7")
    others, informed = behind_a_killed_leader(own, KEY), Informed(ScriptedSource())
    others.follow(Frontier(1, "prod", 2, "b_1", "1.0", 0, bounds={KEY: None}))
    assert bounds(others, own, informed, then=settled) == {KEY: None}
    assert asked(informed) == []
