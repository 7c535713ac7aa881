"""What a sink rejected, and what waits behind it: on the way into the dead letters."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.delivery.ports import DeadLetters, NewDeadLetter
from bridge.facts import RecordsParked, Report
from bridge.model.policies import OnRejected
from bridge.model.record import Delta, Record


class Parking:
    """Notices are never parked, and nothing is parked behind them: they belong to no object."""

    def __init__(self, name: str, dead_letters: DeadLetters, policy: OnRejected, report: Report) -> None:
        self._name = name
        self._letters = dead_letters
        self._parks = policy is OnRejected.PARK
        self._report = report
        self.parked = 0
        """Records."""

    def is_held_up(self, record: Record) -> bool:
        """Whether a record of its object that it follows, or it itself, is a dead letter."""
        if not self._parks or not isinstance(record, Delta):
            return False
        first = self._letters.keys.get(record.ordering_key)
        return first is not None and first <= record.sequence

    def split(self, records: Sequence[Record]) -> tuple[Sequence[Record], Sequence[Record]]:
        """What may be delivered, and what is held up. Costs nothing while there are no dead letters."""
        if not self._parks or not self._letters.keys:
            return records, ()
        free: list[Record] = []
        blocked: list[Record] = []
        for record in records:
            (blocked if self.is_held_up(record) else free).append(record)
        return free, blocked

    async def park(self, records: Sequence[Record]) -> None:
        """Returns when they are durable."""
        keys = self._letters.keys
        await self._letters.add_dead_letters(
            [NewDeadLetter(record, _behind(keys.get(record.ordering_key)), True) for record in records]
        )
        self.parked += len(records)
        objects = len({record.ordering_key for record in records})
        self._report(RecordsParked(self._name, len(records), objects))

    async def add_dead_letters(self, rejected: Sequence[tuple[Record, str, str]]) -> None:
        """Rejected records, why, and what the destination answered. Returns when they are durable."""
        await self._letters.add_dead_letters(
            [NewDeadLetter(record, reason, False, answer) for record, reason, answer in rejected]
        )


def _behind(sequence: int | None) -> str:
    front = "an earlier record" if sequence is None else f"record {sequence}"
    return f"parked behind {front} of this object, which was rejected"
