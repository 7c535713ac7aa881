"""Decides whether the answers that a Reflector gets are of the known history (``Assurance``), and which part of its
known objects is of the API server's present history (``Comparison``).

An answer that has just come is taken in if the history is assured at that moment; otherwise a proof is made, and may
come out as the answer that is taken in instead. News of other informers, and of the Controller, waits here until the
Reflector's next request. While a list in a new or suspected history is compared, only its listed objects count as
known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.history.history import ASSURED, History
from bridge.informer.history.member import Member
from bridge.informer.history.proof import Contradicted, OtherHistory, SameHistory, UnknownHistory
from bridge.informer.reflector.states import Answer, Listing, NotSynced, State, Synced
from bridge.model.answers import Failed, Refused
from bridge.model.object import ApiObject


class Comparison:
    """Begins when another history is found or suspected, and ends when a complete list is known.

    Until then the informer vouches for the listed objects only. Any other known object is of the former history, and
    would prove the present one to be another history once more. A listed object counts as soon as the Controller has
    its delta; until then the Indexer has the former state.
    """

    def __init__(self, fifo: DeltaFIFO) -> None:
        self._fifo = fifo
        self._under_way = fifo.is_restoring
        """From the start on, where the process ended before the first list of the epoch was known to be complete."""
        self._listed: dict[str, int] = {}
        """Key of each object that was listed since the comparison began → DeltaFIFO.arrivals with its delta."""
        self._ends_with: int | None = None
        """DeltaFIFO.arrivals with the last delta of a complete list; None until there is such a list."""

    def begin(self) -> None:
        """Begins a comparison, in place of a former comparison, whose lists may be of a former history."""
        self._under_way, self._ends_with = True, None
        self._listed.clear()

    def listed(self, objects: Iterable[ApiObject]) -> None:
        if self._under_way:
            self._listed.update(dict.fromkeys((thing.key for thing in objects), self._fifo.arrivals))

    def list_ended(self, *, complete: bool) -> None:
        self._ends_with = self._fifo.arrivals if complete else None

    @property
    def has_begun(self) -> bool:
        """An object was listed, and no complete list is known."""
        return self._is_under_way() and bool(self._listed)

    @property
    def vouches_for(self) -> list[str] | None:
        """Keys of the objects that are known to be of the present history; None for all of them."""
        if not self._is_under_way():
            return None
        return [key for key, arrived in self._listed.items() if arrived <= self._fifo.drained_through]

    def _is_under_way(self) -> bool:
        if self._ends_with is not None and self._ends_with <= self._fifo.drained_through:
            self._under_way, self._ends_with = False, None
            self._listed.clear()
        return self._under_way


@dataclass(frozen=True, slots=True)
class Arrival:
    at: float
    """When the first part of an answer came."""
    objection: Answer | None


class Assurance:
    """Joins proofs of the server's history with the news that other informers and the Controller have of it."""

    def __init__(self, history: History, member: Member) -> None:
        """``member``: the informer whose answers these are."""
        self.history = history
        self._member = member
        self.learned: OtherHistory | Contradicted | None = None
        """News of the server's history, to be processed before the next request. Nearly always None, and looked at
        before any method is called."""
        self.suspicions = 0
        """Times that the history could not be proven since a watch was last open."""
        self._suspected_at = float("-inf")
        self._passed_over = 0
        """Epochs that ended before this informer began them."""
        self._arrival: Arrival | None = None
        """The arrival of the answer to the list that is under way."""
        self._now = asyncio.get_running_loop().time

    def learn(self, of_history: OtherHistory | Contradicted) -> None:
        """Keeps the news; OtherHistory is kept in place of Contradicted."""
        if isinstance(self.learned, OtherHistory) and isinstance(of_history, OtherHistory):
            self._passed_over += 1
        if self.learned is None or isinstance(of_history, OtherHistory):
            self.learned = of_history

    def take_learned(self) -> OtherHistory | Contradicted | None:
        learned, self.learned = self.learned, None
        return learned

    def take_passed_over(self) -> int:
        """The number of epochs that ended unseen since the last call."""
        passed_over, self._passed_over = self._passed_over, 0
        return passed_over

    def suspect(self) -> None:
        """The history could not be proven."""
        self.suspicions += 1
        self._suspected_at = self._now()

    async def prove(self) -> Answer:
        """Proves that the server's history is the known one, at a moment after the call; or returns the news that came
        meanwhile."""
        await self._member.wait_processed()  # The proof compares known versions: queued deltas must be among them.
        proof = await self.history.prove(self._member)
        return self.take_learned() or proof

    async def objection(self, state: State) -> Answer | None:
        """Taken in instead of an answer that has just come; None where the answer is of the known history. A proof
        before the request is not enough: the server may have begun with another store since."""
        suspected_just_now = self._now() - self._suspected_at <= ASSURED
        if self.history.is_assured(self._member) or (suspected_just_now and isinstance(state, NotSynced)):
            return None
        proof = await self.prove()
        match state, proof:
            case _, SameHistory():
                return None
            case NotSynced(seen=None), UnknownHistory() | Refused() | Failed():
                return None  # This informer knows nothing that could be of another history than the answer.
            case NotSynced() | Synced(), UnknownHistory() if self.suspicions:
                return None  # Therefore everything has been listed; another list would show no more.
            case Listing(), UnknownHistory() if self.suspicions > 1:
                return None  # The server cannot answer with the whole list in one page.
        return proof

    def begin_list(self) -> None:
        """A list, or a further page, is requested."""
        self._arrival = None

    async def arrive(self, state: State) -> Arrival:
        """The arrival of the answer to a list. Its first part decides for the whole answer, since one server sent it on
        one connection."""
        if self._arrival is None:
            at = self._now()
            self._arrival = Arrival(at, await self.objection(state))
        return self._arrival
