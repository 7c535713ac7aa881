"""Steps that no watch announced come from the server's history. On a simulated cluster, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from bridge.informer import RecoveryLimits, RecoverySlots, SharedInformer
from bridge.informer.history.history import History
from bridge.informer.history.proof import SameHistory
from bridge.informer.recovery.exact_lists import ATTEMPTS
from bridge.model.answers import (
    Busy,
    ErrorAnswer,
    Failed,
    ListAnswer,
    ListRequest,
    Match,
    Refused,
    TakePart,
    TooLarge,
    Unsupported,
)
from bridge.model.change import Evidence
from bridge.telemetry.facts.informer import RecoveryEnd, StepsRecovered
from tests.bridge.informer.lives import Lives
from tests.kit.scripted_source import TakenOnTrust
from tests.kit.simulated_cluster import SimulatedCluster


class Cluster(SimulatedCluster):
    """Remembers the lists at exact versions, and may answer them otherwise."""

    def __init__(self) -> None:
        super().__init__(page_size=3)
        self.exact: list[ListRequest] = []
        self.instead: list[ErrorAnswer] = []
        """To the next lists at exact versions."""
        self.untakable: frozenset[str] = frozenset()
        """Names that no request can hold."""
        self.fails_from: int | None = None
        """The number of the list at an exact version from which on all of them fail."""
        self.busy_at: set[int] = set()
        """Numbers of lists at exact versions."""
        self.most_at_once = 0
        self.restores_at = 0
        """The number of the list at an exact version before which the store is restored."""
        self._under_way = 0
        self._asked = asyncio.Event()

    async def until_asked(self, times: int) -> None:
        """Returns after so many lists at exact versions."""
        while len(self.exact) < times:
            self._asked.clear()
            await self._asked.wait()

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        if request.match is not Match.EXACT:
            return await super().list(request, take)
        self.exact.append(request)
        self._asked.set()
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            await asyncio.sleep(0.01)
            if self.instead:
                return self.instead.pop(0)
            if (request.only or "").rpartition("/")[2] in self.untakable:
                return Unsupported("no URL can hold its name")
            if self.fails_from is not None and len(self.exact) >= self.fails_from:
                return Failed("500")
            if len(self.exact) in self.busy_at:
                return Busy("429")
            if len(self.exact) == self.restores_at:
                self.restore(2)
                for _ in range(40):
                    self.put("other")
                self.oldest = 1
            return await super().list(request, take)
        finally:
            self._under_way -= 1


@dataclass
class World(Lives):
    cluster: Cluster = field(default_factory=Cluster)
    limits: RecoveryLimits = field(default_factory=RecoveryLimits)
    wanted: bool = True
    proves: bool = False
    """The server's history is proven, with lists at exact versions of its own."""

    def on_cluster(self, *, watch_list: bool = False, history: History | None = None) -> SharedInformer:
        history = history or (History() if self.proves else TakenOnTrust())
        slots = RecoverySlots(self.limits, lambda _resource, _scope: self.wanted)
        return self.informer(self.cluster, watch_list=watch_list, history=history, recovery=slots)

    @asynccontextmanager
    async def living(self, *, watch_list: bool = False) -> AsyncGenerator[SharedInformer]:
        informer = self.on_cluster(watch_list=watch_list)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            await informer.wait_synced()
            await asyncio.sleep(5)
            yield informer
            informer.stop()

    async def missed(self, *, watch_list: bool = False) -> list[str]:
        """The exported changes after what happened to the cluster while nobody watched, with ``recovered`` as
        ``!``."""
        self.batches.clear()
        async with self.living(watch_list=watch_list):
            await asyncio.sleep(60)
        return self.exported

    @property
    def exported(self) -> list[str]:
        return [
            f"{'!' if each.evidence is Evidence.RECOVERED else ''}{each.op} {each.object.name}"
            f" {each.object.resource_version}"
            for each in self.changes
        ]

    @property
    def recoveries(self) -> list[StepsRecovered]:
        return [fact for fact in self.facts if isinstance(fact, StepsRecovered)]

    @property
    def ended_by(self) -> RecoveryEnd:
        return self.recoveries[-1].ended_by


async def a_life(*names: str) -> World:
    """Objects of these names were exported, the informer has ended, and the watch cache will be empty."""
    world = World()
    for name in names:
        world.cluster.put(name)
    async with world.living():
        pass
    assert not world.cluster.exact, "the first list has no steps behind it"
    return world


