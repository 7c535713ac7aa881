"""Puts other entries of ``select`` into effect at a moment that fits the leader's progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping
from contextlib import asynccontextmanager

from bridge.app.catching_up import wait_caught_up
from bridge.election import Tenure
from bridge.facts import Report
from bridge.facts.outbox import SelectionDeferred, SelectionUnsure
from bridge.informer import SharedInformerFactory
from bridge.outbox import Standby
from bridge.pipelines.selecting import Selecting
from bridge.reload.live_change import LiveChange


class SelectionChanges:
    """Of a replica. Before a leader delivers any record of a difference, the Lease says that the selection changes: a
    replica that takes over in the middle knows that it cannot tell what the sink has got of it."""

    def __init__(self, selecting: Selecting, standby: Standby, report: Report) -> None:
        self._selecting = selecting
        self._standby = standby
        self._report = report
        self._tenure: Tenure | None = None
        self._over = asyncio.Event()
        """The tenure has ended."""
        self._due = asyncio.Event()

    async def run(self, live: LiveChange, factory: SharedInformerFactory) -> None:
        """Puts entries into effect when they are due, until cancelled. Raises what a start raises."""
        while True:
            await self._due.wait()
            self._due.clear()
            if self._selecting.deferred and await self._has_caught_up(factory):
                await live.renew_selections()

    async def _has_caught_up(self, factory: SharedInformerFactory) -> bool:
        """Waits for it on a leader, which delivers by the entries before meanwhile. False if its tenure ends: the next
        frontier, or the next tenure, decides."""
        tenure, selected = self._tenure, self._standby.selected
        if tenure is None or selected.caught_up:
            return True
        self._report(SelectionDeferred(tuple(sorted(self._selecting.deferred))))
        found: list[Collection[str]] = []

        async def catch_up() -> None:
            found.append(await wait_caught_up(lambda: factory.informers, selected.waypoints))

        await first_of(catch_up(), self._over.wait())
        if self._tenure is not tenure or not found:
            return False
        if unsure := found[0]:
            self._report(SelectionUnsure(tuple(sorted(self._selecting.deferred)), tuple(unsure)))
        selected.caught_up = True
        return True

    # ── A follower ───────────────────────────────────────────────────────────

    def observed(self) -> None:
        """There is another frontier: the leader may have entries that wait here."""
        if self._standby.selected.admitted(self._selecting.deferred, self._standby.found, leads=False):
            self._due.set()

    # ── The leader ───────────────────────────────────────────────────────────

    async def lead(self, tenure: Tenure) -> None:
        """Call before the first delivery. Returns early if the tenure ends. A replica that owes snapshots says so in
        the Lease first: it may not watch what another does. So does the first leader, and one with further informers:
        the next one may never have known an object that was delivered."""
        self._tenure = tenure
        self._over.clear()
        standby = self._standby
        named = standby.found.informers.keys() if standby.found else set()
        if standby.owed or not standby.before or standby.selected.waypoints.running - named:
            await self.confirm()
        self._due.set()

    async def confirm(self, *, also_ending: bool = False) -> None:
        """Returns once the Lease has what the leader published after the call, or its tenure is over; at once for a
        leader that is to end, unless ``also_ending``: it renews the Lease until its deliveries have ended."""
        if (tenure := self._tenure) is not None:
            ends = self._over if also_ending else tenure.ending
            await first_of(tenure.confirmed(), ends.wait(), self._over.wait())

    def follow(self) -> None:
        """The tenure is over."""
        self._tenure = None
        self._over.set()

    @asynccontextmanager
    async def announcing(self, entries: Mapping[str, str]) -> AsyncIterator[None]:
        """Inside the context the Lease says that the selections of these sinks change, unless it is lost. ``entries``:
        sink → its new ones. Without effect on a follower."""
        tenure, selected = self._tenure, self._standby.selected
        if tenure is None or not entries:
            yield
            return
        selected.intended = entries
        try:
            await self.confirm()
            yield
        finally:
            selected.intended = {}
            if self._selecting.deferred and self._tenure is tenure:
                self._due.set()


async def first_of(*waits: Awaitable[object]) -> None:
    """Returns when one of them does."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_awaited(each)) for each in waits]
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for each in running:
            each.cancel()


async def _awaited(wait: Awaitable[object]) -> None:
    await wait
