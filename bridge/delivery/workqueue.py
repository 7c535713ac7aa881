"""A queue of keys to work on, after client-go's ``util/workqueue``, in an event loop.

A key that is added several times while it waits is in the queue once. A key that is added while a worker processes it
waits until that worker is done: no two workers get the same key at once, and no addition is lost.

The queue is in memory only, and is part of the library's interface: an informer's event handler adds keys, workers
``get`` them, and end by ``shut_down`` or ``shut_down_with_drain``.
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
    """The queue was shut down, and every waiting key has been handed out."""


@dataclass(slots=True)
class _Failures:
    backoff: Backoff
    count: int = 0


class WorkQueue(Generic[K]):
    """Hands out keys in the order in which they began to wait.

    Only ``forget`` drops the failures of a key, and memory grows without it. A caller of ``add_rate_limited`` must call
    ``forget`` when the key succeeds, or no longer exists.
    """

    def __init__(
        self, *, initial: float = 0.2, maximum: float = 30.0, jitter: Callable[[], float] = random.random
    ) -> None:
        """``initial`` and ``maximum``: the first and the largest upper bound of the delays that ``add_rate_limited``
        draws, in seconds. ``jitter``: returns a number from 0 to 1 for each delay."""
        self._initial = initial
        self._maximum = maximum
        self._jitter = jitter
        self._queue: deque[K] = deque()
        self._dirty: set[K] = set()
        """Keys that wait in the queue, or were added since a worker began to process them."""
        self._processing: set[K] = set()
        self._delayed: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, _Failures] = {}
        self._shutting_down = False
        self._change = asyncio.Event()

    def __len__(self) -> int:
        """Keys that wait for a worker, without delayed keys and keys that a worker processes."""
        return len(self._queue)

    @property
    def is_active(self) -> bool:
        """A key waits for a worker, or a worker processes it."""
        return bool(self._queue or self._processing)

    @property
    def next_delayed(self) -> float | None:
        """The time at which the next delayed key is added, on the event loop's clock; None without delayed keys."""
        return min((timer.when() for timer in self._delayed.values()), default=None)

    def add(self, key: K) -> None:
        """Adds the key at once, even if it is delayed. Has no effect after a shutdown."""
        if self._shutting_down or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._queue.append(key)
            self._change.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Adds the key after a delay. Of several delays of a key, the delay that ends first counts. Has no effect after
        a shutdown."""
        if self._shutting_down:
            return
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        when, timer = loop.time() + seconds, self._delayed.get(key)
        if timer is not None:
            # The present delay ends first.
            if timer.when() <= when:
                return
            timer.cancel()
        self._delayed[key] = loop.call_at(when, self._add_delayed, key)

    def add_rate_limited(self, key: K, at_least: float | None = None) -> float:
        """Adds the key after a delay whose upper bound doubles with every call since ``forget``, with full jitter.
        ``at_least``: seconds that the other side asked for (Retry-After), which are added to the delay. Returns the
        delay in seconds."""
        # Only forget() resets the back-off: a quiet time alone is no success.
        fresh = _Failures(Backoff(self._initial, self._maximum, quiet=float("inf")))
        failures = self._failures.setdefault(key, fresh)
        failures.count += 1
        delay = failures.backoff.next(asyncio.get_running_loop().time(), self._jitter(), at_least)
        self.add_after(key, delay)
        return delay

    def add_delayed_now(self) -> None:
        """Adds every delayed key at once. The number of failures of each key stays."""
        delayed, self._delayed = self._delayed, {}
        for key, timer in delayed.items():
            timer.cancel()
            self.add(key)

    def forget(self, key: K) -> None:
        """The key succeeded, or no longer exists: its next delay is the first again."""
        self._failures.pop(key, None)

    def num_requeues(self, key: K) -> int:
        """Calls of ``add_rate_limited`` for the key since ``forget``."""
        failures = self._failures.get(key)
        return failures.count if failures else 0

    async def get(self) -> K:
        """Waits for a key. The worker must call ``done`` afterwards. Raises QueueShutDown when the queue was shut down
        and no key waits."""
        while not self._queue:
            if self._shutting_down:
                raise QueueShutDown
            await self._wait_for_change()
        key = self._queue.popleft()
        self._processing.add(key)
        # From now on an addition makes the key wait again: the worker may have read older state.
        self._dirty.discard(key)
        return key

    def done(self, key: K) -> None:
        """The worker has processed the key. Raises ValueError for a key that no worker processes."""
        if key not in self._processing:
            raise ValueError(f"done({key!r}) without get()")
        self._processing.remove(key)
        if key in self._dirty:
            self._queue.append(key)
        self._change.set()

    def shut_down(self) -> None:
        """Accepts no more keys. Waiting keys are still handed out; delayed keys are dropped."""
        self._shutting_down = True
        for timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()
        self._change.set()

    async def shut_down_with_drain(self) -> None:
        """``shut_down``, and return when the workers have processed every waiting key."""
        self.shut_down()
        while self._queue or self._processing:
            await self._wait_for_change()

    def _add_delayed(self, key: K) -> None:
        del self._delayed[key]
        self.add(key)

    async def _wait_for_change(self) -> None:
        # Every change wakes all waiting workers. The first of them takes the key, and the others wait again.
        self._change.clear()
        await self._change.wait()
