"""A replica with an empty state directory gets the leader's state before it begins: it then watches from the leader's
positions, lists nothing, and is exact at once. Without a copy it begins as any new replica, with lists."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from time import monotonic

import aiohttp

from bridge.election.lease import Lease, MalformedLease, is_possible, lease_of
from bridge.election.ports import LeaseApi
from bridge.facts import Report
from bridge.facts.election import CopyFailed, CopyFetched
from bridge.model.versions import frontier as frontiers
from bridge.model.versions.frontier import Frontier
from bridge.outbox import Cipher, Damaged, Installation, StateError
from bridge.plan.equal_settings import digests
from bridge.plan.plan import CopyPlan, ElectionPlan, Plan
from bridge.replicas.requests import asked, parts_of
from bridge.replicas.sources import SHARD, Unfit, expect_shard, source_of
from bridge.transform.redaction_key import RedactionKey
from sinks.errors import WrongOption

_TRIES = 3
_PAUSE = 5.0
"""Seconds between two tries: another replica may get its copy."""
_LEASE_SECONDS = 10.0
_SILENCE_SECONDS = 120.0
"""Without a byte."""
_SLOWEST = 8 << 20
"""Bytes a second with which the leader makes the copy, before it sends the first byte."""
_PART = 1 << 20
_LARGEST = 1 << 40
_ROOM = 64 << 20
"""Bytes that stay free."""


async def fetch(
    plan: Plan,
    election: ElectionPlan,
    lease: LeaseApi,
    keys: tuple[RedactionKey, ...],
    cipher: Cipher | None,
    report: Report,
) -> None:
    """Fills the empty state directory, or leaves it empty and reports why."""
    copy = election.copy
    if copy is None:
        return
    began = monotonic()
    try:
        found, text = await _leader(lease)
        url = source_of(found, plan.cluster, digests(election.settings, keys), allow_http=copy.allow_http)
        for number in range(_TRIES):
            try:
                size = await _fetch(plan, copy, url, text, cipher)
                break
            except aiohttp.ClientSSLError as error:  # Another certificate is another server.
                raise Unfit(f"it could not be fetched: {error}") from error
            except (aiohttp.ClientError, TimeoutError) as error:
                if number == _TRIES - 1:
                    raise Unfit(f"it could not be fetched: {str(error) or type(error).__name__}") from error
            await asyncio.sleep(_PAUSE)
    except Unfit as error:
        report(CopyFailed(str(error)))
    except (Damaged, StateError, OSError, WrongOption) as error:
        report(CopyFailed(f"it cannot be used: {error}"))
    else:
        report(CopyFetched(found.by, size, monotonic() - began))


async def _leader(lease: LeaseApi) -> tuple[Frontier, str]:
    """The frontier of the leader, with its text. Raises Unfit."""
    found: Lease | None = None
    with suppress(TimeoutError, MalformedLease):
        async with asyncio.timeout(_LEASE_SECONDS):
            answer = await lease.read()
        found = lease_of(answer) if isinstance(answer, bytes) else None
    if found is None or not found.holder:
        raise Unfit("there is no leader")
    try:
        frontier = frontiers.decode(found.frontier)
    except ValueError as error:
        raise Unfit("the Lease has no frontier that can be read") from error
    # It becomes the own one: with a term to which no election comes, this replica could never lead.
    newest = found.term if is_possible(found.term, 0) else 0
    if frontier.term > newest:
        raise Unfit(f"the Lease has a frontier of term {frontier.term}, and its leaders had terms up to {newest}")
    return frontier, found.frontier


async def _fetch(plan: Plan, copy: CopyPlan, url: str, frontier: str, cipher: Cipher | None) -> int:
    """Returns the bytes of the copy, which is installed."""
    async with asked(copy, url, "the leader", silence=_SILENCE_SECONDS) as answer:
        return await _install(plan, answer, frontier, cipher)


async def _install(plan: Plan, answer: aiohttp.ClientResponse, frontier: str, cipher: Cipher | None) -> int:
    expect_shard(answer.headers.get(SHARD, ""), plan.shard)
    size = answer.content_length or 0
    if not 0 < size <= _LARGEST:
        raise Unfit("the leader's answer has no length")
    installation = await asyncio.to_thread(Installation, plan.state)
    try:
        if installation.free_bytes() < size + plan.retention.min_free + _ROOM:
            raise Unfit(f"it has {size} bytes, for which the disk of state.directory has too little room")
        received = 0
        first = _SILENCE_SECONDS + size / _SLOWEST
        async with aclosing(parts_of(answer, _PART, first=first, then=_SILENCE_SECONDS)) as parts:
            async for part in parts:
                received += len(part)
                if received > size:
                    break
                await asyncio.to_thread(installation.write, part)
        if received != size:
            raise aiohttp.ClientPayloadError(f"{received} of {size} bytes came")
        await asyncio.to_thread(installation.install, frontier, cipher, plan.shard)
    finally:
        await asyncio.to_thread(installation.close)
    return size
