"""CPU time of a running bridge: by stage, and by thread with the number of its wake-ups, threads of C libraries
included. A bridge that is not profiled never imports this module.

Clocks stand around the functions of each stage, and around those by which one stage works for another. A thread is in a
single stage at a time: entering a stage stops the clock of the stage before, so that every nanosecond counts once.
Tasks, connections and executor work belong to the stage that creates them.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from asyncio import base_events, selector_events
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from time import perf_counter_ns, process_time_ns, thread_time_ns
from types import coroutine
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from aiohttp.client_proto import ResponseHandler

from bridge.app.stages import STAGE_FUNCTIONS, Count, Function, Replacements, Stage, StageFunction, replaced
from bridge.transform.transform import transform_for

# ── Threads ──────────────────────────────────────────────────────────────────

_TASKS = Path("/proc/self/task")
_THREAD_CPU_CLOCK = 6


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread by its kernel id: voluntary context switches, each of which ends with a wake-up, and CPU nanoseconds."""

    id: int
    name: str
    wake_ups: int
    cpu: int

    def __sub__(self, earlier: Thread) -> Thread:
        return Thread(self.id, self.name, self.wake_ups - earlier.wake_ups, self.cpu - earlier.cpu)


def threads() -> tuple[Thread, ...]:
    """All living threads in the order of their start. Empty where the system has no /proc."""
    if not _TASKS.is_dir():
        return ()
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    found = []
    for task in sorted(_TASKS.iterdir(), key=lambda each: int(each.name)):
        with suppress(OSError, StopIteration):  # The thread has ended since.
            number = int(task.name)
            name = names.get(number) or (task / "comm").read_text().strip()
            found.append(Thread(number, name, _wake_ups(task), _cpu(number)))
    return tuple(found)


def since(now: tuple[Thread, ...], earlier: tuple[Thread, ...]) -> tuple[Thread, ...]:
    """Each thread without its earlier figures."""
    before = {thread.id: thread for thread in earlier}
    return tuple(thread - before[thread.id] if thread.id in before else thread for thread in now)


