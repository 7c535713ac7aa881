"""A NATS sink with a key-value bucket: beside the history in the stream, the bucket has the newest record of each
object under a key of its own.

A bucket is a stream with a subject for each key (``Bucket``), and an entry is a message of it (``EntryEncoder``): the
payload and headers of the history, or a purge marker for a deleted object. ``NatsSinkWithState`` delivers a batch to
the history and then the newest record of each key to the bucket, through the same connection. For the leader of a term
``take_over_bucket`` takes the bucket over, so that it stores nothing more of a former leader.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from time import monotonic

from msgspec.structs import replace
from nats.js.api import DiscardPolicy, StorageType, StoreCompression, StreamConfig, StreamInfo

from bridge.model.change import Op
from bridge.model.record import Delta, Record, TermBegan
from sinks.base import SinkContext
from sinks.nats.connection import NatsConnection
from sinks.nats.delivery import MAX_MESSAGES_IN_FLIGHT, NatsDelivery
from sinks.nats.encode import (
    EXPECTED_STREAM,
    MAX_SUBJECT,
    MSG_ID,
    ROOM_FOR_SEQUENCE,
    NatsEncoder,
    NatsMessage,
    headers_size,
    key_subject,
)
from sinks.nats.exchange import LostDuplicates
from sinks.nats.leading import StreamInDoubt, append_all, term_at_end
from sinks.nats.options import CreateStream, NatsOptions
from sinks.nats.sink import LOOK_INTERVAL, NatsSink
from sinks.nats.stream import KnownBucket, NatsStream, StreamDescription
from sinks.receipt import BatchResult, Receipt, SinkUnavailable
from sinks.state import StateBesideHistory

# ── The bucket ───────────────────────────────────────────────────────────────

OTHER_PUBLISHER_OF_BUCKET = (
    "another publisher writes into the bucket {}: give this sink a bucket of its own, or set sole_writer: false, which"
    " lets a former leader write there, too"
)


class Bucket(NatsStream):
    """Every method raises SinkUnavailable, also for a bucket that would lose states or refuse deletes."""

    _option = "state"

    def __init__(self, options: NatsOptions) -> None:
        super().__init__(options.model_copy(update={"stream": options.state_stream}), [f"$KV.{options.state}.>"])
        self.other_writer = OTHER_PUBLISHER_OF_BUCKET.format(options.state)
        self.expires_markers = False
        """The bucket removes the marker of a deleted key after the time that the marker names. Known after ``find``."""

    async def find(self, connection: NatsConnection, create: CreateStream | None) -> str:
        found = await super().find(connection, create)
        with self._errors(connection):
            info = await connection.jetstream(self.options.connect_timeout).stream_info(self.name)
        if wrong := _unfit(info, self._subjects):
            raise SinkUnavailable(f"{connection.server}, bucket {self.options.state}: {wrong}")
        self.expires_markers = bool(info.config.allow_msg_ttl)
        return found

    def _config(self, create: CreateStream) -> StreamConfig:
        return StreamConfig(
            name=self.name,
            subjects=self._subjects,
            storage=StorageType.FILE,
            num_replicas=create.replicas,
            max_bytes=-1 if create.max_bytes is None else create.max_bytes,
            max_msgs_per_subject=1,
            # A full bucket must refuse new states: DiscardPolicy.OLD would forget objects.
            discard=DiscardPolicy.NEW,
            compression=StoreCompression.S2,
            allow_direct=True,
            allow_rollup_hdrs=True,
            deny_delete=True,
            allow_msg_ttl=True,
        )


def _unfit(info: StreamInfo, subjects: list[str]) -> str:
    """Why the bucket cannot keep states; empty if it can."""
    config = info.config
    if config.subjects != subjects:
        return f"its stream takes {config.subjects}, and a bucket takes {subjects}"
    if config.max_age:
        return f"it forgets states after {config.max_age:g} s (max_age, or TTL): make it keep them for ever"
    if config.discard != DiscardPolicy.NEW and (config.max_bytes or -1) > 0:
        return "when it is full, it forgets the oldest states: make it discard new ones"
    if not config.allow_rollup_hdrs:
        return "it refuses purges (allow_rollup_hdrs): deleted objects would stay"
    return ""


# ── Entries ──────────────────────────────────────────────────────────────────

_MARKER = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
"""What clients of key-value buckets send to purge a key."""
_EXPIRY = {"Nats-TTL": "24h"}
"""A reader that was away for longer compares the keys."""


class EntryEncoder:
    """The payload and the CloudEvents headers are those of the history. A deleted object has a purge marker, which
    replaces all values of its key."""

    def __init__(
        self,
        options: NatsOptions,
        cluster: str,
        history: NatsEncoder,
    ) -> None:
        self._history = history
        self._stream = options.state_stream
        self._subject = key_subject(options, cluster)

    def encode(self, record: Record, *, expires: bool) -> NatsMessage:
        """``expires``: the bucket may remove markers. Raises ValueError as the encoder of the history does, and when
        the key would be too long."""
        message = self._history.encode(record)
        subject = self._subject.render(record)
        if len(subject) > MAX_SUBJECT:
            raise ValueError(f"its key would have {len(subject)} bytes; {MAX_SUBJECT} are the most")
        if isinstance(record, Delta) and record.op is Op.DELETED:
            return self._marker(message, subject, expires)
        return self._entry(message, subject, message.payload, {})

    def term(self, began: TermBegan, *, expires: bool) -> NatsMessage:
        """A marker under the key of notices, which no object has: readers of the bucket take it for a deleted key."""
        return self._marker(self._history.term(began), self._subject.of_notices(), expires)

    def _marker(self, message: NatsMessage, subject: str, expires: bool) -> NatsMessage:
        return self._entry(message, subject, b"", _MARKER | (_EXPIRY if expires else {}))

    def _entry(self, message: NatsMessage, subject: str, payload: bytes, further: dict[str, str]) -> NatsMessage:
        headers = {name: value for name, value in message.headers.items() if name != MSG_ID}
        headers |= {EXPECTED_STREAM: self._stream} | further
        return NatsMessage(message.id, subject, headers, payload, headers_size(headers) + len(payload))


# ── Taking over ──────────────────────────────────────────────────────────────


class BucketInDoubt(StreamInDoubt):
    """The bucket may have a later leader, or has another writer."""


async def take_over_bucket(
    bucket: Bucket, connection: NatsConnection, entries: EntryEncoder, began: TermBegan, last: int, in_doubt: int
) -> int:
    """Returns the number of the message behind which this leader may store its next entry. ``last``: of the last
    message in the bucket. ``in_doubt``: the message that may be of any leader. Raises BucketInDoubt, and
    SinkUnavailable if the bucket cannot be read or takes no message.

    It writes ``MAX_MESSAGES_IN_FLIGHT`` markers with no other message in between. An earlier leader, or an earlier
    connection of this one, has read a number before the markers, or finds them at the end; so its messages name numbers
    before that of the last marker, and the bucket refuses them from then on. Why one marker is not enough: see
    ``leading.take_over_stream``."""
    try:
        await term_at_end(bucket, connection, began, last, in_doubt)
        marker = entries.term(replace(began, behind=last), expires=bucket.expires_markers)
        return await append_all(bucket, connection, [marker] * MAX_MESSAGES_IN_FLIGHT, last)
    except StreamInDoubt as doubt:
        raise BucketInDoubt(str(doubt), doubt.in_doubt) from doubt


# ── The sink ─────────────────────────────────────────────────────────────────

_LATER = "has the objects that change from now on; kubedelta snapshot writes the others"


class NatsSinkWithState(NatsSink):
    """Both go through the same connection. A delivery has at most one entry of each key in flight, so that no state
    replaces a newer one.

    A bucket that was purged, or deleted and created again, is noticed with every new connection, and every half minute
    of deliveries, and reported: it has only the objects that change from then on. The state of a single object, which
    the sink has written and not deleted, shows a purge.

    **With an election** and ``sole_writer``, the leader takes the bucket over behind the history, with every new
    connection and every failure. From then on the bucket stores no entry of a former leader (``take_over_bucket``).
    """

    def __init__(self, name: str, options: NatsOptions, *, cluster: str) -> None:
        super().__init__(name, options, cluster=cluster)
        self._bucket = Bucket(options)
        self._entries = EntryEncoder(options, cluster, self._encoder)
        self._both = StateBesideHistory(self._deliver, self._deliver_state, _key)
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

    async def open(self, context: SinkContext) -> None:
        try:
            await super().open(context)
        except BucketInDoubt:
            # The first delivery says so. The sink that the bridge would make now would not know of the message.
            self._entry_in_doubt = 0

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        receipt = self._remembered(await self._both.deliver(batch))
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
            return Receipt(pending=range(len(batch)), failure=error.retry_later())
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
            ask = self._context.may_send
            return await NatsDelivery(connection, bucket, LostDuplicates(), messages, result, may_send=ask).run()
        last, self._last_entry = self._last_entry, None  # Unknown if this is cancelled.
        delivery = NatsDelivery(connection, bucket, LostDuplicates(), messages, result, last, fences=True)
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
        term = self._context.term
        if term is not None and self._fences:
            if self._bucket_lost or found.state.last_seq != last:
                last = await self._take_over_bucket(connection, term, found.state.last_seq)
            self._last_entry = last

    async def _take_over_bucket(self, connection: NatsConnection, term: TermBegan, last: int) -> int:
        """See ``take_over_bucket``."""
        try:
            return await take_over_bucket(self._bucket, connection, self._entries, term, last, self._entry_in_doubt)
        except BucketInDoubt as doubt:
            self._entry_in_doubt = doubt.in_doubt
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


def nats_sink(name: str, options: NatsOptions, *, cluster: str) -> NatsSink:
    """The sink for these options. See Sink."""
    kind = NatsSink if options.state is None else NatsSinkWithState
    return kind(name, options, cluster=cluster)


def _key(delta: Delta) -> Hashable:
    return delta.ordering_key


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))
