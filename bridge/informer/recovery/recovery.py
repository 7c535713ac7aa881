"""Finds the steps behind the differences of a list, with few requests at a time, each for a single object.

A batch is held while its steps are looked for, until all are found or the bounds of the list are reached. No
failure of a request leaves the module: the differences then stay ``relisted``, and the reason is reported.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from bridge.informer.controller import Tombstones
from bridge.informer.deltas import FifoClosed, QueuedDelta, Span
from bridge.informer.history.member import Member
from bridge.informer.indexer import Indexer
from bridge.informer.recovery.exact_lists import (
    Allowance,
    Broken,
    ExactLists,
    Meaning,
    NotNow,
    NotOffered,
    NotThis,
    RecoverySlots,
    StatesForgotten,
)
from bridge.informer.recovery.walk import (
    FEW_OBJECTS,
    HistoryContradicted,
    Moment,
    Walk,
    recovered_in,
    sampled_versions,
    walk_of,
    walks_of,
    with_steps,
)
from bridge.model.answers import ListerWatcher
from bridge.model.object import ApiObject
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.informer import RecoveryEnd, StepsRecovered

SEALING = 10.0
"""Seconds for the last request of a batch."""


class Recovery:
    """The recovery of an informer's steps, where a watch could not be resumed and a list was compared.

    ``prepare`` runs between the queue and the comparison with the Indexer, so a batch is exported, and its position
    saved, with all its steps. After a crash, the next start lists and recovers again, with equal ids. Steps that are
    not found stay ``relisted``; no error leaves. Only ``list`` is needed, within the informer's scope."""

    def __init__(
        self,
        informer: Member,
        indexer: Indexer,
        slots: RecoverySlots | None,
        report: Report,
        tombstones: Tombstones,
    ) -> None:
        """Without ``slots``, nothing is recovered. ``tombstones``: the uids that were exported as deleted lately."""
        self._informer = informer
        self._indexer = indexer
        self._lists = None if slots is None else ExactLists(informer, slots)
        self._report = report
        self._tombstones = tombstones
        self._now = asyncio.get_running_loop().time
        self._span: Span | None = None
        self._allowance: Allowance | None = None
        """The bounds of the list with this span; None where no steps are wanted, or its account is reported."""
        self._unable: ListerWatcher | None = None
        """A server that cannot list an object at a version."""
        self._limit: asyncio.Timeout | None = None
        self._abandoned = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def prepare(self, deltas: Sequence[QueuedDelta], position: str | None, span: Span) -> Sequence[QueuedDelta]:
        """The deltas of a batch with the steps behind them. ``span``: of the present list, which has ended if there is
        a ``position``. Raises FifoClosed after ``stop``, unless the batch is to be exported all the same."""
        if self._lists is None or self._unable is self._informer.source:
            return deltas
        if span is not self._span:
            self._close_account()
            self._span = span
            self._allowance = Allowance(self._lists.limits) if self._lists.are_wanted else None
        if self._allowance is None:
            return deltas
        if self._abandoned:
            raise FifoClosed
        has_ended = position is not None and span.until is not None
        self._idle.clear()
        try:
            batch = await self._recover(self._lists, self._allowance, deltas, span, has_ended)
        except HistoryContradicted:
            return deltas
        finally:
            self._idle.set()
        if self._abandoned:
            raise FifoClosed
        if has_ended:
            self._close_account()
        return batch

    async def wait_idle(self) -> None:
        """Returns when no steps are looked for."""
        await self._idle.wait()

    def stop(self, *, finish: bool) -> None:
        """Ends the requests under way. The batch is exported if ``finish``; otherwise the next start recovers it."""
        self._abandoned = not finish
        if self._allowance is not None:
            self._allowance.end(RecoveryEnd.STOPPED)
        if self._limit is not None:
            self._limit.reschedule(self._now())

    def _close_account(self) -> None:
        account, self._allowance = self._allowance, None
        if account is None or not (account.requests or account.ended_by is RecoveryEnd.REQUESTS):
            return
        self._report(
            StepsRecovered(
                self._informer.resource,
                self._informer.scope,
                account.objects,
                account.steps,
                account.requests,
                account.seconds,
                account.ended_by,
                account.reason,
            )
        )

    # ── A batch ──────────────────────────────────────────────────────────────

    async def _recover(
        self, lists: ExactLists, allowance: Allowance, deltas: Sequence[QueuedDelta], span: Span, has_ended: bool
    ) -> Sequence[QueuedDelta]:
        walks = walks_of(deltas, self._indexer.known)
        fleeting: list[Walk] = []
        began = self._now()
        allowance.bytes = 0
        try:
            async with asyncio.timeout(allowance.seconds_left) as self._limit:
                await self._walk(lists, allowance, deque(walks.values()))
                if has_ended and len(self._indexer) <= FEW_OBJECTS:
                    fleeting += await self._sample(lists, allowance, span, {each.key for each in deltas})
                    await self._walk(lists, allowance, deque(fleeting))
        except TimeoutError:
            allowance.end(RecoveryEnd.SECONDS)
        finally:
            self._limit = None
        sealed = not allowance.drops_steps and await self._is_sealed(lists, allowance, [*walks.values(), *fleeting])
        batch = with_steps(deltas, walks, fleeting) if sealed else deltas
        allowance.objects += len(walks) + len(fleeting)
        allowance.seconds += self._now() - began
        allowance.steps += recovered_in(batch)
        return batch

    async def _walk(self, lists: ExactLists, allowance: Allowance, waiting: deque[Walk]) -> None:
        """Advances the walks in turns, so that an object with very many steps does not use up all requests."""

        async def work() -> None:
            while waiting and not allowance.is_over:
                walk = waiting.popleft()
                if walk.wanted is None:
                    continue
                self._advance(walk, allowance, await self._state(lists, allowance, walk.key, walk.wanted))
                waiting.append(walk)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(len(waiting), lists.limits.concurrency)):
                tasks.create_task(work())

    async def _state(self, lists: ExactLists, allowance: Allowance, key: str, version: int) -> Moment | Meaning | None:
        if version <= allowance.forgotten:
            return StatesForgotten(allowance.forgotten)
        return await lists.state_at(key, version, allowance.may_ask)

    def _advance(self, walk: Walk, allowance: Allowance, answer: Moment | Meaning | None) -> None:
        match answer:
            case Moment(object=thing):
                walk.take(answer)
                allowance.take(0 if thing is None else len(thing.body))
                if walk.is_contradicted:
                    allowance.end(RecoveryEnd.CONTRADICTED)
            case StatesForgotten(through=through):
                allowance.forgotten = max(allowance.forgotten, through)
                walk.forgotten(allowance.forgotten)
            case NotThis(reason=reason):
                walk.give_up()
                allowance.pass_over(reason)
            case _:
                self._give_up(allowance, answer)

    async def _sample(self, lists: ExactLists, allowance: Allowance, span: Span, queued: set[str]) -> Iterable[Walk]:
        """Walks of objects that came and went, as far as some whole lists show them."""
        walks: dict[str, Walk] = {}
        for version in sampled_versions(span):
            answer = await lists.all_at(version, FEW_OBJECTS, allowance.may_ask)
            if not isinstance(answer, list):
                # What the samples show is a gift: forgotten states are not missing.
                if not isinstance(answer, StatesForgotten):
                    self._give_up(allowance, answer)
                break
            for thing in answer:
                is_known = thing.key in queued or self._indexer.known(thing.key) is not None
                if not is_known and thing.uid not in self._tombstones:
                    walks.setdefault(thing.key, walk_of(thing, version, span))
        return walks.values()

    def _give_up(self, allowance: Allowance, answer: Meaning | None) -> None:
        match answer:
            case NotOffered(reason=reason):
                self._unable = self._informer.source
                allowance.end(RecoveryEnd.UNSUPPORTED, reason)
            case NotNow(reason=reason) | Broken(reason=reason) | NotThis(reason=reason):
                allowance.end(RecoveryEnd.FAILED, reason)

    async def _is_sealed(self, lists: ExactLists, allowance: Allowance, walks: Iterable[Walk]) -> bool:
        """Requests the newest found state once more. A server that still has it had the known history all the time: a
        backup that was restored meanwhile is older than this state, or has all found states."""
        newest = max((each for each in walks if each.steps), key=lambda each: each.newest.version, default=None)
        if newest is None:
            return True
        try:
            async with asyncio.timeout(SEALING):
                answer = await lists.state_at(newest.key, newest.newest.version, allowance.may_seal)
        except TimeoutError:
            answer = Broken("the last request took too long")
        match answer:
            case StatesForgotten():
                return True  # Another history would not have come that far.
            case Moment(object=thing) if thing is not None and _are_same(thing, newest.newest.object):
                return True
            case Moment():
                allowance.end(RecoveryEnd.CONTRADICTED)
            case _:
                self._give_up(allowance, answer)
        return False


def _are_same(one: ApiObject, other: ApiObject | None) -> bool:
    return other is not None and (one.uid, one.resource_version) == (other.uid, other.resource_version)
