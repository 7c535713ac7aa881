"""What a worker asks of the rest of the bridge: records to deliver, and a place for those that no sink takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from bridge.model.dead_letter import NewDeadLetter, RetriedDeadLetter
from bridge.model.fetch import Fetch
from bridge.model.record import Record

__all__ = ["DeadLetters", "NewDeadLetter", "OrderingKey", "RecordSource", "RetriedDeadLetter"]

OrderingKey: TypeAlias = tuple[str, str]


class RecordSource(Protocol):
    """The sink's pending queue."""

    async def take(self, limit: int) -> Fetch[Record]:
        """Wait for records; at most ``limit``. May return none: everything was meant for others, or ``wake`` was
        called."""
        ...

    @property
    def exhausted(self) -> bool:
        """Everything that there is has been taken: ``take`` would wait, and not for a disk."""
        ...

    @property
    def behind(self) -> int:
        """Records that are not settled, taken or not."""
        ...

    def wake(self) -> None:
        """Let ``take`` return now, or at once the next time it is called."""
        ...

    def settle(self, fetch: Fetch[Record]) -> None:
        """Every record of this fetch is delivered or a dead letter, and so are those of all fetches before it. Called
        once for each, in the order in which they were taken."""
        ...


class DeadLetters(Protocol):
    """Those of one sink. They survive a crash."""

    @property
    def keys(self) -> Mapping[OrderingKey, int]:
        """Objects that have a letter, and the sequence number of the first of them. Looked at for every batch. What
        is in front of that first one is not held up by it: a crash may have come before it was settled."""
        ...

    @property
    def retrying(self) -> bool:
        """An operator asked for some to be delivered again, and that is still to be done."""
        ...

    async def add_dead_letters(self, new_dead_letters: Sequence[NewDeadLetter]) -> None:
        """Returns when they are durable; only then may their fetch be settled. In this order, behind those that are
        there. A record that is a letter already stays one letter: a crash came before its fetch was settled.

        One that is parked behind none but letters that are to be delivered again (or behind none any more: an operator
        was quicker) is to be delivered again too. Nobody would ask for it."""
        ...

    async def next_retries(self, limit: int) -> Sequence[RetriedDeadLetter]:
        """The oldest that are to be delivered again, in their order; of one object never a later before an earlier."""
        ...

    async def delivered(self, numbers: Sequence[int]) -> None:
        """These are no letters any more."""
        ...

    async def rejected_again(self, number: int, reason: str, answer: str) -> None:
        """It stays, and so do the later letters of its object, until an operator asks again."""
        ...