def changed(world: World, *ops: str) -> World:
    """``web``: a change or an addition; ``-web``: a delete."""
    for op in ops:
        (world.cluster.delete if op.startswith("-") else world.cluster.put)(op.removeprefix("-"))
    world.cluster.cached_from = world.cluster.version
    return world


async def test_every_step_of_the_outage_is_exported_in_order() -> None:
    world = changed(await a_life("web", "db"), "web", "db", "web", "web")

    exported = await world.missed()

    assert [each for each in exported if "web" in each] == ["!updated web 4", "!updated web 6", "!updated web 7"]
    assert [each for each in exported if "db" in each] == ["!updated db 5"]
    (recovery,) = world.recoveries
    assert (recovery.objects, recovery.steps, recovery.ended_by) == (2, 4, RecoveryEnd.COMPLETE)
    assert recovery.requests == len(world.cluster.exact)


async def test_a_running_bridge_recovers_after_a_restart_of_the_server() -> None:
    world = World()
    world.cluster.put("web")
    async with world.living():
        world.batches.clear()
        world.cluster.put("web")
        await asyncio.sleep(1)
        world.cluster.end_watches(Failed("the server restarts"))
        for _ in range(5):
            world.cluster.put("web")
        world.cluster.cached_from = world.cluster.version
        await asyncio.sleep(60)

    assert world.exported == ["updated web 3"] + [f"!updated web {version}" for version in range(4, 9)]


@pytest.mark.parametrize("watch_list", [False, True], ids=["list", "WatchList"])
async def test_deletes_have_their_last_state_and_their_version(watch_list: bool) -> None:
    world = changed(await a_life("web", "db"), "web", "-web", "db", "db")

    exported = await world.missed(watch_list=watch_list)

    assert [each for each in exported if "web" in each] == ["!updated web 4", "!deleted web 5"]


async def test_objects_that_came_and_went_are_found_in_samples() -> None:
    world = changed(await a_life("web"), "job", "job", "web", "web", "-job", "web")

    exported = await world.missed()

    assert [each for each in exported if "job" in each] == ["!added job 3", "!updated job 4", "!deleted job 7"]


async def test_a_deleted_object_did_not_come_and_go() -> None:
    """It is gone from the store before the samples are looked at."""
    world = changed(await a_life("a", "b", "web"), "web", "web", "-web", *(f"new-{n}" for n in range(9)))

    exported = await world.missed()

    assert [each for each in exported if each.endswith("web 5") or "web" in each] == [
        "!updated web 5",
        "!updated web 6",
        "!deleted web 7",
    ]


async def test_compacted_steps_stay_relisted() -> None:
    world = changed(await a_life("web"), "web", "web")
    world.cluster.oldest = world.cluster.version
    changed(world, "web", "web")

    assert await world.missed() == ["updated web 4", "!updated web 5", "!updated web 6"]
    assert world.ended_by is RecoveryEnd.FORGOTTEN


async def test_the_bound_on_requests_leaves_the_newest_steps() -> None:
    world = changed(await a_life("web"), *["web"] * 10)
    world.limits = RecoveryLimits(most_requests=3)

    assert await world.missed() == ["updated web 10", *(f"!updated web {version}" for version in (11, 12))]
    (recovery,) = world.recoveries
    assert (recovery.ended_by, recovery.requests, len(world.cluster.exact)) == (RecoveryEnd.REQUESTS, 3, 3)


@pytest.mark.parametrize("most", [1, 2, 3, 7, 16, 40])
@pytest.mark.parametrize("fails_from", [None, 2, 6, 15])
async def test_no_request_exceeds_the_bound_and_each_is_counted(most: int, fails_from: int | None) -> None:
    names = [f"pod-{number}" for number in range(5)]
    world = changed(await a_life(*names), *names * 10)
    world.limits, world.cluster.fails_from = RecoveryLimits(most_requests=most), fails_from

    await world.missed()

    (recovery,) = world.recoveries
    assert recovery.requests == len(world.cluster.exact) <= most


async def test_the_sealing_request_is_tried_again_within_the_bound() -> None:
    world = changed(await a_life("web"), *["web"] * 10)
    world.limits = RecoveryLimits(most_requests=8)
    world.cluster.busy_at = {5, 6, 7}

    assert await world.missed() == ["updated web 8", *(f"!updated web {version}" for version in range(9, 13))]
    assert len(world.cluster.exact) == 8


