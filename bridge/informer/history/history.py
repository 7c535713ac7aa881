"""Proves that an API server still has the known history, once for all of its informers together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeAlias

from bridge.facts import HistoryChecked, Report, discard
from bridge.informer.history.member import Member
from bridge.informer.history.outcomes import OtherHistory, Proof, SameHistory, UnknownHistory
from bridge.informer.history.prover import Prover
from bridge.model.answers import Busy, Failed, Refused
from bridge.model.resource import Resource, Scope

GATHER = 0.05
"""Seconds to wait for other members whose watches broke at the same moment."""
ASSURED = 0.25
"""Seconds. Two answers within this time are of one history: a restore of the store takes longer, since etcd and the API
server start anew."""
KNOWN = 1.0
"""Seconds that a proof waits for queued deltas to reach the Indexer."""
Part: TypeAlias = tuple[Resource, Scope]

DiscardPositions: TypeAlias = Callable[[Collection[Part], bool], Awaitable[None]]
"""Drops the positions of these parts, so that no later start resumes from them; if the second argument is True, each
part begins a new epoch. Counts for all batches delivered after the call. Returns when it is durable."""


async def no_positions(_parts: Collection[Part], _restored: bool) -> None:
    """The DiscardPositions of informers without durable positions."""


class History:
    """The history of one store behind an API server, for all informers of that store (members).

    Invariant: all objects that members vouch for are of one history, and a member exports one history in an epoch.

    - A page, or an open watch, is taken in only where its history is assured: within ``ASSURED`` seconds of another
      answer of the known history, or by a proof that began after the answer had come. A broken connection ends the
      assurance for all members.
    - A proof is of the moment in which it begins. It counts for members that asked before, and queued deltas of all
      members are known to it.
    - In another history all members begin an epoch and compare (``Comparison``). A comparison that breaks off may have
      exported yet another history: its member begins one more epoch (``renew``).

    Only ``list`` is needed, within each member's scope. No request of a proof counts as a list of the resource.
    """

    def __init__(
        self,
        name: str = "",
        *,
        discard_positions: DiscardPositions = no_positions,
        report: Report = discard,
        gather: float = GATHER,
    ) -> None:
        """``name`` distinguishes stores behind an address (see ``kube.store_of``); empty for kube-apiserver's own."""
        self._name = name
        self._discard_positions = discard_positions
        self._report = report
        self._gather = gather
        self._now = asyncio.get_running_loop().time
        self._members: list[Member] = []
        self._broke_at = float("-inf")
        self._turn = asyncio.Lock()
        self._began = float("-inf")
        self._proof: Proof = SameHistory()
        self._assured: float | None = None
        """When an answer of the known history came last; None while nothing is known of the present history."""
        self._other: OtherHistory | None = None
        """The other history that was found last in this process."""
        self._current: set[str] = set()
        """Names of resources whose checkpoints belong to the present history."""
        self._doubtful: set[Member] = set()
        """Members that had no open watch when the history was unknown. The next proof is unknown to each of them: it
        may lack the knowledge that other members have dropped since."""
        self._prover = Prover()

    def join(self, member: Member, *, resumed: bool) -> None:
        """Adds a member. A ``resumed`` member has a checkpoint from before this process."""
        self._members.append(member)
        if resumed and self._other is not None and member.resource.name not in self._current:
            member.disproved(self._other)
        self._current.add(member.resource.name)

    def leave(self, member: Member) -> None:
        """Removes a member. A second call has no effect."""
        self._prover.forget(member)
        self._doubtful.discard(member)
        if member in self._members:
            self._members.remove(member)

    async def prove(self, member: Member) -> Proof:
        """Whether the server's history is the known one, at a moment after the call. All members learn of another
        history by ``disproved`` before this returns."""
        made = await self._newest_proof()
        if member not in self._doubtful:
            return made
        self._doubtful.discard(member)
        return UnknownHistory("an earlier proof failed") if isinstance(made, SameHistory) else made

    async def _newest_proof(self) -> Proof:
        asked = self._now()
        async with self._turn:
            if self._began > asked:
                return self._proof
            await asyncio.sleep(self._gather)
            began = self._now()
            made = await self._make()
            match made:
                case SameHistory() if self._broke_at < began:
                    self.assure(began)
                case OtherHistory():
                    await self._announce(made, self._members)
                case UnknownHistory():
                    # Members with an open watch have missed no events.
                    unwatched = [each for each in self._members if not each.live]
                    self._doubtful.update(unwatched)
                    await self._discard_positions(_parts(unwatched), False)
            self._began, self._proof = began, made
            self._report(HistoryChecked(self._name, *_outcome(made)))
            return made

    async def disprove(self, member: Member, other: OtherHistory) -> None:
        """This member has found another history by itself: all other members learn of it."""
        await self._announce(other, [each for each in self._members if each is not member])

    def is_assured(self, member: Member) -> bool:
        """An answer to this member, at this moment, is of the known history, or no member knows anything."""
        if member in self._doubtful:
            return False
        return self._assured is None or self._now() - self._assured <= ASSURED

    def assure(self, at: float) -> None:
        """An answer that came at this time, on the event loop's clock, is of the known history."""
        self._assured = at if self._assured is None else max(at, self._assured)

    def connection_broke(self) -> None:
        """A connection broke: the server may have another store now."""
        self._broke_at = self._now()
        if self._assured is not None:
            self._assured = float("-inf")

    async def renew(self, member: Member) -> None:
        """Begins another epoch for this member alone. Durable when this returns."""
        await self._discard_positions(_parts([member]), True)

    async def _announce(self, other: OtherHistory, members: Collection[Member]) -> None:
        """Makes the end of the known history durable before it returns. Otherwise, after a crash, a member with objects
        of the new history could prove it for a member with a position of the old history."""
        self._other, self._assured = other, None
        self._doubtful.clear()
        self._current = {each.resource.name for each in self._members}
        durable = self._discard_positions(_parts(self._members), True)
        for each in members:
            each.disproved(other)
        await durable

    # ── A proof ──────────────────────────────────────────────────────────────

    async def _make(self) -> Proof:
        """Proves the history once the Indexers have all queued deltas; Busy if that takes longer than KNOWN, beside the
        recovery of steps."""
        for each in list(self._members):
            await each.wait_recovered()
        try:
            async with asyncio.timeout(KNOWN):
                for each in list(self._members):
                    await each.wait_known()
        except TimeoutError:
            return Busy("received changes wait to be stored")
        return await self._prover.prove(self._members)


def _outcome(made: Proof) -> tuple[str, str]:
    match made:
        case SameHistory():
            return "same", ""
        case OtherHistory(was=was, now=now):
            return "other", f"{was} is known; it has {now}"
        case UnknownHistory(reason=reason):
            return "unknown", reason
        case Busy(reason=reason) | Refused(reason=reason) | Failed(reason=reason):
            return "failed", reason


def _parts(members: Iterable[Member]) -> list[Part]:
    return [(each.resource, each.scope) for each in members]
