"""Records that the producer has, from one ``deliver`` to the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from bridge.model.record import Record
from sinks.kafka.courier import Flight

Identity: TypeAlias = tuple[int, str]


def identity(record: Record) -> Identity:
    """The same for a record that is delivered again. A gap may have the sequence of a record that was aloft."""
    return (record.sequence, record.id)


class Aloft:
    """Flights whose end no Receipt has told of yet."""

    def __init__(self) -> None:
        self._flights: dict[Identity, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def keep(self, flights: Iterable[tuple[Record, Flight]]) -> None:
        self._flights.update((identity(record), flight) for record, flight in flights)

    def take(self, record: Record) -> Flight | None:
        """The flight of this record, if it has one that may still have brought it there or has."""
        if not self._flights:
            return None
        flight = self._flights.pop(identity(record), None)
        return None if flight is None or (flight.landed and flight.error is not None) else flight

    def forget_before(self, sequence: int) -> None:
        """Deliveries have come to this sequence: nobody will ask for earlier flights that have ended."""
        if self._flights:
            kept = {name: flight for name, flight in self._flights.items() if name[0] >= sequence or not flight.landed}
            self._flights = kept
