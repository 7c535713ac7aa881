"""A NATS sink with a key-value bucket."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from time import monotonic

from msgspec.structs import replace

from bridge.model.change import Op
from bridge.model.primitives.election import TermBegan
from bridge.model.record import Delta, Record
from sinks.errors import SinkUnavailable
from sinks.nats.connection import NatsConnection
from sinks.nats.delivery import NatsDelivery
from sinks.nats.encode import ROOM_FOR_SEQUENCE, NatsMessage
from sinks.nats.jetstream.duplicates import Duplicates
from sinks.nats.jetstream.losses import StreamDescription
from sinks.nats.memory import KnownBucket
from sinks.nats.options import NatsOptions
from sinks.nats.sink import LOOK_INTERVAL, NatsSink
from sinks.nats.states.bucket import Bucket
from sinks.nats.states.encode import EntryEncoder
from sinks.nats.states.leading import BucketInDoubt, take_over
from sinks.receipt import BatchResult, Receipt, RetryLater
from sinks.state import StateBesideHistory

_LATER = "has the objects that change from now on; kubedelta snapshot writes the others"


class NatsSinkWithState(NatsSink):
    """Both go through the same connection. A delivery has at most one entry of each key in flight, so that no state
    replaces a newer one.

    A bucket that was purged, or deleted and created again, is noticed with every new connection, and every half minute
    of deliveries, and reported: it has only the objects that change from then on. The state of a single object, which
    the sink has written and not deleted, shows a purge.

    **With an election** and ``sole_writer``, the leader takes the bucket over behind the history, with every new
    connection and every failure. From then on the bucket stores no entry of a former leader (``leading.take_over``).
    """

    def __init__(self, name: str, options: NatsOptions, *, cluster: str) -> None:
        super().__init__(name, options, cluster=cluster)
        self._bucket = Bucket(options)
        self._entries = EntryEncoder(options, cluster, self._encoder.encode, self._encoder.term)
        self._both = StateBesideHistory(super().deliver, self._deliver_state, _key)
        self._looked_through: NatsConnection | None = None
        """The connection by which the bucket was looked at."""
        self._look_at_bucket = float("inf")
        """When to look again, on the monotonic clock."""
        self._bucket_lost = self._bucket_new = ""
        """In words, for the next receipt."""
        self._last_entry: int | None = None
        """The number of the last message in the bucket, for a leader that has taken it over; None if unknown."""
        self._entry_in_doubt = 0
        """The number of the last message in the bucket that may be a later leader's. The Lease is confirmed before the
        next delivery: then its leader counts, whatever that message is."""

    async def open(self) -> None:
        try:
            await super().open()
        except BucketInDoubt:
            # The first delivery says so. The sink that the bridge would make now would not know of the message.
            self._entry_in_doubt = 0

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        receipt = await self._both.deliver(batch)
        if not (self._bucket_lost or self._bucket_new or self._bucket.created):
            return receipt
        lost, changed = (_joined(receipt.lost, self._bucket_lost), _joined(receipt.changed, self._bucket_new))
        created = _joined(receipt.created, f"bucket {self._options.state}" if self._bucket.created else "")
        self._bucket_lost = self._bucket_new = ""
        self._bucket.created = False
        return dataclasses.replace(receipt, created=created, lost=lost, changed=changed)

    async def check(self) -> str:
        connection = await self._new_connection()
        try:
            return f"{await self._stream.look(connection)}; {await self._bucket.look(connection)}"
        finally:
            await connection.close()

    async def _deliver_state(self, batch: Sequence[Record]) -> Receipt:
        """Each record is the newest of its key."""
        try:
            connection = await self._connected()
        except SinkUnavailable as error:
            failure = RetryLater(str(error), unavailable=True, doubted=error.doubted)
            return Receipt(pending=range(len(batch)), failure=failure)
        result = BatchResult(batch)
        room = ROOM_FOR_SEQUENCE if self._fences else 0

        def encode(record: Record) -> NatsMessage:
            entry = self._entries.encode(record, expires=self._bucket.expires_markers)
            return entry.within(connection.max_payload, room)

        messages = result.encode(encode)
        created = self._bucket.created
        receipt = await self._send_entries(connection, messages, result)
        if self._bucket.created and not created:
            self._looked_through = None  # The bucket was missing: the next look says what that means.
        unstored = {*receipt.pending, *receipt.rejected}
        self._remember({index: each for index, each in messages.items() if index not in unstored}, batch)
        return receipt

    async def _send_entries(
        self, connection: NatsConnection, messages: dict[int, NatsMessage], result: BatchResult
    ) -> Receipt:
        bucket = self._bucket
        if not self._fences:
            options, ask = bucket.options, self.may_send
            return await NatsDelivery(options, connection, bucket, Duplicates(), messages, result, may_send=ask).run()
        last, self._last_entry = self._last_entry, None  # Unknown if this is cancelled.
        delivery = NatsDelivery(
            bucket.fenced_options, connection, bucket, Duplicates(), messages, result, last, fences=True
        )
        receipt = await delivery.run()
        self._last_entry = delivery.last
        return receipt

    async def _connected(self) -> NatsConnection:
        """Raises SinkUnavailable."""
        connection = await super()._connected()
        if connection is not self._looked_through:
            self._last_entry = None
            await self._bucket.find(connection, self._options.create_stream)
            await self._look_at_contents(connection)
            self._looked_through = connection
        elif self._fences and (self._last_entry is None or monotonic() >= self._look_at_bucket):
            await self._look_at_contents(connection)
        elif monotonic() >= self._look_at_bucket:
            with suppress(SinkUnavailable):  # The delivery fails too, if it matters.
                await self._look_at_contents(connection)
        return connection

    async def _look_at_contents(self, connection: NatsConnection) -> None:
        """With an election, takes the bucket over. Raises SinkUnavailable."""
        self._look_at_bucket = monotonic() + LOOK_INTERVAL
        known, (last, self._last_entry) = self.known_bucket, (self._last_entry, None)
        found = await self._bucket.describe(connection, "" if known is None else known.subject)
        self._compare(found)
        if self.term is not None and self._fences:
            if self._bucket_lost or found.state.last_seq != last:
                last = await self._take_over_bucket(connection, self.term, found.state.last_seq)
            self._last_entry = last

    async def _take_over_bucket(self, connection: NatsConnection, term: TermBegan, last: int) -> int:
        """See ``leading.take_over``."""
        try:
            return await take_over(self._bucket, connection, self._entries, term, last, self._entry_in_doubt)
        except BucketInDoubt as doubt:
            self._entry_in_doubt = doubt.last
            raise

    def _compare(self, found: StreamDescription) -> None:
        known, name = self.known_bucket, self._options.state or ""
        self.known_bucket = KnownBucket(name, found.created)
        if known is None or known.name != name:
            if self.has_begun:
                self._bucket_new = f"bucket {name} is new to the sink, and {_LATER}"
        elif known.created != found.created:
            self._bucket_lost = f"bucket {name} was created again, and {_LATER}"
        elif known.subject and not found.state.subjects:
            self._bucket_lost = f"bucket {name} was purged, and {_LATER}"
        else:
            self.known_bucket = known

    def _remember(self, stored: Mapping[int, NatsMessage], batch: Sequence[Record]) -> None:
        """Keeps the subject of an object that these messages leave in the bucket."""
        known = self.known_bucket
        subject = "" if known is None else known.subject
        for index, message in sorted(stored.items()):
            record = batch[index]
            if isinstance(record, Delta) and record.op is Op.DELETED:
                subject = "" if message.subject == subject else subject
            else:
                subject = subject or message.subject
        if known is not None and subject != known.subject:
            self.known_bucket = replace(known, subject=subject)


def _key(delta: Delta) -> Hashable:
    return delta.ordering_key


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))
