"""Tells the markers of one notice, until every partition has its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from confluent_kafka import KafkaError, KafkaException

from sinks.kafka.courier import Courier, Flight
from sinks.kafka.encode import Parcel
from sinks.kafka.markers import Place

_KEYLESS = KafkaError.INVALID_RECORD
"""What a compacted topic says of a record without a key."""
_NEVER_THERE = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
"""What says that a topic gets no markers; anything else is tried again."""


class Telling:
    """``tell`` may be called again and again, by whichever producer there is then: what is stored is not told twice in
    one run. After a crash all of them are told again, with the same ids."""

    def __init__(self, notice: str) -> None:
        self.notice = notice
        """Its id."""
        self.is_noticed = False
        """The notice itself is stored in its own topic, or a dead letter."""
        self.without: dict[str, bool] = {}
        """Topics that take no markers → whether that is because they are compacted."""
        self._flights: dict[Place, Flight] = {}

    async def tell(
        self, parcels: Mapping[Place, Parcel], courier_of: Callable[[], Awaitable[Courier]], patience: float
    ) -> str:
        """Returns why some are not stored yet; empty when they are. ``courier_of`` raises SinkUnavailable."""
        while left := [place for place in parcels if self._is_left(place)]:
            courier = await courier_of()
            if trouble := await self._send(courier, {place: parcels[place] for place in left}, patience):
                return trouble
            for place in left:  # A refusal makes others fail that were to follow: each has its own reason.
                error = self._error(place)
                if error is not None and (error.code() == _KEYLESS or error.code() in _NEVER_THERE):
                    self.without[place[0]] = error.code() == _KEYLESS
            again = [place for place in left if self._is_left(place)]
            if again and again == left:
                return next((error.str() for error in map(self._error, again) if error is not None), courier.trouble)
        return ""

    def _is_left(self, place: Place) -> bool:
        if place[0] in self.without:
            return False
        flight = self._flights.get(place)
        return flight is None or not flight.stored

    def _error(self, place: Place) -> KafkaError | None:
        flight = self._flights.get(place)
        return None if flight is None or not flight.landed else flight.error

    async def _send(self, courier: Courier, parcels: Mapping[Place, Parcel], patience: float) -> str:
        for place, parcel in parcels.items():
            under_way = self._flights.get(place)
            if under_way is not None and not under_way.landed:
                continue
            flight = Flight(courier, 1)
            try:
                while not courier.launch(
                    flight, parcel.topic, parcel.key, parcel.values[0], parcel.headers, parcel.partition
                ):
                    if not await courier.wait(courier.landed + 1, patience):
                        return f"no acknowledgement within {patience:g} s: {courier.trouble}"
            except KafkaException as error:
                if error.args[0].code() not in _NEVER_THERE:
                    return str(error.args[0].str())
                self.without[parcel.topic] = False
            else:
                self._flights[place] = flight
        if not await courier.wait(courier.launched, patience):
            return f"no acknowledgement within {patience:g} s: {courier.trouble}"
        return ""
