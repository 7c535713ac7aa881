"""A NATS sink with a key-value bucket."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic

from msgspec.structs import replace as replace_fields

from bridge.model.change import Op
from bridge.model.record import Delta, Record
from sinks.errors import SinkUnavailable
from sinks.nats.connection import NatsConnection
from sinks.nats.delivery import NatsDelivery
from sinks.nats.encode import NatsMessage
from sinks.nats.jetstream.duplicates import Duplicates
from sinks.nats.jetstream.losses import StreamDescription
from sinks.nats.memory import KnownBucket
from sinks.nats.options import NatsOptions
from sinks.nats.sink import LOOK_INTERVAL, NatsSink
from sinks.nats.states.bucket import Bucket
from sinks.nats.states.encode import EntryEncoder
from sinks.receipt import BatchResult, Receipt, RetryLater
from sinks.state import StateBesideHistory

_LATER = "has the objects that change from now on; kubedelta snapshot writes the others"


class NatsSinkWithState(NatsSink):
    """Both go through the same connection. A delivery has at most one entry of each key in flight, so that no state
    replaces a newer one.

    A bucket that was purged, or deleted and created again, is noticed with every new connection, and every half minute
    of deliveries, and reported: it has only the objects that change from then on. The state of a single object, which
    the sink has written and not deleted, shows a purge.
    """

    def __init__(self, name: str, options: NatsOptions, *, cluster: str) -> None:
        super().__init__(name, options, cluster=cluster)
        self._bucket = Bucket(options)
        self._entries = EntryEncoder(options, cluster, self._encoder.encode)
        self._both = StateBesideHistory(super().deliver, self._deliver_state, _key)
        self._looked_through: NatsConnection | None = None
        """The connection by which the bucket was looked at."""
        self._look_at_bucket = float("inf")
        """When to look again, on the monotonic clock."""
        self._bucket_lost = self._bucket_new = ""
        """In words, for the next receipt."""

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        receipt = await self._both.deliver(batch)
        if not (self._bucket_lost or self._bucket_new or self._bucket.created):
            return receipt
        lost, changed = (_joined(receipt.lost, self._bucket_lost), _joined(receipt.changed, self._bucket_new))
        created = _joined(receipt.created, f"bucket {self._options.state}" if self._bucket.created else "")
        self._bucket_lost = self._bucket_new = ""
        self._bucket.created = False
        return replace(receipt, created=created, lost=lost, changed=changed)

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
            return Receipt(pending=range(len(batch)), failure=RetryLater(str(error), unavailable=True))
        result = BatchResult(batch)

        def encode(record: Record) -> NatsMessage:
            return self._entries.encode(record, expires=self._bucket.expires_markers).within(connection.max_payload)

        messages = result.encode(encode)
        delivery = NatsDelivery(self._bucket.options, connection, self._bucket, Duplicates(), messages, result)
        created = self._bucket.created
        receipt = await delivery.run()
        if self._bucket.created and not created:
            self._looked_through = None  # The bucket was missing: the next look says what that means.
        unstored = {*receipt.pending, *receipt.rejected}
        self._remember({index: each for index, each in messages.items() if index not in unstored}, batch)
        return receipt

    async def _connected(self) -> NatsConnection:
        """Raises SinkUnavailable."""
        connection = await super()._connected()
        if connection is not self._looked_through:
            await self._bucket.find(connection, self._options.create_stream)
            await self._look_at_contents(connection)
            self._looked_through = connection
        elif monotonic() >= self._look_at_bucket:
            with suppress(SinkUnavailable):  # The delivery fails too, if it matters.
                await self._look_at_contents(connection)
        return connection

    async def _look_at_contents(self, connection: NatsConnection) -> None:
        """Raises SinkUnavailable."""
        self._look_at_bucket = monotonic() + LOOK_INTERVAL
        known = self.known_bucket
        self._compare(await self._bucket.describe(connection, "" if known is None else known.subject))

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
            self.known_bucket = replace_fields(known, subject=subject)


def _key(delta: Delta) -> Hashable:
    return delta.ordering_key


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))
