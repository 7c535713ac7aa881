"""A run of the bridge, from the lock of its state to the release of it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version

from bridge.app.base_copy import begin_with_copy, letter_fetcher, serving_replicas
from bridge.app.failures import for_the_operator
from bridge.app.leadership import Leadership, MakeLeadership
from bridge.app.running import RunningBridge
from bridge.app.status import informers_status
from bridge.election import LEASES
from bridge.facts import Report
from bridge.kube import connect
from bridge.model.primitives.shard import Division
from bridge.model.status import StatusSnapshot
from bridge.outbox import Outbox, Replica
from bridge.pipelines.feeds import Feeds
from bridge.plan.encryption_keys import load_cipher
from bridge.plan.plan import Plan
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
        await begin_with_copy(plan, self._stopping, self._report)
        async with connect(
            plan.access, report=self._report, idle_timeout=plan.idle_timeout, latency=plan.latency
        ) as client:
            sinks = {sink.name: sink.start for sink in plan.sinks}
            selecting = [sink.name for sink in plan.sinks if sink.select is not None]
            feeds = await Feeds.open(
                plan.state,
                # On a replica, cursors begin when it follows.
                sinks if plan.election is None else dict.fromkeys(sinks),
                retention=plan.retention,
                selecting=selecting if plan.election is None else (),
                cipher=load_cipher(plan),
                report=self._report,
            )
            async with feeds.outbox as outbox, _election(plan, outbox, self._report) as make_leadership:
                if plan.election is not None:
                    outbox.selections.expect_room(selecting)
                    await outbox.registration.begin(sinks, selecting, before=plan.retention.before)
                await outbox.ledger.claim(plan.shard)
                outbox.sinks.shard = plan.shard
                # Inside of the outbox's lock: two bridges that start at once must not each make a key.
                keys = load_keys(plan.redaction_key_file, plan.former_key_files, plan.state)
                redaction = Redaction(keys, plan.presets, plan.redact)
                running = self._running = RunningBridge(
                    plan, feeds, redaction, self._reloader, self._report, make_leadership
                )
                mine = outbox.election
                replicas = serving_replicas(plan, mine.standby, mine.letters, self._leads, self._report)
                try:
                    async with replicas:
                        await running.run(client, self._stopping)
                except BaseExceptionGroup as group:
                    raise for_the_operator(group) from group
                finally:
                    plan = running.plan
                    self.backlog = {sink.name: outbox.sinks.backlog_records(sink.name) for sink in plan.sinks}
                    self._running = None

    def stop(self) -> None:
        """Stops reading from the API server; sinks finish within the grace period; then ``run`` returns."""
        self._stopping.set()

    # ── State ────────────────────────────────────────────────────────────────

    def snapshot(self) -> StatusSnapshot:
        if self._running is not None:
            return self._running.snapshot()
        return StatusSnapshot(
            informers=informers_status(self._plan.wanted, None, None),
            sinks=(),
            configuration=None if self._reloader is None else self._reloader.status,
            shard=self._plan.shard,
            state_directory=str(self._plan.state),
        )

    def _leads(self) -> bool:
        election = self.snapshot().election
        return election is not None and election.leads

    def alive(self) -> bool:
        """See model.status.StatusSource."""
        return self._running is None or self._running.alive()


@asynccontextmanager
async def _election(plan: Plan, outbox: Outbox, report: Report) -> AsyncIterator[MakeLeadership | None]:
    """Joins the election, with a connection of its own for the Lease; None without an election."""
    election = plan.election
    if election is None:
        await outbox.election.leave()
        yield None
        return
    identity = f"{election.name}_{secrets.token_hex(4)}"
    standby = await outbox.election.join(Replica(plan.cluster, identity, version("kubedelta")))
    async with connect(plan.access, report=report) as client:
        lease_api = partial(client.named_object, LEASES, election.namespace)
        mine = Division.of_shard(plan.shard)
        fetcher = letter_fetcher(election.copy, outbox.election.letters, report)
        yield partial(Leadership, election, mine, identity, plan.state, lease_api, standby, fetcher, report)
