"""One attempt to store some records of a batch, and what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException

from bridge.model.record import Record
from sinks.base import RetryLater, not_following
from sinks.kafka.aloft import Aloft
from sinks.kafka.courier import CountedFlight, Courier, Flight
from sinks.kafka.encode import Parcel

_REFUSALS = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP}
"""What a broker says of a record that it will never take. It says so to the whole batch that the record came in."""

_TOPIC_TROUBLES = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}


@dataclass(slots=True)
class Outcome:
    """Places of the batch."""

    left: list[int] = field(default_factory=list)
    """Not known to be stored, and not behind a rejected record of their object. Of one object always the last."""
    rejected: dict[int, str] = field(default_factory=dict)
    suspects: list[int] = field(default_factory=list)
    """Of those left: they came in a batch that was refused for the sake of one of them."""
    trouble: RetryLater | None = None
    """None where the rest may be tried again at once."""


class Attempt:
    def __init__(
        self,
        courier: Courier,
        batch: Sequence[Record],
        parcels: Mapping[int, Parcel],
        *,
        closed: dict[str, str],
        aloft: Aloft,
        patience: float,
        flight: type[Flight] = Flight,
    ) -> None:
        """``closed`` are topics that take nothing now, and why. ``patience``: seconds without any acknowledgement."""
        self._flight = flight
        self._courier = courier
        self._batch = batch
        self._parcels = parcels
        self._closed = closed
        self._aloft = aloft
        self._patience = patience
        self._flights: dict[int, Flight] = {}
        self._rejected: dict[int, str] = {}
        self._held_up: set[tuple[str, str]] = set()
        """Objects one of whose records was refused: nothing that follows it is sent."""

    async def run(self, *, one_by_one: bool) -> Outcome:
        """With ``one_by_one`` each record waits for the one before it, and the first failure is the last."""
        try:
            for place in self._parcels:
                if not self._send_at_once(place) and not await self._send(place):
                    break
                if one_by_one and not await self._has_landed(place):
                    break
            else:
                await self._courier.wait(self._courier.launched, self._patience)
        except BaseException:
            self._keep(self._flights)
            raise
        self._keep([place for place, flight in self._flights.items() if not flight.landed])
        return self._outcome(alone=one_by_one)

    def landings(self) -> Iterator[tuple[int, int]]:
        """Place of each record that is stored, and in which partition, where its flight counts."""
        for place, flight in self._flights.items():
            if flight.stored and isinstance(flight, CountedFlight):
                yield place, flight.partition

    def topics_in_trouble(self) -> set[str]:
        """Where records failed for the topic's sake."""
        failed = (place for place, flight in self._flights.items() if _failed_with(flight, _TOPIC_TROUBLES))
        return {self._parcels[place].topic for place in failed}

    def _send_at_once(self, place: int) -> bool:
        """The hot path: a record of which nothing is known but that it is to be sent, while the queue has room. False
        where there is more to it, and then nothing happened."""
        parcel = self._parcels[place]
        if self._closed or self._held_up or self._aloft or len(parcel.values) > 1:
            return False
        flight = self._flight(self._courier, 1)
        try:
            launched = self._courier.launch(flight, parcel.topic, parcel.key, parcel.values[0], parcel.headers)
        except KafkaException:
            return False
        if launched:
            self._flights[place] = flight
        return launched

    async def _send(self, place: int) -> bool:
        """False when nothing landed for too long to send more."""
        parcel = self._parcels[place]
        if parcel.topic in self._closed or (self._held_up and self._batch[place].ordering_key in self._held_up):
            return True
        flight = self._aloft.take(self._batch[place])
        if flight is None:
            flight = self._flight(self._courier, len(parcel.values))
            try:
                if not await self._launch(flight, parcel):
                    return False
            except KafkaException as error:
                self._was_not_taken(place, parcel, error.args[0])
                return True
        self._flights[place] = flight
        return True

    async def _launch(self, flight: Flight, parcel: Parcel) -> bool:
        courier = self._courier
        for value in parcel.values:
            while not courier.launch(flight, parcel.topic, parcel.key, value, parcel.headers):
                if not await courier.wait(courier.landed + 1, self._patience):
                    return False
        return True

    def _was_not_taken(self, place: int, parcel: Parcel, error: KafkaError) -> None:
        if error.code() in _REFUSALS:
            size = sum(len(value) for value in parcel.values if value is not None)
            self._rejected[place] = f"{error.str()}: {size} bytes; see max_message_bytes"
            self._held_up.add(self._batch[place].ordering_key)
        elif error.code() != KafkaError._FATAL:  # Of that the courier will say more.
            self._closed[parcel.topic] = error.str()

    async def _has_landed(self, place: int) -> bool:
        flight = self._flights.get(place)
        if flight is None:
            return True
        if not await self._courier.wait(self._courier.launched, self._patience):
            return False
        if _failed_with(flight, _REFUSALS):
            self._held_up.add(self._batch[place].ordering_key)
            return True
        return flight.error is None

    def _keep(self, places: Sequence[int] | Mapping[int, Flight]) -> None:
        self._aloft.keep((self._batch[place], self._flights[place]) for place in places)

    def _outcome(self, *, alone: bool) -> Outcome:
        refused = [place for place, flight in self._flights.items() if _failed_with(flight, _REFUSALS)]
        # One that was refused alone is the one at fault; of several, all but one may be innocent.
        convicted = alone or (len(refused) == 1 and not self._aloft)
        if convicted:
            self._rejected |= {place: self._error_of(place) for place in refused}
        left = not_following(self._batch, self._left(), self._rejected)
        outcome = Outcome(left, self._rejected, suspects=[] if convicted else refused)
        if left and (alone or not refused):
            outcome.trouble = RetryLater(self._reason())
        return outcome

    def _left(self) -> list[int]:
        left = []
        held_up: set[tuple[str, str]] = set()
        for place in self._parcels:
            if place in self._rejected:
                continue
            flight = self._flights.get(place)
            key = self._batch[place].ordering_key
            if flight is None or not flight.landed or flight.error is not None:
                held_up.add(key)
            elif key not in held_up:
                continue
            left.append(place)
        return left

    def _reason(self) -> str:
        troubles = [*self._closed.values(), *(self._error_of(place) for place in self._flights)]
        reason = next((trouble for trouble in troubles if trouble), self._courier.broken)
        if reason is not None:
            return reason
        return ": ".join(filter(None, [f"no acknowledgement within {self._patience:g} s", self._courier.trouble]))

    def _error_of(self, place: int) -> str:
        flight = self._flights[place]
        return flight.error.str() if flight.landed and flight.error is not None else ""


def _failed_with(flight: Flight, codes: set[int]) -> bool:
    return flight.landed and flight.error is not None and flight.error.code() in codes
