"""Produces batches and waits until all in-sync replicas have them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import KafkaException

from bridge.model.record import Record
from bridge.model.resource import Resource
from sinks.base import Receipt, RetryLater, SinkUnavailable, encode_each, not_following, receipt_of
from sinks.kafka.aloft import Aloft, Identity, identity
from sinks.kafka.attempt import Attempt, Outcome
from sinks.kafka.courier import Courier
from sinks.kafka.encode import Parcel, ParcelEncoder
from sinks.kafka.options import KafkaOptions
from sinks.kafka.settings import producer_settings
from sinks.kafka.topics import Topics, missing_topics

_GOODBYE = 3.0
"""Seconds that ``close`` gives to what is under way."""


class KafkaSink:
    """A record is stored when its delivery report says so: acks=all, by an idempotent producer that never times out.

    **A broker that is down.** After ``ack_timeout`` without an acknowledgement ``deliver`` reports trouble, but the
    records stay with the producer, which goes on trying. When they are delivered again, their flights are found by
    sequence and id and waited for; nothing is produced a second time while the producer still has it. So an outage
    leaves neither duplicates nor another order. The same holds after a ``deliver`` that was cancelled.

    **A record that a broker refuses.** Brokers refuse a whole batch for one record that is too large for its topic. The
    producer stops then, before anything behind it is stored (``enable.gapless.guarantee``). What other batches it had
    sent is answered first, so that nothing is sent twice. The records of the refused batch are sent again one by one,
    by a producer without that guarantee, which needs none; the one that is refused alone is rejected.

    **A producer that broke** is replaced. What it had sent and no broker answered for seconds is sent again: it may be
    there twice, with equal ids.
    """

    def __init__(self, name: str, options: KafkaOptions, *, cluster: str) -> None:
        self._options = options
        self._encoder = ParcelEncoder(options.events(cluster), options.topic, cluster, tombstones=options.tombstones)
        # Calls of librdkafka that block, for as long as a broker is silent: no other sink's threads are taken for them.
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix=f"sink-{name}")
        self._topics = Topics(options, self._threads)
        self._courier: Courier | None = None
        self._aloft = Aloft()
        self._suspects: set[Identity] = set()
        """Records of a batch that was refused for the sake of one of them."""

    async def open(self) -> None:
        courier = await self._new_courier(gapless=True)
        try:
            await self._greet(courier)
        except BaseException:
            await courier.end(0)
            raise
        self._courier = courier

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        parcels, rejected = encode_each(batch, self._encoder.parcel)
        self._aloft.forget_before(batch[0].sequence)
        outcome = Outcome(left=list(parcels))
        while outcome.left and outcome.trouble is None:
            now, later = self._up_to_the_last_suspect(batch, outcome.left)
            try:
                outcome = await self._try(batch, {place: parcels[place] for place in now})
            except SinkUnavailable as error:
                outcome = Outcome(left=now, trouble=RetryLater(str(error), whole=True))
            outcome.left += later
            if outcome.rejected:
                rejected |= outcome.rejected
                outcome.left = not_following(batch, outcome.left, rejected)
        return receipt_of(batch, pending=outcome.left, trouble=outcome.trouble, rejected=rejected)

    async def check(self) -> str:
        courier = await self._new_courier(gapless=True)
        try:
            return await self._greet(courier)
        finally:
            await courier.end(0)

    async def check_places(self, resources: Sequence[Resource]) -> Sequence[str]:
        missing = await asyncio.get_running_loop().run_in_executor(
            self._threads, missing_topics, self._options, self._encoder.topics_for(resources)
        )
        if not missing:
            return ()
        return [f"no topic {', '.join(missing)}, and brokers make none: make them, or set create_topics"]

    async def close(self) -> None:
        courier, self._courier = self._courier, None
        try:
            if courier is not None:
                await courier.end(_GOODBYE)
        finally:
            self._threads.shutdown(wait=False)

    async def _try(self, batch: Sequence[Record], parcels: dict[int, Parcel]) -> Outcome:
        """Raises SinkUnavailable."""
        one_by_one = bool(self._suspects)
        courier = await self._courier_that_is(gapless=not one_by_one)
        closed = await self._topics.closed(courier, {parcel.topic for parcel in parcels.values()})
        patience = self._options.ack_timeout
        attempt = Attempt(courier, batch, parcels, closed=closed, aloft=self._aloft, patience=patience)
        outcome = await attempt.run(one_by_one=one_by_one)
        for topic in attempt.topics_in_trouble():
            self._topics.forget(topic)
        self._suspects = {identity(batch[place]) for place in outcome.suspects}
        return outcome

    def _up_to_the_last_suspect(self, batch: Sequence[Record], places: list[int]) -> tuple[list[int], list[int]]:
        """What to send now, and what after it."""
        if not self._suspects:
            return places, []
        suspects = [count for count, place in enumerate(places, 1) if identity(batch[place]) in self._suspects]
        if not suspects:
            self._suspects = set()
            return places, []
        return places[: suspects[-1]], places[suspects[-1] :]

    # ── Producers ────────────────────────────────────────────────────────────

    async def _courier_that_is(self, *, gapless: bool) -> Courier:
        """Raises SinkUnavailable."""
        courier, patience = self._courier, self._options.ack_timeout
        if courier is not None and (courier.failing or courier.gapless is not gapless):
            # Not before what it sent is answered: what is dropped is sent again, and would be there twice.
            if not await courier.wait(courier.launched, patience):
                raise SinkUnavailable(f"no acknowledgement within {patience:g} s: {courier.trouble}")
            self._courier = None
            await courier.end(0)
        if self._courier is None:
            self._courier = await self._new_courier(gapless=gapless)
        return self._courier

    async def _new_courier(self, *, gapless: bool) -> Courier:
        settings = producer_settings(self._options, gapless=gapless)
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, Courier, settings, self._threads, loop)
        except KafkaException as error:
            raise SinkUnavailable(f"librdkafka does not take these settings: {error.args[0].str()}") from error

    async def _greet(self, courier: Courier) -> str:
        """Who answers. Raises SinkUnavailable."""
        servers = self._options.bootstrap_servers
        try:
            timeout = self._options.connect_timeout
            cluster = await asyncio.get_running_loop().run_in_executor(self._threads, courier.topics, None, timeout)
        except KafkaException as error:
            raise SinkUnavailable(f"cannot reach {servers}: {courier.trouble or error.args[0].str()}") from error
        return f"{servers}, cluster {cluster.cluster_id} of {len(cluster.brokers)} brokers"
