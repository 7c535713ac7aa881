"""Rejected records, and the records behind them, on the way into the dead letters."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.delivery.ports import DeadLetterStore
from bridge.facts import RecordRejected, RecordsParked, Report
from bridge.model.dead_letter import NewDeadLetter, RetriedDeadLetter
from bridge.model.policies import OnRejected
from bridge.model.record import Delta, Record
from sinks.base import is_blocked


class Parking:
    """Decides which records are blocked (``on_rejected: park``), and adds rejected and blocked records to the dead
    letters. A notice belongs to no object, so it is never blocked and blocks no record."""

    def __init__(self, name: str, dead_letters: DeadLetterStore, policy: OnRejected, report: Report) -> None:
        self._name = name
        self._dead_letters = dead_letters
        self._parks = policy is OnRejected.PARK
        self._report = report
        self.parked = 0
        """Records."""

    def is_blocked(self, record: Record) -> bool:
        """Whether the record, or an earlier record of its object, is a dead letter. An earlier record than the first
        dead letter is not blocked: it comes again after a crash."""
        return (
            self._parks and isinstance(record, Delta) and is_blocked(self._dead_letters.keys, record, record.sequence)
        )

    def split(self, records: Sequence[Record]) -> tuple[Sequence[Record], Sequence[Record]]:
        """Returns the records to deliver, and the blocked records. Free while there are no dead letters."""
        if not self._parks or not self._dead_letters.keys:
            return records, ()
        free: list[Record] = []
        blocked: list[Record] = []
        for record in records:
            (blocked if self.is_blocked(record) else free).append(record)
        return free, blocked

    async def park(self, records: Sequence[Record]) -> None:
        """Adds blocked records to the dead letters. Returns when they are durable."""
        keys = self._dead_letters.keys
        await self._dead_letters.add_dead_letters(
            [NewDeadLetter(record, _behind(keys.get(record.ordering_key)), True) for record in records]
        )
        self.parked += len(records)
        objects = len({record.ordering_key for record in records})
        self._report(RecordsParked(self._name, len(records), objects, self._dead_letters.parked))

    async def add_dead_letters(self, rejected: Sequence[tuple[Record, str, str]]) -> None:
        """Adds rejected records, each with the reason and an excerpt of the destination's answer. Returns when they are
        durable."""
        numbers = await self._dead_letters.add_dead_letters(
            [NewDeadLetter(record, reason, False, answer) for record, reason, answer in rejected]
        )
        for number, (record, reason, _) in zip(numbers, rejected, strict=True):
            self._report_rejected(number or 0, record, reason)

    async def rejected_again(self, letter: RetriedDeadLetter, reason: str, answer: str) -> None:
        """A retried dead letter stays one. Returns when that is durable."""
        await self._dead_letters.rejected_again(letter.number, reason, answer)
        self._report_rejected(letter.number, letter.record, reason)

    def _report_rejected(self, number: int, record: Record, reason: str) -> None:
        self._report(RecordRejected(self._name, record.id, reason, number, *record.ordering_key))


def _behind(sequence: int | None) -> str:
    # None: an operator has dropped the dead letter in front meanwhile.
    front = f"record {sequence}" if sequence else "an earlier record"
    return f"parked behind {front} of this object, which was rejected"
