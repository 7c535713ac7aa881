"""Copies of the leader's state, and dead letters, among replicas, if the plan has that. The room is imported only
then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

from bridge.election import LEASES
from bridge.facts import Report
from bridge.kube import connect
from bridge.model.primitives.addresses import host_and_port
from bridge.outbox import SharedLetters, Standby, is_empty
from bridge.plan.encryption_keys import load_cipher
from bridge.plan.plan import CopyPlan, Plan, PlanRefused
from bridge.plan.redaction_key_file import read_keys


async def begin_with_copy(plan: Plan, stopping: asyncio.Event, report: Report) -> None:
    """Fills an empty state directory with the leader's state; it stays empty if there is none, or on ``stopping``.
    Raises CredentialsError and StateError."""
    election = plan.election
    if election is None or election.copy is None or not await asyncio.to_thread(is_empty, plan.state):
        return
    from bridge.replicas.fetching import fetch

    keys = read_keys(plan.redaction_key_file, plan.former_key_files, plan.state)
    async with connect(plan.access, report=report) as client, asyncio.TaskGroup() as tasks:
        lease = client.named_object(LEASES, election.namespace, election.lease)
        fetching = tasks.create_task(fetch(plan, election, lease, keys, load_cipher(plan), report))
        stopped = tasks.create_task(stopping.wait())
        await asyncio.wait([fetching, stopped], return_when=asyncio.FIRST_COMPLETED)
        fetching.cancel()
        stopped.cancel()


@asynccontextmanager
async def serving_replicas(
    plan: Plan, standby: Standby | None, letters: SharedLetters | None, leads: Callable[[], bool], report: Report
) -> AsyncIterator[None]:
    """Inside the context, sends copies while this replica leads, and dead letters while it does not. Raises PlanRefused
    if the address is taken."""
    election = plan.election
    if election is None or election.copy is None or standby is None or letters is None:
        yield
        return
    from bridge.replicas.serving import CopyServer

    server = CopyServer(election.copy, plan.state, plan.shard, letters.page, leads, report)
    try:
        await server.start()
    except OSError as error:
        where = host_and_port(*election.copy.listen)
        raise PlanRefused(f"election.base_copy.listen: cannot listen on {where}: {error.strerror or error}") from error
    try:
        standby.configured.address = server.address
        yield
    finally:
        await server.stop()


def letter_fetcher(
    copy: CopyPlan | None, letters: SharedLetters | None, report: Report
) -> Callable[[], Coroutine[None, None, None]] | None:
    """What a leader runs, to get the dead letters of former leaders, until it is cancelled."""
    if copy is None or letters is None:
        return None
    from bridge.replicas.letters import LetterFetcher

    return LetterFetcher(copy, letters, report).run
