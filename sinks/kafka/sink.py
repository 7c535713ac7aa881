"""Produces batches and waits until all in-sync replicas have them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from confluent_kafka import KafkaException

from bridge.model.formats.cloudevent import GAP_HEADER
from bridge.model.record import Delta, Gap, Notice, Record, Snapshot, SnapshotEdge
from bridge.model.resource import Resource
from sinks.base import (
    ALL_STORED,
    Format,
    Receipt,
    RetryLater,
    SinkUnavailable,
    encode_each,
    not_following,
    receipt_of,
)
from sinks.kafka.aloft import Aloft, Identity, identity
from sinks.kafka.attempt import Attempt, Outcome
from sinks.kafka.courier import CountedFlight, Courier, Flight
from sinks.kafka.encode import MarkerEncoder, Parcel, ParcelEncoder
from sinks.kafka.markers import Naming, Spread, bounded, partitions
from sinks.kafka.memory import Memory
from sinks.kafka.options import KafkaOptions
from sinks.kafka.settings import producer_settings
from sinks.kafka.telling import Telling
from sinks.kafka.topics import Topics, missing_topics

_GOODBYE = 3.0
"""Seconds that ``close`` gives to what is under way."""


class _NotAll(Exception):
    """Some markers are not stored yet; the message says why."""


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

    **A gap, and the end of a snapshot**, are told in their own topic, and in every partition of the topics that they
    are about, in front of what comes behind them there (``markers``). Where that cannot be, in compacted topics and
    among envelopes for instance, every later record names the newest gap in its headers (``memory``).

    **A producer that broke** is replaced. What it had sent and no broker answered for seconds is sent again: it may be
    there twice, with equal ids.
    """

    def __init__(self, name: str, options: KafkaOptions, *, cluster: str) -> None:
        self._options = options
        self._events = events = options.events(cluster)
        self._encoder = ParcelEncoder(
            events, options.topic, cluster, tombstones=options.tombstones, notice_topic=options.notice_topic
        )
        self._markers = MarkerEncoder(events)
        self._naming = Naming(options.topic, cluster, self._encoder.topic)
        self._memory = Memory()
        self._telling: Telling | None = None
        self.watched: Callable[[], Sequence[Resource] | None] = tuple
        # Calls of librdkafka that block, for as long as a broker is silent: no other sink's threads are taken for them.
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix=f"sink-{name}")
        self._topics = Topics(options, self._threads)
        self._courier: Courier | None = None
        self._aloft = Aloft()
        self._suspects: set[Identity] = set()
        """Records of a batch that was refused for the sake of one of them."""

    @property
    def memory(self) -> bytes:
        return self._memory.saved()

    @memory.setter
    def memory(self, saved: bytes) -> None:
        self._memory = Memory(saved)
        self._events.note_gap(self._memory.newest_gap)

    async def open(self) -> None:
        courier = await self._new_courier(gapless=True)
        try:
            await self._greet(courier)
        except BaseException:
            await courier.end(0)
            raise
        self._courier = courier

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        if len(batch) == 1 and not isinstance(batch[0], Delta):
            return await self._deliver_notice(batch[0])
        return await self._deliver(batch)

    async def _deliver(self, batch: Sequence[Record]) -> Receipt:
        parcels, rejected = encode_each(batch, self._encoder.parcel)
        if self._memory.newest_gap and self._options.format is not Format.ENVELOPE:
            await self._name_gap(parcels.values())
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
        counts = isinstance(batch[0], Delta) and batch[0].snapshot is not None
        flight = CountedFlight if counts else Flight
        attempt = Attempt(courier, batch, parcels, closed=closed, aloft=self._aloft, patience=patience, flight=flight)
        outcome = await attempt.run(one_by_one=one_by_one)
        if counts:
            for place, partition in attempt.landings():
                if (snapshot := batch[place].snapshot) is not None:
                    self._memory.count(snapshot, parcels[place].topic, partition)
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

    # ── Notices ──────────────────────────────────────────────────────────────

    async def _deliver_notice(self, notice: Notice) -> Receipt:
        """First to its own topic, then to wherever it belongs among objects. What of that fails is made up for with the
        next attempt, which repeats nothing that is known to be stored."""
        telling = self._telling
        if telling is None or telling.notice != notice.id:
            telling = self._telling = Telling(notice.id)
        receipt = ALL_STORED
        if not telling.is_noticed:
            receipt = await self._deliver([notice])
            if receipt.pending:
                return receipt
            telling.is_noticed = not receipt.rejected
        if trouble := await self._tell_markers(notice, telling):
            return Receipt(pending=[0], trouble=RetryLater(trouble))
        self._telling = None
        return receipt

    async def _tell_markers(self, notice: Notice, telling: Telling) -> str:
        """Returns why they are not all stored; empty when they are."""
        if isinstance(notice, Snapshot) and notice.edge is SnapshotEdge.BEGAN:
            return ""
        whole = False
        if self._options.format is not Format.ENVELOPE:
            watched = self.watched()
            if watched is None and isinstance(notice, Gap) and not notice.only:
                return "a gap is told where watched resources go, and the API server has not said yet what there is"
            try:
                whole = await self._mark(notice, telling, watched or ())
            except (SinkUnavailable, _NotAll) as error:
                return str(error)
        if isinstance(notice, Gap):
            self._memory.gap(notice.id, marked=whole)
            self._events.note_gap(self._memory.newest_gap)
        else:
            self._memory.ended()
        return ""

    async def _mark(self, notice: Notice, telling: Telling, watched: Sequence[Resource]) -> bool:
        """True when it has a marker in every partition that it belongs to. Raises SinkUnavailable, _NotAll."""
        there = await self._topics.there(await self._courier_that_is(gapless=True))
        spread, marker = self._spread_of(notice, watched, there)
        compacted = await self._topics.compacted(spread.topics)
        topics = [topic for topic in spread.topics if not compacted[topic]]
        parcels = {place: marker(*place) for place in partitions(topics, there)}
        courier_of = partial(self._courier_that_is, gapless=True)
        if trouble := await telling.tell(parcels, courier_of, self._options.ack_timeout):
            raise _NotAll(trouble)
        for topic in topics:
            if telling.without.get(topic, True):
                self._topics.learn(topic, compacted=topic in telling.without)
        return spread.whole and all(telling.without.values())

    def _spread_of(
        self, notice: Notice, watched: Sequence[Resource], there: Mapping[str, int]
    ) -> tuple[Spread, Callable[[str, int], Parcel]]:
        if isinstance(notice, Gap):
            return self._naming.spread_of(notice, watched, there), partial(self._markers.gap, notice)
        counts = self._memory.counts(notice.snapshot)
        found = Counter({(topic, part): n for topic, parts in (counts or {}).items() for part, n in parts.items()})
        lost = max(0, notice.count - found.total())

        def ended(topic: str, partition: int) -> Parcel:
            return self._markers.ended(notice, topic, partition, found[topic, partition], lost)

        return bounded(counts or (), there, whole=counts is not None), ended

    async def _name_gap(self, parcels: Collection[Parcel]) -> None:
        """In the headers: the newest gap where there are no markers, elsewhere the newest that could not be marked. An
        envelope does so by itself."""
        memory = self._memory
        newest, unmarked = memory.newest_gap.encode(), memory.unmarked_gap.encode()
        without: Collection[str] = ()
        if newest != unmarked:
            compacted = await self._topics.compacted(parcel.topic for parcel in parcels)
            without = {topic for topic, is_so in compacted.items() if is_so is not False}
        for parcel in parcels:
            if gap := newest if parcel.topic in without else unmarked:
                parcel.headers[GAP_HEADER] = gap

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
