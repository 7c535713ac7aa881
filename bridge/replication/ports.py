"""Declares what the elector needs from others: the Lease on the API server, and the holder's work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from bridge.model.answers import Conflict, ErrorAnswer, WatchAnswer, WatchRequest
from bridge.replication.lease import Lease, Published


class LeaseApi(Protocol):
    """A single Lease on the API server. Failures are answers. Cancellation ends a request; the server may have served
    it. Its connection is the elector's own: behind a long list or a shared limit of requests, a renewal would come too
    late."""

    async def read(self) -> bytes | ErrorAnswer:
        """The newest state, never one of a cache that lags. Refused with 404 if it does not exist."""
        ...

    async def create(self, body: bytes) -> bytes | Conflict | ErrorAnswer:
        """Returns the created object. Conflict if it exists."""
        ...

    async def update(self, body: bytes) -> bytes | Conflict | ErrorAnswer:
        """Returns the updated object. Conflict unless the body has the current resourceVersion."""
        ...

    def watch(self, request: WatchRequest) -> AbstractAsyncContextManager[AsyncIterator[WatchAnswer]]:
        """See ListerWatcher.watch."""
        ...


class Tenure:
    """The time in which a replica holds the Lease, from its own sight."""

    def __init__(
        self,
        term: int,
        before: Published | None,
        deadline: float,
        now: Callable[[], float],
        renew_deadline: float,
        *,
        clean: bool,
        hasten: Callable[[], None],
    ) -> None:
        self.term = term
        """Larger than every earlier term that is known."""
        self.before = before
        """What the holder before had published; None without any."""
        self.clean = clean
        """This replica had everything that any destination can have, when it took the Lease."""
        self.deadline = deadline
        """On the event loop's clock; see ``hold_until``."""
        self.version = ""
        """The resourceVersion of the Lease behind the last renewal."""
        self.ending = asyncio.Event()
        """Set when the process is to end: finish, then return."""
        self._now = now
        self._lasts = renew_deadline
        self._hasten = hasten
        self._moved = asyncio.Event()

    def hold_until(self, deadline: float) -> None:
        """Every renewal moves the deadline; a lost Lease sets it to the past."""
        self.deadline = deadline
        self._moved.set()

    async def confirmed(self) -> None:
        """Returns once the Lease was renewed by a request that began after this call, which is at once; never, if it is
        lost."""
        needed = self._now() + self._lasts
        self._hasten()
        while self.deadline < needed or not self.is_valid:
            self._moved.clear()
            await self._moved.wait()

    @property
    def is_valid(self) -> bool:
        """False from the deadline on, also in a process that was frozen and wakes up: asked before every delivery."""
        return self._now() < self.deadline


class Duties(Protocol):
    """The work of the holder, and what a follower knows."""

    async def lead(self, tenure: Tenure, took_over: Callable[[], None]) -> None:
        """The holder's work: takes over, calls ``took_over``, delivers, and returns some time after ``tenure.ending``
        was set. Cancelled at the deadline, and when the Lease is lost: returns as soon as no delivery is under way. No
        delivery begins while ``tenure.is_valid`` is False."""
        ...

    def published(self) -> Published:
        """For the next renewal, after ``took_over``. Called at each renewal."""
        ...

    def observed(self, lease: Lease | None) -> None:
        """The Lease as it is, while this replica follows. Called at each change."""
        ...

    def is_in_sync(self, published: Published) -> bool:
        """Whether this replica, which follows, is in sync with the leader that published this, and knows so itself."""
        ...

    async def remember(self, identity: str) -> None:
        """The elector is about to take the Lease with this identity. Durable on return, so that the next process of
        this state directory knows its predecessor."""
        ...
