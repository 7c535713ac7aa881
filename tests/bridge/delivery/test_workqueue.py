"""A queue of keys: never one with two workers, never one forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bridge.delivery.workqueue import QueueShutDown, WorkQueue
from tests.bridge.delivery.world import virtual
from tests.kit.examples import examples
from tests.kit.virtual_time import VirtualTimeLoop


def a_queue() -> WorkQueue[str]:
    return WorkQueue(initial=1.0, maximum=8.0, jitter=lambda: 0.5)


@virtual
async def test_get_waits_for_a_key_and_many_who_wait_get_one_each() -> None:
    queue = a_queue()
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(queue.get()) for _ in range(3)]
        for key in "abc":
            await asyncio.sleep(1)
            queue.add(key)

    assert sorted(task.result() for task in waiting) == ["a", "b", "c"]


@virtual
async def test_a_worker_that_gives_up_waiting_takes_no_key_along() -> None:
    queue = a_queue()
    async with asyncio.TaskGroup() as tasks:
        impatient = tasks.create_task(queue.get())
        patient = tasks.create_task(queue.get())
        await asyncio.sleep(1)
        queue.add("a")
        impatient.cancel()

    assert patient.result() == "a"


@virtual
async def test_a_key_that_fails_for_hours_is_not_taken_for_a_fresh_one() -> None:
    queue = a_queue()
    for _ in range(5):
        queue.add_rate_limited("a")
    await asyncio.sleep(10_000)

    assert queue.add_rate_limited("a") == 4.0


@virtual
async def test_nothing_is_remembered_of_a_key_that_is_forgotten() -> None:
    queue = a_queue()
    for number in range(100):
        queue.add_rate_limited(str(number))
        queue.forget(str(number))
        queue.forget(str(number))
        await queue.get()
        queue.done(str(number))

    assert [len(held) for held in (queue._failures, queue._delayed, queue._dirty, queue._processing)] == [0] * 4


@virtual
async def test_after_a_shutdown_the_rest_comes_out_and_nothing_goes_in() -> None:
    queue = a_queue()
    queue.add("a")
    queue.add_after("delayed", 1.0)
    queue.shut_down()
    queue.add("b")
    queue.add_after("c", 1.0)
    queue.add_rate_limited("d")

    assert await queue.get() == "a"
    await asyncio.sleep(60)
    with pytest.raises(QueueShutDown):
        await queue.get()


@virtual
async def test_a_shutdown_ends_those_who_wait() -> None:
    queue = a_queue()

    async def wait() -> None:
        with pytest.raises(QueueShutDown):
            await queue.get()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(wait())
        await asyncio.sleep(1)
        queue.shut_down()


@virtual
async def test_a_drain_waits_for_queued_running_and_returning_keys() -> None:
    queue, done = a_queue(), list[str]()
    queue.add("a")
    queue.add("b")

    async def work() -> None:
        while True:
            try:
                key = await queue.get()
            except QueueShutDown:
                return
            await asyncio.sleep(1)
            done.append(key)
            queue.done(key)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work())
        await asyncio.sleep(0.5)
        queue.add("a")  # The worker has it: it comes again.
        await queue.shut_down_with_drain()
        assert done == ["a", "b", "a"]


@virtual
async def test_done_without_get_is_a_bug() -> None:
    queue = a_queue()
    queue.add("a")

    with pytest.raises(ValueError, match="done"):
        queue.done("a")


# ── Against a model ──────────────────────────────────────────────────────────

KEYS = st.sampled_from("abcd")


class AgainstAModel(RuleBasedStateMachine):
    """The model is what anybody would draw: who waits, who has a worker, who must come again, who comes when."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        self.loop = self.runner.get_loop()
        self.queue = a_queue()
        self.waiting: list[str] = []
        self.working: set[str] = set()
        self.again: list[str] = []
        self.delayed: dict[str, float] = {}
        self.failures: dict[str, int] = {}
        self.down = False

    def teardown(self) -> None:
        self.runner.close()

    def run(self, what: Callable[[], Any]) -> Any:
        async def call() -> Any:
            return what()

        return self.runner.get_loop().run_until_complete(call())

    def model_add(self, key: str) -> None:
        if key in self.working:
            if key not in self.again:
                self.again.append(key)
        elif key not in self.waiting:
            self.waiting.append(key)

    def model_add_after(self, key: str, seconds: float) -> None:
        if self.down:
            return
        if seconds <= 0:
            self.model_add(key)
        else:
            self.delayed[key] = min(self.delayed.get(key, float("inf")), self.loop.time() + seconds)

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.run(lambda: self.queue.add(key))
        if not self.down:
            self.model_add(key)

    @rule(key=KEYS, seconds=st.sampled_from([-1.0, 0.0, 1.25, 2.5, 7.0]))
    def add_after(self, key: str, seconds: float) -> None:
        self.model_add_after(key, seconds)
        self.run(lambda: self.queue.add_after(key, seconds))

    @rule(key=KEYS, asked=st.sampled_from([None, 3.0]))
    def add_rate_limited(self, key: str, asked: float | None) -> None:
        delay = min(2 ** self.failures.get(key, 0), 8) / 2 + (asked or 0.0)
        self.failures[key] = self.failures.get(key, 0) + 1
        self.model_add_after(key, delay)
        assert self.run(lambda: self.queue.add_rate_limited(key, asked)) == delay

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @precondition(lambda self: self.waiting)
    @rule()
    def get(self) -> None:
        key = self.waiting.pop(0)
        assert self.runner.get_loop().run_until_complete(self.queue.get()) == key
        self.working.add(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.working.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.waiting.append(key)
        self.queue.done(key)

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        end = self.loop.time() + seconds
        self.runner.get_loop().run_until_complete(asyncio.sleep(seconds))
        due = {key: when for key, when in self.delayed.items() if when <= end}
        order = list(self.queue._queue)
        # Of those due at the same moment any may be first.
        for key in sorted(due, key=lambda key: (due[key], order.index(key) if key in order else 0)):
            del self.delayed[key]
            self.model_add(key)

    @rule()
    def shut_down(self) -> None:
        self.queue.shut_down()
        self.down = True
        self.delayed.clear()

    @invariant()
    def is_as_the_model(self) -> None:
        assert list(self.queue._queue) == self.waiting
        assert len(self.queue) == len(self.waiting)
        assert self.queue.next_delayed == min(self.delayed.values(), default=None)
        for key in "abcd":
            assert self.queue.num_requeues(key) == self.failures.get(key, 0)
        if self.down and not self.waiting:
            with pytest.raises(QueueShutDown):
                self.runner.get_loop().run_until_complete(self.queue.get())


AgainstAModel.TestCase.settings = examples(50, stateful_step_count=40)
TestAgainstAModel = AgainstAModel.TestCase
