"""A worker among its fakes, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from bridge.delivery import LaneWorker, Retry, SinkWorker, Worker, WorkerSettings
from bridge.model.policies import OnRejected
from bridge.model.record import Record
from bridge.model.status import PauseCause
from bridge.telemetry.facts import Fact
from sinks.base import Lanes
from tests.bridge.delivery.fakes import FakeDeadLetters, FakeFeed, ScriptedSink
from tests.kit.records import TIME
from tests.kit.virtual_time import run_in_virtual_time

P = ParamSpec("P")
F = TypeVar("F")

RETRY = Retry(initial=1.0, maximum=8.0, failures=5)


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The test's clock jumps. Where nothing can happen any more, it fails."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_in_virtual_time(test(*args, **kwargs))

    return run


def now() -> float:
    return asyncio.get_running_loop().time()


async def never_gone(_cause: PauseCause) -> None:
    raise AssertionError("the destination is there")


class World:
    """``pending`` and ``dead_letters`` outlive the workers; ``worker`` is the newest."""

    def __init__(
        self,
        sink: ScriptedSink,
        records: Sequence[Record] = (),
        *,
        lanes: Lanes | None = None,
        on_rejected: OnRejected = OnRejected.PARK,
        max_batch: int = 100,
        retry: Retry = RETRY,
        jitter: Callable[[], float] = lambda: 0.5,
        **bounds: Any,
    ) -> None:
        self.sink = sink
        self.pending = FakeFeed(records)
        self.dead_letters = FakeDeadLetters(pending=self.pending)
        self.facts: list[Fact] = []
        self.saved: list[PauseCause] = []
        """Why the destination ended deliveries."""
        self._lanes = lanes
        self._settings = WorkerSettings(
            name="audit",
            make_sink=lambda: self.sink,
            pending=self.pending.as_feed,
            dead_letters=self.dead_letters.as_dead_letters,
            report=self.facts.append,
            now=lambda: TIME,
            max_batch=max_batch,
            on_rejected=on_rejected,
            retry=retry,
            jitter=jitter,
            save_pause=self._save_pause,
        )
        self._bounds = bounds
        self.worker = self._make()

    async def _save_pause(self, cause: PauseCause) -> None:
        await asyncio.sleep(0.001)
        self.saved.append(cause)

    def _make(self) -> SinkWorker:
        if self._lanes is None:
            return Worker(self._settings)
        return LaneWorker(self._settings, self._lanes, **self._bounds)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SinkWorker]:
        """A new worker; it is cancelled at the end."""
        self.pending.begin_anew()
        self.worker = self._make()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.worker.run())
            try:
                yield self.worker
            finally:
                task.cancel()

    async def run_until_idle(self) -> None:
        """… and no dead letter is to be delivered again."""
        async with self.running() as worker:
            await self.until(lambda: not self.dead_letters.retrying)
            await worker.wait_idle()

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():  # noqa: ASYNC110 (the fakes have no events)
            await asyncio.sleep(1 / 4096)

    def reported(self, kind: type[F]) -> list[F]:
        return [fact for fact in self.facts if isinstance(fact, kind)]