def _wake_ups(task: Path) -> int:
    lines = (task / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches:"))


def _cpu(number: int) -> int:
    """By clock_gettime(2): the clock of a thread's CPU time, whoever started the thread."""
    return time.clock_gettime_ns((~number << 3) | _THREAD_CPU_CLOCK)


# ── Stages ───────────────────────────────────────────────────────────────────

STAGES = tuple(stage for stage in Stage if stage is not Stage.NONE)
EVENT_LOOP = "rest: event loop"
OTHER_THREADS = "rest: other threads"
PROFILE = "this profile"


@dataclass(frozen=True, slots=True)
class Row:
    """A stage: its CPU nanoseconds, how often it was entered from another stage, and its number of records. Calls of
    the event loop are its turns."""

    name: str
    cpu: int
    calls: int = 0
    records: int = 0

    def __sub__(self, other: Row) -> Row:
        return Row(self.name, self.cpu - other.cpu, self.calls - other.calls, self.records - other.records)


@dataclass(frozen=True, slots=True)
class Profile:
    """Elapsed and CPU nanoseconds of the whole process. The rows add up to ``cpu``."""

    elapsed: int
    cpu: int
    rows: tuple[Row, ...]
    threads: tuple[Thread, ...] = ()

    @property
    def records(self) -> int:
        """Number of committed records."""
        return self[Stage.COMMIT.name.lower()].records

    @property
    def all_threads(self) -> Thread:
        """Their sums."""
        return Thread(
            0, "all threads", sum(each.wake_ups for each in self.threads), sum(each.cpu for each in self.threads)
        )

    def __sub__(self, earlier: Profile) -> Profile:
        rows = tuple(row - before for row, before in zip(self.rows, earlier.rows, strict=True))
        threads = since(self.threads, earlier.threads)
        return Profile(self.elapsed - earlier.elapsed, self.cpu - earlier.cpu, rows, threads)

    def __getitem__(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)


T = TypeVar("T")

Clock: TypeAlias = Callable[[], int]
"""Returns nanoseconds of CPU time."""


class _Account:
    """A thread's stage, and its CPU nanoseconds in each stage."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stage = Stage.NONE
        self._since = clock()
        self.spent = [0] * len(Stage)
        self.calls = [0] * len(Stage)
        self.records = [0] * len(Stage)
        self.left = [0] * len(Stage)
        """Stage → how often another stage was entered from it."""

    def enter(self, stage: Stage) -> None:
        self.left[self.stage] += 1
        self.calls[stage] += 1
        self.move(stage)

    def move(self, stage: Stage) -> None:
        now = self._clock()
        self.spent[self.stage] += now - self._since
        self._since = now
        self.stage = stage

    @property
    def in_stages(self) -> int:
        return sum(self.spent[: Stage.NONE])


class _Here(threading.local):
    def __init__(self, accounts: list[_Account], clock: Clock) -> None:
        self.account = _Account(clock)
        accounts.append(self.account)


class Clocks:
    """The clocks of all threads. Create it, and call ``profile``, in the thread of the event loop."""

    def __init__(
        self,
        inside: float = 0.0,
        outside: float = 0.0,
        *,
        thread_clock: Clock = thread_time_ns,
        process_clock: Clock = process_time_ns,
    ) -> None:
        """``inside`` and ``outside`` are the cost of entering a stage, in nanoseconds: on the clock of the stage
        itself, and of the stage around it. ``thread_clock`` has the CPU time of the thread that reads it."""
        self._inside, self._outside = inside, outside
        self._thread_clock, self._process_clock = thread_clock, process_clock
        self._accounts: list[_Account] = []
        self._here = _Here(self._accounts, thread_clock)
        self._own = self._here.account
        self._turns = 0
        self._makers: WeakKeyDictionary[object, Stage] = WeakKeyDictionary()
        self._elapsed, self._cpu, self._own_cpu = perf_counter_ns(), process_clock(), thread_clock()

    # ── Around functions ─────────────────────────────────────────────────────

    def timed(self, stage: Stage, function: Callable[..., T], count: Count | None = None) -> Callable[..., T]:
        here = self._here

        @wraps(function)
        def clocked(*args: Any, **kwargs: Any) -> T:
            account = here.account
            around = account.stage
            if around is stage:
                result = function(*args, **kwargs)
            else:
                account.enter(stage)
                try:
                    result = function(*args, **kwargs)
                finally:
                    account.move(around)
            if count is not None:
                account.records[stage] += count(args, result)
            return result

        return clocked

    def stepped(
        self, stage: Stage, function: Callable[..., Coroutine[Any, Any, T]], count: Count | None = None
    ) -> Callable[..., Coroutine[Any, Any, T]]:
        """Like ``timed``, for a coroutine function: its work counts, without its waits."""

        @wraps(function)
        async def clocked(*args: Any, **kwargs: Any) -> T:
            result = await self._steps(stage, function(*args, **kwargs))
            if count is not None:
                self._here.account.records[stage] += count(args, result)
            return result

        return clocked

    @coroutine
    def _steps(self, stage: Stage, steps: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        send = self.timed(stage, steps.send)
        throw = self.timed(stage, steps.throw)
        error: BaseException | None = None
        while True:
            try:
                waits_for = send(None) if error is None else throw(error)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            error = None
            try:
                yield waits_for
            except BaseException as thrown:
                error = thrown

    # ── Objects that a stage creates ─────────────────────────────────────────

    def made(self, function: Callable[..., None]) -> Callable[..., None]:
        """Replaces an ``__init__``: the instance belongs to the stage that creates it."""

        @wraps(function)
        def made_in_stage(instance: object, *args: Any, **kwargs: Any) -> None:
            self._makers[instance] = self._here.account.stage
            function(instance, *args, **kwargs)

        return made_in_stage

    def of_maker(self, function: Callable[..., T]) -> Callable[..., T]:
        """Replaces a method of such an instance."""
        clocked: dict[Stage, Callable[..., T]] = {stage: self.timed(stage, function) for stage in STAGES}

        @wraps(function)
        def in_stage_of_maker(instance: object, *args: Any) -> T:
            return clocked.get(self._makers.get(instance, Stage.NONE), function)(instance, *args)

        return in_stage_of_maker

    def of_caller(self, function: Callable[..., asyncio.Future[T]]) -> Callable[..., asyncio.Future[T]]:
        """Replaces ``run_in_executor``: the thread works for the calling stage."""

        @wraps(function)
        def run(loop: object, executor: object, work: Callable[..., T], *args: Any) -> asyncio.Future[T]:
            stage = self._here.account.stage
            return function(loop, executor, work if stage is Stage.NONE else self.timed(stage, work), *args)

        return run

    def task(self, loop: asyncio.AbstractEventLoop, steps: Any, **kwargs: Any) -> asyncio.Task[Any]:
        """A task factory."""
        stage = self._here.account.stage
        clocked = steps if stage is Stage.NONE else self.stepped(stage, lambda: steps)()
        return asyncio.Task(clocked, loop=loop, **kwargs)

    def turn(self, function: Callable[[T], None]) -> Callable[[T], None]:
        """Replaces ``_run_once`` of the event loop."""

        @wraps(function)
        def counted(loop: T) -> None:
            self._turns += 1
            function(loop)

        return counted

    # ── The profile ──────────────────────────────────────────────────────────

    def profile(self) -> Profile:
        """The profile since the clocks were created. The estimated cost of entering stages is subtracted, and has a row
        of its own."""
        own = self._own
        own_cpu = self._thread_clock() - self._own_cpu
        spent, calls, records, left = (
            [sum(figures) for figures in zip(*(getattr(account, name) for account in self._accounts), strict=True)]
            for name in ("spent", "calls", "records", "left")
        )
        records[Stage.RECEIVE] = records[Stage.DECODE]  # Received bytes are not yet split into records.
        cpu = self._process_clock() - self._cpu
        found = [
            *((Row(stage.name.lower(), spent[stage], calls[stage], records[stage]), left[stage]) for stage in STAGES),
            (Row(EVENT_LOOP, own_cpu - own.in_stages), own.left[Stage.NONE]),
            (
                Row(OTHER_THREADS, cpu - own_cpu - (sum(spent[: Stage.NONE]) - own.in_stages)),
                left[Stage.NONE] - own.left[Stage.NONE],
            ),
        ]
        rows = [self._without_cost(row, left) for row, left in found]
        cost = cpu - sum(row.cpu for row in rows)
        rows = [replace(row, calls=self._turns) if row.name == EVENT_LOOP else row for row in rows]
        return Profile(perf_counter_ns() - self._elapsed, cpu, (*rows, Row(PROFILE, cost)), threads())

    def _without_cost(self, row: Row, left: int) -> Row:
        cost = round(row.calls * self._inside + left * self._outside)
        return Row(row.name, max(0, row.cpu - cost), row.calls, row.records)

    @property
    def in_stages(self) -> int:
        """Nanoseconds of this thread."""
        return self._own.in_stages


def calibrated() -> Clocks:
    """Clocks with measured costs."""
    rounds = 30
    calls = 100

    def nothing() -> None:
        return

    plain = []
    inside = []
    outside = []
    for _ in range(rounds):
        trial = Clocks()
        plain.append(_cpu_of(nothing, calls))
        whole = _cpu_of(trial.timed(Stage.RECEIVE, nothing), calls)
        inside.append(trial.in_stages)
        outside.append(whole - trial.in_stages)
    # The smallest figures: any other has an interruption in it.
    return Clocks(max(0, min(inside) - min(plain)) / calls, max(0, min(outside)) / calls)


def _cpu_of(function: Callable[[], None], calls: int) -> int:
    began = thread_time_ns()
    for _ in range(calls):
        function()
    return thread_time_ns() - began


# ── At the functions of each stage ───────────────────────────────────────────

_CONNECTION = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
_TURN = base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]


@contextmanager
def profiled() -> Iterator[Clocks]:
    """Installs the clocks inside the context. Enter it on the event loop, before the bridge is created."""
    clocks = calibrated()
    loop = asyncio.get_running_loop()
    with replaced(replacements(clocks)), ExitStack() as undo:
        undo.callback(loop.set_task_factory, loop.get_task_factory())
        loop.set_task_factory(clocks.task)
        yield clocks


def replacements(clocks: Clocks) -> Replacements:
    return {
        **{staged.function: _clocked(clocks, staged) for staged in STAGE_FUNCTIONS},
        transform_for: lambda made: _transform_timed(clocks, made),
        base_events.BaseEventLoop.run_in_executor: clocks.of_caller,
        _TURN: clocks.turn,
        _CONNECTION.__init__: clocks.made,
        _CONNECTION._read_ready: clocks.of_maker,
        ResponseHandler.__init__: clocks.made,
        ResponseHandler.data_received: clocks.of_maker,
    }


def _clocked(clocks: Clocks, staged: StageFunction) -> Callable[[Function], Function]:
    around = clocks.stepped if inspect.iscoroutinefunction(staged.function) else clocks.timed
    return lambda function: around(staged.stage, function, staged.count)


def _transform_timed(clocks: Clocks, transform_for: Function) -> Function:
    """The transform of each resource belongs to a stage, and not the function that makes it."""
    return lambda *args: clocks.timed(Stage.STRIP, transform_for(*args), lambda _args, _result: 1)
