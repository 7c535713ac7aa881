"""A queue of keys to work on, after client-go's ``util/workqueue``, in one event loop.

A key that is added while it waits is there once. A key that is added while a worker has it waits until that worker is
done, and then comes once: no key is with two workers, and no addition is forgotten.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from bridge.model.primitives.backoff import Backoff

K = TypeVar("K", bound=Hashable)


class QueueShutDown(Exception):
    """The queue was shut down, and what was in it has been handed out."""


@dataclass(slots=True)
class _Failures:
    backoff: Backoff
    count: int = 0


class WorkQueue(Generic[K]):
    """Keys come out in the order in which they began to wait.

    What is remembered of a key that failed is dropped by ``forget`` alone; whoever calls ``add_rate_limited`` calls
    ``forget`` when the key is well again, or gone.
    """

    def __init__(
        self, *, initial: float = 0.2, maximum: float = 30.0, chance: Callable[[], float] = random.random
    ) -> None:
        """``initial`` and ``maximum``: seconds, of the ceilings under which ``add_rate_limited`` draws its delays."""
        self._initial = initial
        self._maximum = maximum
        self._chance = chance
        self._queue: deque[K] = deque()
        self._dirty: set[K] = set()
        """To be worked on: waiting in the queue, or added since a worker began with it."""
        self._processing: set[K] = set()
        self._delayed: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, _Failures] = {}
        self._shutting_down = False
        self._change = asyncio.Event()

    def __len__(self) -> int:
        """Keys that wait for a worker; neither those that are delayed, nor those with a worker."""
        return len(self._queue)

    @property
    def is_active(self) -> bool:
        """A key waits for a worker, or is with one."""
        return bool(self._queue or self._processing)

    @property
    def next_delayed(self) -> float | None:
        """When the next delayed key is added, on the event loop's clock; None where none is."""
        return min((timer.when() for timer in self._delayed.values()), default=None)

    def add(self, key: K) -> None:
        """At once, however long it is still to be delayed. Does nothing after a shutdown."""
        if self._shutting_down or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._queue.append(key)
            self._change.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Add it after a while. Of several delays of one key the one that ends first counts."""
        if self._shutting_down:
            return
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        when, timer = loop.time() + seconds, self._delayed.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._delayed[key] = loop.call_at(when, self._add_delayed, key)

    def add_rate_limited(self, key: K, at_least: float | None = None) -> float:
        """Add it after a delay that doubles with every call since ``forget``, with full jitter. ``at_least``: seconds
        that are waited besides, because the other side asked for them. Returns the delay."""
        # No quiet time: a key that has to be delayed again was not well before somebody forgot its failures.
        fresh = _Failures(Backoff(self._initial, self._maximum, quiet=float("inf")))
        failures = self._failures.setdefault(key, fresh)
        failures.count += 1
        delay = failures.backoff.next(asyncio.get_running_loop().time(), self._chance(), at_least)
        self.add_after(key, delay)
        return delay

    def add_delayed_now(self) -> None:
        """End every delay. What is remembered of failures stays."""
        delayed, self._delayed = self._delayed, {}
        for key, timer in delayed.items():
            timer.cancel()
            self.add(key)

    def forget(self, key: K) -> None:
        """It is well, or gone: its next delay is a first one."""
        self._failures.pop(key, None)

    def num_requeues(self, key: K) -> int:
        """How often it was added rate limited since ``forget``."""
        failures = self._failures.get(key)
        return failures.count if failures else 0

    async def get(self) -> K:
        """Wait for a key; ``done`` must follow. Raises QueueShutDown when there will be none any more."""
        while not self._queue:
            if self._shutting_down:
                raise QueueShutDown
            await self._wait_for_change()
        key = self._queue.popleft()
        self._processing.add(key)
        self._dirty.discard(key)
        return key

    def done(self, key: K) -> None:
        """The worker that got it has ended with it. Raises ValueError where none has it."""
        if key not in self._processing:
            raise ValueError(f"done({key!r}) without get()")
        self._processing.remove(key)
        if key in self._dirty:
            self._queue.append(key)
        self._change.set()

    def shut_down(self) -> None:
        """Take no more. What waits is still handed out; what is delayed is dropped."""
        self._shutting_down = True
        for timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()
        self._change.set()

    async def shut_down_with_drain(self) -> None:
        """``shut_down``, and return when the workers are done with everything that was there."""
        self.shut_down()
        while self._queue or self._processing:
            await self._wait_for_change()

    def _add_delayed(self, key: K) -> None:
        del self._delayed[key]
        self.add(key)

    async def _wait_for_change(self) -> None:
        # Every change wakes all who wait. Each looks again, and the first to look may take what is there.
        self._change.clear()
        await self._change.wait()
