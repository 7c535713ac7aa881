"""Where the CPU of a running bridge goes, stage by stage."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import process_time_ns, thread_time_ns
from typing import Any

import pytest

from bridge.app import running
from bridge.app.profiling import STAGES, Clocks, Profile, Thread, profiled, replacements, since, threads
from bridge.app.stages import Stage, place_of
from bridge.model.policies import StartPolicy
from bridge.plan.plan import SinkPlan, Wanted
from bridge.transform import transform
from sinks import registry
from sinks.file.options import FileOptions
from tests.bridge.app.test_bridge import on_playground
from tests.kit.bridges import World, a_config_map
from tests.kit.deadlines import until

OBJECTS, UPDATES = 30, 70
MILLISECOND = 1_000_000


class Cpu:
    """The CPU time of threads that the test itself spends: a busy machine adds nothing to it."""

    def __init__(self) -> None:
        self._here, self._whole = threading.local(), 0

    def burn(self, milliseconds: int) -> None:
        self._here.spent = self.of_thread() + milliseconds * MILLISECOND
        self._whole += milliseconds * MILLISECOND

    def of_thread(self) -> int:
        return int(getattr(self._here, "spent", 0))

    def of_process(self) -> int:
        return self._whole

    def clocks(self) -> Clocks:
        return Clocks(thread_clock=self.of_thread, process_clock=self.of_process)


@pytest.fixture
def cpu() -> Cpu:
    return Cpu()


# ── A bridge ─────────────────────────────────────────────────────────────────


def a_file_sink(path: Path) -> SinkPlan:
    make = partial(registry.create, "copy", "file", FileOptions(path=path), "test")
    return SinkPlan(name="copy", type="file", make=make, max_batch=20, start=StartPolicy.EARLIEST)


async def churned(world: World, copy: Path) -> None:
    """Objects that are listed, then changed, and all of it in the file."""
    await world.until_ready()
    for number in range(UPDATES):
        name = f"object-{number % OBJECTS}"
        world.cluster.update("configmaps", a_config_map(name, value=f"{number + 2}"))
    await until(lambda: copy.exists() and copy.read_bytes().count(b"\n") == OBJECTS + UPDATES)


async def test_every_stage_of_a_run_counts_the_records_that_passed(tmp_path: Path) -> None:
    copy, state = tmp_path / "copy.ndjson", tmp_path / "state"
    state.mkdir()
    with profiled() as clocks:
        before = process_time_ns()
        async with on_playground((a_file_sink(copy),), (Wanted("configmaps"),), state=state) as world:
            for number in range(OBJECTS):
                world.cluster.create("configmaps", a_config_map(f"object-{number}"))
            await churned(world, copy)
        profile = clocks.profile()
    records = OBJECTS + UPDATES
    assert {stage.name: profile[stage.name.lower()].records for stage in STAGES} == {
        **{stage.name: records for stage in STAGES},
        "SPLIT": profile["split"].records,
    }
    assert UPDATES <= profile["split"].records <= records  # A list is not split.
    stages = [profile[stage.name.lower()] for stage in STAGES]
    assert all(row.cpu > 0 and row.calls > 0 for row in stages)
    assert sum(row.cpu for row in stages) <= process_time_ns() - before
    assert sum(row.cpu for row in profile.rows) == profile.cpu


# ── Off ──────────────────────────────────────────────────────────────────────


def the_functions(places: list[tuple[Any, str]]) -> list[Any]:
    return [vars(owner)[name] for owner, name in places]


async def test_nothing_is_touched_before_and_after_it_is_asked_for() -> None:
    places = [place_of(function) for function in replacements(Clocks())]
    before = the_functions(places)
    assert not [function for function in before if hasattr(function, "__wrapped__")]
    factory = asyncio.get_running_loop().get_task_factory()
    with profiled():
        assert not [pair for pair in zip(before, the_functions(places), strict=True) if pair[0] is pair[1]]
    assert [one is other for one, other in zip(before, the_functions(places), strict=True)] == [True] * len(before)
    assert asyncio.get_running_loop().get_task_factory() is factory


async def test_a_function_is_touched_wherever_it_was_imported_by_name() -> None:
    before = transform.transform_for
    with profiled():
        assert vars(running)["transform_for"] is transform.transform_for is not before
    assert vars(running)["transform_for"] is before


def test_a_run_without_a_profile_does_not_even_import_it() -> None:
    look = (
        "import sys; from bridge.cli.command_line import parse; command = parse(['run', '-c', 'none.yaml']);"
        "command(); sys.exit(any('bridge.app.profiling' in name for name in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert "none.yaml" in ran.stderr  # It came as far as reading its file.
    assert ran.returncode == 0, ran.stderr


# ── Clocks ───────────────────────────────────────────────────────────────────


@contextmanager
def tasks_made_by(clocks: Clocks) -> Iterator[None]:
    asyncio.get_running_loop().set_task_factory(clocks.task)
    yield
    asyncio.get_running_loop().set_task_factory(None)


def milliseconds(profile: Profile, stage: Stage) -> float:
    return profile[stage.name.lower()].cpu / MILLISECOND


def test_a_stage_inside_another_counts_for_itself_alone(cpu: Cpu) -> None:
    clocks = cpu.clocks()
    inner = clocks.timed(Stage.STRIP, lambda: cpu.burn(10))

    def whole() -> None:
        cpu.burn(20)
        inner()
        cpu.burn(10)

    clocks.timed(Stage.COMPARE, whole)()
    profile = clocks.profile()
    assert milliseconds(profile, Stage.COMPARE) == 30
    assert milliseconds(profile, Stage.STRIP) == 10
    assert (profile["compare"].calls, profile["strip"].calls) == (1, 1)


def test_an_error_leaves_its_stage(cpu: Cpu) -> None:
    clocks = cpu.clocks()
    with pytest.raises(ZeroDivisionError):
        clocks.timed(Stage.SPLIT, lambda: 1 / 0)()
    cpu.burn(10)
    assert milliseconds(clocks.profile(), Stage.SPLIT) == 0


async def test_a_coroutine_is_charged_its_own_time_alone(cpu: Cpu) -> None:
    clocks, waits = cpu.clocks(), asyncio.Event()

    async def steps() -> str:
        cpu.burn(10)
        await waits.wait()
        cpu.burn(10)
        return "done"

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(clocks.stepped(Stage.COMMIT, steps)())
        await asyncio.sleep(0)
        cpu.burn(30)
        waits.set()
    assert task.result() == "done"
    profile = clocks.profile()
    assert milliseconds(profile, Stage.COMMIT) == 20
    assert profile["commit"].calls == 2


async def test_a_timed_coroutine_is_cancelled_and_fails_like_any_other() -> None:
    clocks, cleaned = Clocks(), list[str]()

    async def waits(what: Awaitable[Any]) -> None:
        try:
            await what
        finally:
            cleaned.append("up")

    clocked = clocks.stepped(Stage.COMMIT, waits)
    for what in (asyncio.Event().wait(), asyncio.sleep(0)):  # The second waits for nothing that could be cancelled.
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(clocked(what))
            await asyncio.sleep(0)
            task.cancel()
        assert task.cancelled()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await clocked(asyncio.Event().wait())
    with pytest.raises(ZeroDivisionError):
        await clocked(asyncio.to_thread(lambda: 1 / 0))
    assert cleaned == ["up"] * 4


async def test_turns_of_the_event_loop_are_counted() -> None:
    with profiled() as clocks:
        for _ in range(10):
            await asyncio.sleep(0)
        profile = clocks.profile()
    assert profile["rest: event loop"].calls == 10


def test_cpu_and_wake_ups_are_those_of_the_thread_alone() -> None:
    spent, ends = threading.Event(), threading.Event()

    def spends() -> None:
        until = thread_time_ns() + 20 * MILLISECOND
        while thread_time_ns() < until:
            pass
        spent.set()
        ends.wait()

    earlier = threads()
    thread = threading.Thread(target=spends, name="spends")
    thread.start()
    spent.wait()
    wake_ups = 0
    while not wake_ups:  # It sleeps sooner or later, and each sleep counts.
        [found] = [each for each in since(threads(), earlier) if each.name == "spends"]
        wake_ups = found.wake_ups
    ends.set()
    thread.join()
    assert found.id == thread.native_id
    assert found.cpu >= 20 * MILLISECOND
    assert "spends" not in {each.name for each in threads()}


def test_figures_since_a_look_are_without_those_of_that_look() -> None:
    begun = Thread(2, "new", 7, 70)
    assert since((Thread(1, "old", 12, 120), begun), (Thread(1, "old", 2, 20),)) == (Thread(1, "old", 10, 100), begun)


async def test_what_a_stage_makes_belongs_to_it(cpu: Cpu) -> None:
    clocks = cpu.clocks()
    loop = asyncio.get_running_loop()
    in_executor = clocks.of_caller(type(loop).run_in_executor)

    async def later() -> None:
        await asyncio.sleep(0)
        cpu.burn(10)

    async def steps() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(later())
        await in_executor(loop, None, cpu.burn, 20)

    with tasks_made_by(clocks):
        await clocks.stepped(Stage.DELIVER, steps)()
        await in_executor(loop, None, cpu.burn, 10)
    profile = clocks.profile()
    assert milliseconds(profile, Stage.DELIVER) == 30
    assert profile["rest: other threads"].cpu / MILLISECOND == 10


def test_a_connection_belongs_to_who_opened_it(cpu: Cpu) -> None:
    class Connection:
        def __init__(self) -> None:
            return

        def read(self) -> None:
            cpu.burn(10)

    clocks = cpu.clocks()

    class Watched(Connection):
        __init__ = clocks.made(Connection.__init__)
        read = clocks.of_maker(Connection.read)

    theirs = clocks.timed(Stage.DELIVER, Watched)()
    nobodys = Watched()
    theirs.read()
    nobodys.read()
    assert milliseconds(clocks.profile(), Stage.DELIVER) == 10


def test_a_profile_less_an_earlier_one_is_what_happened_between(cpu: Cpu) -> None:
    clocks = cpu.clocks()
    split = clocks.timed(Stage.SPLIT, cpu.burn, lambda args, _: args[0])
    split(10)
    earlier = clocks.profile()
    split(20)
    between = clocks.profile() - earlier
    assert between["split"].records == 20
    assert milliseconds(between, Stage.SPLIT) == 20
    assert between.cpu < clocks.profile().cpu
