"""Handlers of an informer that is used as a library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from bridge.informer.handlers import BATCH, Handlers
from bridge.informer.indexer import Indexer
from bridge.model.change import Change, ChangeBatch, Evidence, Op
from bridge.model.resource import Scope
from bridge.processor.shared_processor import ListenerExists
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.delivery import ListenerOverrun
from tests.kit.deadlines import BUSY
from tests.kit.objects import a_pod
from tests.kit.records import PODS


class Recorder:
    """A handler that remembers, and that can be held."""

    def __init__(self) -> None:
        self.calls: list[list[Change]] = []
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, changes: Sequence[Change]) -> None:
        await self.go.wait()
        self.calls.append(list(changes))

    @property
    def delivered(self) -> list[str]:
        """``added web 1``, and so on."""
        return [
            f"{change.op} {change.object.name} {change.object.resource_version}"
            for call in self.calls
            for change in call
        ]


class World:
    def __init__(self, log_items: int = 10_000) -> None:
        self.indexer = Indexer()
        self.facts: list[Fact] = []
        self.handlers = Handlers(self.indexer, report=self.facts.append, log_items=log_items)
        self.version = 0

    def change(self, name: str, targets: tuple[str, ...] | None = None) -> Change:
        """The next version of one pod, as the Controller makes it."""
        self.version += 1
        thing = a_pod(name).at(self.version)
        known = self.indexer.known(thing.key)
        self.indexer.put(thing)
        return Change(Op.UPDATED if known else Op.ADDED, Evidence.WATCHED, thing, known, targets)

    async def happen(self, *names: str) -> None:
        changes = [self.change(name) for name in names]
        await self.handlers.deliver(ChangeBatch(PODS, Scope(), changes, str(self.version)))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with asyncio.TaskGroup() as tasks:
            self.handlers.start(tasks)
            yield
            await self.handlers.stop()


async def settled() -> None:
    await asyncio.sleep(0.001)


# ── What a handler gets ──────────────────────────────────────────────────────


async def test_changes_that_come_together_are_handled_together() -> None:
    world, recorder = World(), Recorder()
    world.handlers.add("one", recorder)
    async with world.running():
        await world.happen(*["web"] * (BATCH + 1))

    assert [len(call) for call in recorder.calls] == [BATCH, 1]


async def test_a_late_handler_gets_the_store_and_then_events_once_each() -> None:
    world, late = World(), Recorder()
    async with world.running():
        await world.happen("web", "db", "web")
        late.go.clear()
        world.handlers.add("late", late)
        await world.happen("db", "cache")
        await settled()
        await world.happen("web")
        late.go.set()

    assert sorted(late.delivered[:2]) == ["added db 2", "added web 3"]
    assert late.delivered[2:] == ["updated db 4", "added cache 5", "updated web 6"]
    assert {change.evidence for change in late.calls[0]} == {Evidence.LISTED}


async def test_what_is_for_one_handler_reaches_that_one_alone() -> None:
    world, one, other = World(), Recorder(), Recorder()
    world.handlers.add("one", one)
    world.handlers.add("other", other)
    async with world.running():
        change = world.change("web", targets=("one",))
        await world.handlers.deliver(ChangeBatch(PODS, Scope(), [change], None))

    assert (one.delivered, other.delivered) == (["added web 1"], [])


async def test_a_name_is_given_once_and_is_free_after_it_was_removed() -> None:
    world = World()
    registration = world.handlers.add("one", Recorder())
    with pytest.raises(ListenerExists):
        world.handlers.add("one", Recorder())
    world.handlers.remove(registration)
    world.handlers.remove(registration)
    world.handlers.add("one", Recorder())


# ── Handlers that come and go ────────────────────────────────────────────────


async def test_a_removed_handler_finishes_its_call_and_gets_no_other() -> None:
    world, recorder = World(), Recorder()
    registration = world.handlers.add("one", recorder)
    async with world.running():
        recorder.go.clear()
        await world.happen("web")
        await settled()
        world.handlers.remove(registration)
        await world.happen("db")
        recorder.go.set()
        await settled()

    assert recorder.delivered == ["added web 1"]


async def test_removing_an_old_handler_keeps_its_namesake() -> None:
    world, first, second = World(), Recorder(), Recorder()
    registration = world.handlers.add("one", first)
    async with world.running():
        world.handlers.remove(registration)
        world.handlers.add("one", second)
        world.handlers.remove(registration)
        await world.happen("web")

    assert second.delivered == ["added web 1"]


async def test_a_stuck_handler_blocks_nobody_and_its_queue_is_bounded() -> None:
    world, stuck, live = World(log_items=100), Recorder(), Recorder()
    stuck.go.clear()
    world.handlers.add("stuck", stuck)
    world.handlers.add("live", live)
    async with asyncio.TaskGroup() as tasks:
        world.handlers.start(tasks)
        for _ in range(3000):
            await world.happen("web")
            await asyncio.sleep(0)
        assert len(live.delivered) == 3000
        assert world.handlers.kept <= 100
        await world.handlers.stop(grace=1)

    assert stuck.calls == []


async def test_an_overrun_handler_is_reported_with_what_it_missed() -> None:
    world, slow = World(log_items=10), Recorder()
    slow.go.clear()
    world.handlers.add("slow", slow)
    async with world.running():
        await world.happen("web")
        await settled()
        for _ in range(1100):
            await world.happen("web")
        slow.go.set()

    got = [int(delivered.split()[-1]) for delivered in slow.delivered]
    (overrun,) = world.facts
    assert isinstance(overrun, ListenerOverrun)
    assert overrun.sink == "slow"
    assert sorted([*got, *range(overrun.first, overrun.last + 1)]) == list(range(1, 1102))


async def test_what_every_handler_has_been_given_is_not_kept() -> None:
    world = World()
    world.handlers.add("one", Recorder())
    async with world.running():
        for _ in range(100):
            await world.happen("web")
            await settled()
            assert world.handlers.kept <= 1


async def test_without_any_handler_nothing_is_kept() -> None:
    world = World()
    for _ in range(100):
        await world.happen("web")

    assert world.handlers.kept == 0


# ── HasSynced ────────────────────────────────────────────────────────────────


async def test_a_handler_has_synced_after_the_whole_first_list() -> None:
    world, recorder = World(), Recorder()
    recorder.go.clear()
    registration = world.handlers.add("one", recorder)
    async with world.running():
        await world.happen("web", "db")
        world.handlers.informer_synced()
        await settled()
        assert not registration.has_synced
        recorder.go.set()
        await registration.wait_synced()

    assert recorder.delivered == ["added web 1", "added db 2"]


async def test_an_early_handler_has_synced_when_the_list_ends() -> None:
    world, recorder = World(), Recorder()
    registration = world.handlers.add("one", recorder)
    async with world.running():
        await world.happen("web")
        await settled()
        assert not registration.has_synced
        world.handlers.informer_synced()
        assert registration.has_synced


@pytest.mark.parametrize("names", [[], ["web"], [f"web-{number}" for number in range(BATCH)]])
async def test_a_late_handler_has_synced_after_the_whole_store(names: list[str]) -> None:
    world, recorder = World(), Recorder()
    async with world.running():
        await world.happen(*names)
        world.handlers.informer_synced()
        registration = world.handlers.add("late", recorder)
        assert not registration.has_synced
        async with asyncio.timeout(1 * BUSY):
            await registration.wait_synced()

    assert len(recorder.delivered) == len(names)


async def test_a_late_handler_has_not_synced_after_a_part_of_the_store() -> None:
    world, calls, go = World(), list[int](), asyncio.Event()

    async def second_call_waits(changes: Sequence[Change]) -> None:
        calls.append(len(changes))
        if len(calls) == 2:
            await go.wait()

    async with world.running():
        await world.happen(*(f"web-{number}" for number in range(BATCH + 1)))
        world.handlers.informer_synced()
        registration = world.handlers.add("late", second_call_waits)
        await settled()
        assert (calls, registration.has_synced) == ([BATCH, 1], False)
        go.set()
        await registration.wait_synced()


async def test_a_busy_late_handler_has_not_synced_with_the_informer() -> None:
    world, recorder = World(), Recorder()
    async with world.running():
        await world.happen("web")
        recorder.go.clear()
        registration = world.handlers.add("late", recorder)
        await settled()
        world.handlers.informer_synced()
        assert not registration.has_synced
        recorder.go.set()
        await registration.wait_synced()


# ── The end ──────────────────────────────────────────────────────────────────


async def test_stopping_waits_for_handlers_to_return_and_no_longer() -> None:
    world, slow = World(), Recorder()
    world.handlers.add("slow", slow)
    slow.go.clear()
    began = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        world.handlers.start(tasks)
        await world.happen("web", "db")
        asyncio.get_running_loop().call_later(2, slow.go.set)
        await world.handlers.stop(grace=5)

    assert slow.delivered == ["added web 1", "added db 2"]
    assert asyncio.get_running_loop().time() - began == pytest.approx(2)


async def test_stopping_waits_for_a_stuck_handler_for_the_grace_alone() -> None:
    world, stuck = World(), Recorder()
    world.handlers.add("stuck", stuck)
    stuck.go.clear()
    began = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        world.handlers.start(tasks)
        await world.happen("web")
        await world.handlers.stop(grace=5)

    assert asyncio.get_running_loop().time() - began == pytest.approx(5)


async def test_stopping_does_not_wait_for_a_handler_that_was_removed() -> None:
    world, removed = World(), Recorder()
    registration = world.handlers.add("removed", removed)
    removed.go.clear()
    began = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        world.handlers.start(tasks)
        await world.happen("web")
        await settled()
        world.handlers.remove(registration)
        await world.handlers.stop(grace=5)

    assert asyncio.get_running_loop().time() - began < 1


async def test_a_handler_that_would_never_be_called_is_refused() -> None:
    world = World()
    async with world.running():
        await world.happen("web")

    with pytest.raises(RuntimeError, match="'late' is too late"):
        world.handlers.add("late", Recorder())
