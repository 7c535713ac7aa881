"""Runs a bridge, from the lock of its state to the release of it; with an election, as often as this replica leads.

``Bridge.run`` opens the connection to the API server, then the outbox, and hands both to ``RunningBridge``. With an
election a ``Replica`` calls the same code for each term. While this replica follows, its state is a copy of the
leader's, and ``FollowerOperations`` answer an operator's command with the name of the leader.

A run ends by ``stop``, or with one exception: ``for_the_operator`` takes the first that an operator can act on out of
the task group's, unless a bug is beside it, which is then shown whole.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, NoReturn

from bridge.app.admin.commands import AdminCommand, AdminOperations, Arguments
from bridge.app.operators import PageSources, open_to_operators
from bridge.app.reloader import Reloader
from bridge.app.running import RunningBridge, informers_status
from bridge.app.watched_resources import not_looked_up
from bridge.delivery.sink_feed import Feeds, record_processor
from bridge.kube import connect
from bridge.model.admin import Followed, UnknownTarget
from bridge.model.resource import LEASES
from bridge.model.status import BridgeStatus, ElectionStatus, replica_of
from bridge.outbox import Damaged, Outbox, StateError
from bridge.plan.keys import load_cipher, load_redaction_keys
from bridge.plan.plan import ElectionPlan, Plan, PlanRefused
from bridge.telemetry.facts import Report
from bridge.transform.redaction import Redaction

if TYPE_CHECKING:
    from bridge.replication.replica import Replica, Term


class Bridge:
    """A run of the bridge. ``run`` returns after ``stop``; any other end is an exception."""

    def __init__(self, plan: Plan, report: Report, reloader: Reloader | None = None) -> None:
        """``reloader``: follows the plan's file; None for a bridge whose plan stays."""
        self._plan = plan
        self._report = report
        self._reloader = reloader
        self._stopping = asyncio.Event()
        self._running: RunningBridge | None = None
        self._replica: Replica | None = None
        self.backlog: Mapping[str, int] = {}
        """Sink → its backlog in records, after ``run`` has ended. Empty if the state was not opened."""

    async def run(self) -> None:
        """Raises CredentialsError, StateError and PlanRefused before the first watch; afterwards Damaged, and the
        exception of a bug. Failures of the API server or of a destination are retried without end."""
        try:
            if self._plan.election is None:
                await self._lead(None)
            else:
                await self._follow_and_lead(self._plan.election)
        except BaseExceptionGroup as group:
            raise for_the_operator(group) from group

    def stop(self) -> None:
        """Stops reading from the API server; sinks finish within the grace period; then ``run`` returns."""
        self._stopping.set()
        if self._replica is not None:
            self._replica.stop()

    async def _lead(self, term: Term | None) -> None:
        """Runs the bridge on its state. ``term``: with an election, the one in which this replica leads."""
        if term is not None and self._reloader is not None:
            self._plan = await self._reloader.newest(self._plan)
        plan = self._plan
        async with (
            nullcontext() if term is None else term.replicating(),
            connect(plan.access, report=self._report, idle_timeout=plan.idle_timeout, latency=plan.latency) as client,
        ):
            processor = record_processor()
            opened = await Outbox.open(
                plan.state,
                {sink.name: sink.start for sink in plan.sinks},
                retention=plan.retention,
                selecting=[sink.name for sink in plan.sinks if sink.select is not None],
                cipher=load_cipher(plan),
                report=self._report,
                capture=None if term is None else term.capture,
                lacking=term is not None and term.lacking,
                shard=plan.shard,
                committed=processor.distribute,
            )
            async with opened as outbox:
                await outbox.ledger.claim(plan.shard)
                # Inside of the outbox's lock: two bridges that start at once must not each make a key.
                keys = load_redaction_keys(plan.redaction_key_file, plan.former_key_files, plan.state)
                redaction = Redaction(keys, plan.presets, plan.redact)
                running = self._running = RunningBridge(
                    plan,
                    client,
                    Feeds(outbox, processor),
                    redaction,
                    self._reloader,
                    self._report,
                    lease=None if term is None else term.tenure,
                    election=self._election,
                )
                try:
                    if term is not None:
                        await _announce(term)
                    await running.run(self._stopping if term is None else term.tenure.ending)
                finally:
                    self._plan = plan = running.live.plan
                    self.backlog = {sink.name: outbox.sinks.backlog_records(sink.name) for sink in plan.sinks}
                    self._running = None

    # ── Several replicas ─────────────────────────────────────────────────────

    async def _follow_and_lead(self, election: ElectionPlan) -> None:
        from bridge.outbox.copied_state import CopiedState
        from bridge.replication.identity import ReplicaSettings
        from bridge.replication.replica import Replica

        plan = self._plan
        keys = await asyncio.to_thread(load_redaction_keys, plan.redaction_key_file, plan.former_key_files, plan.state)
        async with connect(plan.access, report=self._report) as client:
            settings = ReplicaSettings(
                election=election,
                identity=f"{election.name}_{secrets.token_hex(4)}",
                cluster=plan.cluster,
                shard=plan.shard,
                keys=[key.derived("replication") for key in keys],
                state=plan.state,
                cipher=load_cipher(plan),
                api_server=client.server,
            )
            state = await asyncio.to_thread(CopiedState, plan.state)
            lease = client.named_object(LEASES, election.namespace, election.lease)
            self._replica = replica = Replica(
                settings, state, lease, lead=self._lead, beside=self._standing_by, report=self._report
            )
            if self._stopping.is_set():
                replica.stop()
            await replica.run()

    @asynccontextmanager
    async def _standing_by(self) -> AsyncIterator[None]:
        """While this replica follows: commands and the page say who leads."""
        sources = PageSources(record_processor(), self.status, form=lambda _: None)
        async with open_to_operators(self._plan, FollowerOperations(self.status), sources, self._report):
            yield

    def _election(self) -> ElectionStatus | None:
        return None if self._replica is None else self._replica.status()

    # ── State ────────────────────────────────────────────────────────────────

    def status(self) -> BridgeStatus:
        if self._running is not None:
            return self._running.status()
        follows = self._replica is not None
        return BridgeStatus(
            informers=() if follows else informers_status((), not_looked_up(self._plan.wanted), {}),
            sinks=(),
            configuration=None if self._reloader is None else self._reloader.status,
            shard=self._plan.shard,
            state_directory=str(self._plan.state),
            election=self._election(),
        )

    def alive(self) -> bool:
        """False if only a new process can help: an informer is stuck. Failures of the API server or of a sink never
        make it False."""
        return self._running is None or self._running.alive()


