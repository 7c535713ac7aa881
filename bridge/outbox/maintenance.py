"""Maintenance of the log: its ends and sizes in memory, trimming, cleaning, and the training of dictionaries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from bridge.outbox.encryption import Renewal
from bridge.outbox.log import cleaner
from bridge.outbox.log.body_codec import add_dictionary, make_dictionary
from bridge.outbox.log.cleaner import CleanerPolicy, LogCleaner
from bridge.outbox.log.retention import LogEnd, Retention, SparseIndex, trim_through
from bridge.outbox.opening import OpenedState
from bridge.outbox.store import Store

_TIGHT = 64 << 20
"""Bytes. With less free space than this above ``min_free``, the log cleaner runs whenever it can free a record."""


class LogMaintenance:
    """Follows the log in memory, and removes records that are no longer needed."""

    def __init__(
        self,
        store: Store,
        opened: OpenedState,
        retention: Retention,
        cleaner_policy: CleanerPolicy,
    ) -> None:
        self._store = store
        self._retention = retention
        self._cleaner_policy = cleaner_policy
        self._now = asyncio.get_running_loop().time
        self.start = opened.log_start
        """Sequence number of the oldest record that sinks can read."""
        self._cleanable = opened.cleanable
        self._renewal = Renewal(opened.codec.bodies.cipher, opened.last, done=opened.renewed)
        self.end = LogEnd(opened.last, 0, SparseIndex(), self._now)
        for each in opened.ranges:
            self.end.bytes += each.bytes
            self.end.index.reached(each.last, self.end.bytes, self._now() - each.age)

    @property
    def records(self) -> int:
        """Number of records that sinks can read."""
        return self.end.last + 1 - self.start

    @property
    def size(self) -> int:
        """Bytes on disk of ``records``."""
        return self.end.mark().bytes_after(self.start - 1)

    async def trim(self, cursors: Iterable[int]) -> None:
        """Trims the log behind these cursors, which are saved: a cursor on disk never points at a trimmed record,
        whenever the process is killed."""
        through = trim_through(
            cursors,
            self._retention.retain_age,
            self._retention.retain_bytes,
            self.end.mark(),
            self._now(),
            self.end.last,
        )
        if self.start > through:
            return
        start = self.start
        trimmed = self.end.bytes - self.size  # Counted from the front: appends go on during the write.
        self.start = await self._store.write(partial(cleaner.trim, through=through), shrinks=True)
        self.end.index.trim(self.start - 1)
        self._cleanable.add(self.start - start, self.end.bytes - self.size - trimmed)

    def is_cleaning_due(self, *, has_backfills: bool) -> bool:
        """True if a pass of the log cleaner pays, or if the disk is nearly full."""
        if self._cleanable.has_pinned and not has_backfills:
            return True
        if self._store.state_directory.free_bytes() < self._retention.min_free + _TIGHT:
            return self._cleanable.checkpoint < self.start
        return self._cleanable.is_due(self._cleaner_policy, self.start)

    async def clean(self, between: Callable[[], Awaitable[object]]) -> None:
        """Runs the log cleaner to its end, and returns free pages to the disk. ``between`` runs after each step, so
        that cursors are saved during a long pass."""
        clean = LogCleaner(self._cleaner_policy)
        while await self._store.write(clean, committed=clean.was_done, shrinks=True):
            await between()
        while await self._store.write(cleaner.vacuum, shrinks=True):
            await between()
        self._cleanable = await self._store.ask(cleaner.cleanable_log)

    async def improve_bodies(self) -> None:
        """Trains a dictionary, and moves some older content to the key of new content, until all of it has that key."""
        await self._train_dictionary()
        if self._renewal.begin_step():
            # Without a wait: on a full disk the step is repeated, and cursors go on.
            self._store.write(self._renewal.step, committed=self._renewal.stepped)

    async def _train_dictionary(self) -> None:
        """Makes a dictionary for a kind that has enough samples. Bodies use it once it is durable: a body must not need
        a dictionary that a crash lost."""
        if not (samples := self._store.codec.bodies.take_samples()):
            return
        dictionary = await asyncio.to_thread(make_dictionary, *samples)
        if dictionary is not None:
            self._store.write(
                partial(add_dictionary, dictionary=dictionary, cipher=self._store.cipher),
                committed=lambda _: self._store.codec.bodies.learn(dictionary),
            )