async def test_concurrency_is_bounded() -> None:
    names = [f"pod-{number}" for number in range(20)]
    world = changed(await a_life(*names), *names, *names)
    world.limits = RecoveryLimits(concurrency=2)

    assert all(each.startswith("!") for each in await world.missed())
    assert world.cluster.most_at_once == 2


@pytest.mark.parametrize(
    ("answers", "seconds"),
    [([Busy("429", 3.0)], 3), ([Failed("no connection")] * 7, 7), ([TooLarge("a server behind")], 1)],
    ids=["busy", "starting", "behind"],
)
async def test_a_server_that_is_not_ready_is_asked_again(answers: list[ErrorAnswer], seconds: float) -> None:
    world = changed(await a_life("web"), "web", "web")
    world.cluster.instead = answers

    assert await world.missed() == ["!updated web 3", "!updated web 4"]
    assert seconds <= world.recoveries[0].seconds < seconds + 1


@pytest.mark.parametrize(
    ("answers", "ended_by"),
    [
        ([Busy("429")] * 8, RecoveryEnd.FAILED),
        ([Busy("429", 30.0)], RecoveryEnd.SECONDS),
        ([Failed("500")] * 8, RecoveryEnd.FAILED),
        ([Refused(403, "RBAC")], RecoveryEnd.FAILED),
        ([Refused(405, "no")], RecoveryEnd.UNSUPPORTED),
    ],
    ids=["busy for long", "wants a long pause", "fails for long", "not allowed", "not supported"],
)
async def test_a_failure_leaves_the_state_of_the_list(answers: list[ErrorAnswer], ended_by: RecoveryEnd) -> None:
    world = changed(await a_life("web"), "web", "web")
    world.cluster.instead = answers

    assert await world.missed() == ["updated web 4"]
    assert world.ended_by is ended_by


@pytest.mark.parametrize("ignores_versions", [True, False], ids=["ignores the version", "lists by no name"])
async def test_a_server_without_such_lists_is_not_asked_again(ignores_versions: bool) -> None:
    world = World()
    world.cluster.put("web")
    world.cluster.ignores_exact = ignores_versions
    world.cluster.untakable = frozenset() if ignores_versions else frozenset({"web", "kubedelta"})
    async with world.living():
        for _ in range(2):
            world.cluster.end_watches(Failed("the server restarts"))
            changed(world, "web", "web")
            await asyncio.sleep(100)

    assert world.exported == ["added web 2", "updated web 4", "updated web 6"]
    assert [each.ended_by for each in world.recoveries] == [RecoveryEnd.UNSUPPORTED]
    assert len(world.cluster.exact) == (1 if ignores_versions else 2), "by its name, and by a harmless one"


@pytest.mark.parametrize("ops", [("long",), ("-long",), ("-long", "long"), ("-long", "long", "-long")])
async def test_a_name_too_long_for_a_request_hides_no_other_steps(ops: tuple[str, ...]) -> None:
    """Whoever may create an object chooses its name."""
    world = World()
    world.cluster.untakable = frozenset({"long"})
    for name in ("long", "web"):
        world.cluster.put(name)
    async with world.living():
        for _ in range(2):
            world.batches.clear()
            world.cluster.end_watches(Failed("the server restarts"))
            changed(world, *ops, "web", "web")
            await asyncio.sleep(100)

    newest = world.cluster.version
    steps = [f"!updated web {version}" for version in (newest - 1, newest)]
    assert [each for each in world.exported if "web" in each] == steps
    assert not any(each.startswith("!") for each in world.exported if "long" in each)
    assert [(each.ended_by, each.reason) for each in world.recoveries][:1] == [
        (RecoveryEnd.FAILED, "no URL can hold its name")
    ]


async def test_the_longest_pause_of_a_server_holds_all_requests() -> None:
    """Those included that wait for a shorter pause already."""
    slots, now = RecoverySlots(RecoveryLimits()), asyncio.get_running_loop().time
    began = now()
    slots.pause(1.0)

    async def waited() -> float:
        async with slots.turn():
            return now() - began

    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(waited()) for _ in range(9)]
        await asyncio.sleep(0.5)
        slots.pause(30.0)

    assert [each.result() for each in waiting] == [30.5] * 9


