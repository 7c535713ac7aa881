"""A shard follows the former shards of its objects, until they have handed these over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from bridge.election.division.heirs import Heirs
from bridge.election.division.inheriting import Begin, Follow, Former, Inherit, next_step, term_of
from bridge.election.lease import Lease, inherited, is_handed_over, with_heirs
from bridge.election.ports import LeaseApi
from bridge.election.requests import LeaseAnswer, LeaseRequests, NoLease
from bridge.facts import FrontierTooLarge, FrontierUnreadable, Report, ShardInherited, ShardWaits
from bridge.model.primitives.shard import Division
from bridge.model.versions import frontier as frontiers
from bridge.model.versions.joining import Joined, joined

_SOON = 0.1
"""Of a pause: the former shards end now, and nobody delivers until we begin."""


class Heir(Protocol):
    """A replica of the shard."""

    @property
    def term(self) -> int:
        """The highest that its state directory has seen."""
        ...

    def follow(self, former: Joined) -> None:
        """Lets go of what the former shards have settled."""
        ...

    def exact(self) -> bool:
        """Whether it would go on behind them without losing a step."""
        ...


class Inheritor:
    """``run`` once, before the election. A crash at any point leaves Leases from which the next process goes on."""

    def __init__(
        self,
        mine: Division,
        replica: str,
        lease: tuple[str, str],
        own: LeaseApi,
        former: Sequence[tuple[Former, LeaseApi]],
        heir: Heir,
        *,
        pause: float,
        timeout: float,
        report: Report,
    ) -> None:
        """``replica``: its name, the same after a restart. ``lease``: namespace and name of ours. ``pause``: seconds
        between two looks. ``timeout``: seconds for each request."""
        self._mine = mine
        self._replica = replica
        self._namespace, self._name = lease
        self._own = LeaseRequests(own, f"{self._namespace}/{self._name}", timeout, report)
        self._former = [
            (each, LeaseRequests(api, f"{self._namespace}/{each.lease}", timeout, report)) for each, api in former
        ]
        self._heir = heir
        self._pause = pause
        self._report = report
        self._stopping = asyncio.Event()
        self._waits_for = ""

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        """Returns once this shard has its objects, or after ``stop``: then the former shards keep theirs. Raises
        DivisionRefused."""
        while not self._stopping.is_set():
            pause = await self._look()
            if pause is None:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
        for each, requests in self._former:
            if isinstance(lease := await requests.read(), Lease):
                await self._name_us(each, requests, lease, ready=False)

    async def _look(self) -> float | None:
        """Returns the seconds until the next look; None once this shard has its objects."""
        own = await self._own.read()
        answers = [(each, requests, await requests.read()) for each, requests in self._former]
        if own is NoLease.UNKNOWN or any(answer is NoLease.UNKNOWN for *_, answer in answers):
            return self._pause
        leases = [(each, _found(answer)) for each, _, answer in answers]
        match next_step(self._mine, _found(own), leases, self._heir.term):
            case Begin():
                return None
            case Inherit(term):
                return None if await self._inherit(_found(own), term, leases) else _SOON * self._pause
            case Follow(waits_for):
                self._say(waits_for)
                self._follow(_found(own), leases)
                ready = not waits_for and self._heir.exact()
                for each, requests, answer in answers:
                    if isinstance(answer, Lease) and not is_handed_over(answer):
                        await self._name_us(each, requests, answer, ready=ready)
                return _SOON * self._pause if all(map(_ends, leases)) else self._pause

    async def _inherit(self, own: Lease | None, term: int, leases: Sequence[tuple[Former, Lease | None]]) -> bool:
        """Writes our Lease with the final frontiers of the former shards."""
        text = ""
        if (former := self._follow(own, leases)) is not None:
            text, characters = frontiers.fitted(former.frontier)
            if characters > frontiers.MOST_CHARACTERS:
                self._report(FrontierTooLarge(characters, frontiers.MOST_CHARACTERS))
        body = inherited(own, self._namespace, self._name, term, text, datetime.now(UTC))
        if not isinstance(await self._own.write(own, body), Lease):
            return False  # Another replica was faster; or the answer is lost.
        self._report(ShardInherited(len(leases), term))
        return True

    def _follow(self, own: Lease | None, leases: Sequence[tuple[Former, Lease | None]]) -> Joined | None:
        """None unless each former shard has published a frontier of its own: the first one in its Lease is what it has
        inherited from us, if we were the former shard before, and of a term of ours."""
        found, ours = [], term_of(own, self._heir.term)
        for each, lease in leases:
            if lease is None or not lease.frontier:
                return None
            try:
                published = frontiers.decode(lease.frontier)
                if published.term > term_of(lease, self._heir.term):
                    raise ValueError(f"it has term {published.term}, which its Lease {each.lease} never had")
            except ValueError as error:
                self._report(FrontierUnreadable(str(error)))
                return None
            if published.term <= ours:
                return None
            found.append((each.division.shard, published))
        former = joined(found, self._mine)
        self._heir.follow(former)
        return former

    async def _name_us(self, each: Former, requests: LeaseRequests, lease: Lease, *, ready: bool) -> None:
        """Adds this shard to the heirs of a former one, or takes this replica away. A conflict is for the next
        look."""
        before = lease.heirs if lease.heirs is not None and lease.heirs.of == self._mine.of else Heirs(self._mine.of)
        index = self._mine.index
        if not ready:
            after = before.without(index, self._replica)
        elif str(index) in before.ready:
            return
        else:
            after = before.named(index, self._replica)
        if after != before and not is_handed_over(lease):
            await requests.write(lease, with_heirs(lease, after))

    def _say(self, waits_for: str) -> None:
        if waits_for != self._waits_for:
            self._waits_for = waits_for
            if waits_for:
                self._report(ShardWaits(waits_for))


def _ends(former: tuple[Former, Lease | None]) -> bool:
    """Whether this shard has handed over, or is about to."""
    each, lease = former
    return lease is not None and lease.heirs is not None and lease.heirs.are_ready(each.division)


def _found(answer: LeaseAnswer) -> Lease | None:
    return answer if isinstance(answer, Lease) else None
