"""A run of the bridge, from the lock of its state to the release of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from bridge.app.running import RunningBridge
from bridge.app.status import informers_status
from bridge.facts import Report
from bridge.kube import connect
from bridge.model.status import StatusSnapshot
from bridge.outbox import Damaged, StateError
from bridge.pipelines.feeds import Feeds
from bridge.plan.encryption_keys import load_cipher
from bridge.plan.plan import Plan, PlanRefused
from bridge.plan.redaction_key_file import load_keys
from bridge.reload.reloader import Reloader
from bridge.transform.redaction import Redaction


class Bridge:
    """A run of the bridge. ``run`` returns after ``stop``; any other end is an exception."""

    def __init__(self, plan: Plan, report: Report, reloader: Reloader | None = None) -> None:
        """``reloader``: follows the plan's file; None for a bridge whose plan stays."""
        self._plan = plan
        self._report = report
        self._reloader = reloader
        self._stopping = asyncio.Event()
        self._running: RunningBridge | None = None
        self.backlog: Mapping[str, int] = {}
        """Sink → its backlog in records, after ``run`` has ended. Empty if the state was not opened."""

    async def run(self) -> None:
        """Raises CredentialsError, StateError and PlanRefused before the first watch; afterwards Damaged, and the
        exception of a bug. Failures of the API server or of a destination are retried without end."""
        plan = self._plan
        async with connect(
            plan.access, report=self._report, idle_timeout=plan.idle_timeout, latency=plan.latency
        ) as client:
            sinks = {sink.name: sink.start for sink in plan.sinks}
            selecting = [sink.name for sink in plan.sinks if sink.select is not None]
            feeds = await Feeds.open(
                plan.state,
                sinks,
                retention=plan.retention,
                selecting=selecting,
                cipher=load_cipher(plan),
                report=self._report,
            )
            async with feeds.outbox as outbox:
                # Inside of the outbox's lock: two bridges that start at once must not each make a key.
                keys = load_keys(plan.redaction_key_file, plan.former_key_files, plan.state)
                redaction = Redaction(keys, plan.presets, plan.redact)
                running = self._running = RunningBridge(plan, feeds, redaction, self._reloader, self._report)
                try:
                    await running.run(client, self._stopping)
                except BaseExceptionGroup as group:
                    raise _for_the_operator(group) from group
                finally:
                    plan = running.plan
                    self.backlog = {sink.name: outbox.sinks.backlog_records(sink.name) for sink in plan.sinks}
                    self._running = None

    def stop(self) -> None:
        """Stops reading from the API server; sinks finish within the grace period; then ``run`` returns."""
        self._stopping.set()

    # ── State ────────────────────────────────────────────────────────────────

    def snapshot(self) -> StatusSnapshot:
        if self._running is None:
            informers = informers_status(self._plan.wanted, None, None)
            snapshot = StatusSnapshot(informers=informers, sinks=())
        else:
            snapshot = self._running.snapshot()
        configuration = None if self._reloader is None else self._reloader.status
        return msgspec.structs.replace(snapshot, configuration=configuration)

    def alive(self) -> bool:
        """See model.status.StatusSource."""
        return self._running is None or self._running.alive()


def _for_the_operator(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception for an operator (StateError, Damaged, PlanRefused), if the group has no other exceptions."""
    understood, others = group.split((StateError, Damaged, PlanRefused))
    if understood is None or others is not None:
        return group
    first: BaseException = understood
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