async def test_a_busy_server_gets_fewer_requests_at_once() -> None:
    """Else a request that it refuses each time, since it comes with too many others, would be given up."""
    slots, together, most = RecoverySlots(RecoveryLimits(concurrency=12)), 0, list[int]()

    async def is_refused(room: int) -> bool:
        nonlocal together
        together += 1
        most.append(together)
        await asyncio.sleep(0.01)
        refused, together = together > room, together - 1
        return refused

    async def ask(times: int, room: int) -> int:
        attempts = 0
        while times:
            attempts += 1
            async with slots.turn():
                if await is_refused(room):
                    slots.pause(1.0)
                else:
                    slots.answered()
                    times -= 1
        return attempts

    async with asyncio.TaskGroup() as tasks:
        for _ in range(11):
            tasks.create_task(ask(200, room=6))
        unlucky = tasks.create_task(ask(1, room=3))

    assert unlucky.result() < ATTEMPTS
    assert max(most[:12]) == 12
    assert max(most[12:]) < 12, "all at once are too many"


async def test_free_slots_count_when_a_server_becomes_busy() -> None:
    slots, running, most = RecoverySlots(RecoveryLimits(concurrency=4)), 0, 0

    async def ask() -> None:
        nonlocal running, most
        async with slots.turn():
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1

    async with slots.turn():
        slots.pause(1.0)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(9):
            tasks.create_task(ask())
    assert most == 2


async def test_the_operator_may_turn_it_off_for_a_resource() -> None:
    world = changed(await a_life("web"), "web", "web")
    world.wanted = False

    assert await world.missed() == ["updated web 4"]
    assert not world.recoveries


async def test_steps_of_a_store_restored_meanwhile_are_dropped() -> None:
    """The proofs of the history are of before and after: in between, a restored store may answer."""
    world = changed(await a_life("web"), *["web"] * 12)
    world.cluster.restores_at = 4
    world.proves = True

    exported = await world.missed()

    assert world.recoveries[0].ended_by is RecoveryEnd.CONTRADICTED
    assert exported[0] == "updated web 14", "as the list had it"
    assert world.batches[0].epoch < world.batches[-1].epoch


async def test_a_crash_within_the_recovery_repeats_it_with_equal_ids() -> None:
    world = changed(await a_life("web"), "web", "web", "web")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(world.on_cluster().run())
        await world.cluster.until_asked(2)
        running.cancel()

    assert await world.missed() == ["!updated web 3", "!updated web 4", "!updated web 5"]


async def ended_within_50_steps(end: Callable[[SharedInformer], None]) -> World:
    """The informer ends while it asks for the steps."""
    world = changed(await a_life("web"), *["web"] * 50)
    world.batches.clear()
    informer = world.on_cluster()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(informer.run())
        await world.cluster.until_asked(10)
        end(informer)
    return world


async def test_a_stop_within_the_recovery_leaves_it_to_the_next_start() -> None:
    world = await ended_within_50_steps(SharedInformer.stop)
    assert world.exported == []

    assert await world.missed() == [f"!updated web {version}" for version in range(3, 53)]


async def test_a_removed_resource_does_not_wait_for_its_steps() -> None:
    world = await ended_within_50_steps(SharedInformer.remove)
    assert world.exported == ["updated web 52", "deleted web 52"]


async def test_changes_of_the_next_watch_wait_behind_the_steps() -> None:
    world = changed(await a_life("web"), *["web"] * 100)
    world.batches.clear()
    async with asyncio.TaskGroup() as tasks:
        informer = world.on_cluster()
        tasks.create_task(informer.run())
        await world.cluster.until_asked(10)
        world.cluster.put("web")
        await asyncio.sleep(60)
        informer.stop()

    assert world.exported == [*(f"!updated web {version}" for version in range(3, 103)), "updated web 103"]


async def test_a_proof_of_the_history_waits_for_the_steps() -> None:
    world = changed(await a_life("web"), *["web"] * 300)
    world.batches.clear()
    history = History()
    informer = world.on_cluster(history=history)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(informer.run())
        await world.cluster.until_asked(10)
        assert await history.prove(informer) == SameHistory()
        assert len(world.exported) == 300, "none of them is unknown to the proof"
        informer.stop()