async def _announce(term: Term) -> None:
    try:
        await term.announce()
    except OSError as error:
        raise PlanRefused(f"election.port: followers cannot be served: {error.strerror or error}") from error


def for_the_operator(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception for an operator (StateError, Damaged, PlanRefused), if the group has no other exceptions than
    those of tasks that came too late."""
    understood, others = group.split((StateError, Damaged, PlanRefused))
    if understood is None or (others is not None and others.split(_came_too_late)[1] is not None):
        return group
    first: BaseException = understood
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def _came_too_late(error: BaseException) -> bool:
    """A task was made right after a failure had ended its TaskGroup: what made it is cancelled a moment later."""
    return isinstance(error, RuntimeError) and str(error).endswith("is shutting down")


class FollowerOperations(AdminOperations):
    """The state here is the leader's, and only the leader changes it: every command but ``status`` says who that is."""

    def __init__(self, status: Callable[[], BridgeStatus]) -> None:
        self._status = status

    async def status(self) -> BridgeStatus:
        return self._status()

    async def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        self._refuse()
        yield

    def _refuse(self) -> NoReturn:
        election = self._status().election
        holder = "" if election is None else election.holder
        leader = f"the leader, {replica_of(holder)}" if holder else "the leader, once there is one"
        raise UnknownTarget(f"this replica follows, with a copy of the leader's state: ask {leader}")

    async def ask(self, command: AdminCommand, arguments: Arguments) -> NoReturn:
        self._refuse()
