"""The interfaces that a worker needs: records to deliver, and the dead letters of its sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from bridge.model.primitives.fetch import Fetch
from bridge.model.record import NewDeadLetter, OrderingKey, Record, RetriedDeadLetter
from bridge.model.versions.progress import Progress
from bridge.telemetry.facts.delivery import ProgressRead


class RecordSource(Protocol):
    """The records of one sink, in order."""

    async def take(self, limit: int) -> Fetch[Record]:
        """Waits for records and returns at most ``limit``. A fetch may be empty: all its records were for other sinks,
        or ``wake`` was called."""
        ...

    @property
    def exhausted(self) -> bool:
        """Every available record was taken: ``take`` would wait, and not for a disk."""
        ...

    @property
    def backlog_records(self) -> int:
        """Records that are not settled, taken or not."""
        ...

    def wake(self) -> None:
        """Makes ``take`` return now, or at once when it is called next."""
        ...

    def settle(self, fetch: Fetch[Record], memory: bytes | None = None) -> None:
        """Every record of this fetch and of all earlier fetches is stored or a dead letter. Called once for each fetch,
        in the order of ``take``. ``memory``: the sink's newest (``Receipt.memory``), saved together with that; None
        before the first."""
        ...


class TransactionSource(RecordSource, Protocol):
    """The records of a sink whose destination stores the progress with the records."""

    @property
    def taken(self) -> int:
        """Sequence number through which the log was taken, and is settled where no fetch is in flight."""
        ...

    async def begin(self) -> None:
        """Before the sink is opened. Durable on return."""
        ...

    async def recover(self, committed: Progress | None) -> ProgressRead | None:
        """After the sink is opened, before the first ``take``: records that the destination has are not taken again.
        ``committed``: its newest progress; None if it has none. Returns the fact to report."""
        ...

    def hand_over(self, fetch: Fetch[Record]) -> None:
        """The next delivery is of this fetch; every earlier fetch is settled."""
        ...

    def hand_over_letters(self, letters: Sequence[RetriedDeadLetter]) -> None:
        """The next delivery is of these dead letters; every fetch is settled."""
        ...


class DeadLetterStore(Protocol):
    """The dead letters of one sink. They survive a crash."""

    @property
    def keys(self) -> Mapping[OrderingKey, int]:
        """Object → sequence number of its first dead letter. Read for every batch. An earlier record of the object is
        not blocked by that dead letter: it comes again when a crash came before it was settled."""
        ...

    @property
    def retrying(self) -> bool:
        """Dead letters that an operator asked to retry are still to be delivered."""
        ...

    @property
    def newest_at_start(self) -> int:
        """The highest sequence number of a dead letter that was there when the state was opened; 0 without any."""
        ...

    @property
    def parked(self) -> int:
        """Number of dead letters that were parked without an attempt."""
        ...

    async def add_dead_letters(self, new_dead_letters: Sequence[NewDeadLetter]) -> Sequence[int | None]:
        """Adds them in this order, behind the present dead letters. Returns when they are durable: only then may their
        fetch be settled. A record that already is a dead letter is not added again: a crash came before its fetch was
        settled.

        If every earlier dead letter of the object is marked for retry, or was dropped, a newly parked record is marked
        too. Otherwise no operator would know to retry it.

        Returns the number of each; None for a record that already is one."""
        ...

    async def next_retries(self, limit: int) -> Sequence[RetriedDeadLetter]:
        """The oldest dead letters that are to be retried, those of an object in their order."""
        ...

    async def delivered(self, numbers: Sequence[int]) -> None:
        """Removes these dead letters: the destination has stored them."""
        ...

    async def rejected_again(self, number: int, reason: str, answer: str) -> None:
        """The dead letter and all later ones of its object stay until an operator asks again."""
        ...
