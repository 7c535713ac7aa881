"""Clocks around functions. A thread is in a single stage at a time: entering a stage stops the clock of the stage
before, so that every nanosecond counts once. Tasks, connections and executor work belong to the stage that creates
them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from dataclasses import replace
from functools import wraps
from time import perf_counter_ns, process_time_ns, thread_time_ns
from types import coroutine
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from bridge.app.profiling.figures import EVENT_LOOP, OTHER_THREADS, PROFILE, STAGES, Profile, Row, threads
from bridge.app.stages import Count, Stage

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
