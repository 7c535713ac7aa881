"""The NATS sink: it publishes a batch to JetStream and waits until the stream has stored it, or to the server alone
(``mode: core``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

from msgspec.structs import replace as replace_fields

from bridge.model.record import Record, TermBegan
from sinks.base import SinkContext
from sinks.gaps import NamesGaps, gap_before
from sinks.nats.connection import NatsConnection
from sinks.nats.delivery import CoreDelivery, NatsDelivery
from sinks.nats.encode import ROOM_FOR_SEQUENCE, NatsEncoder, NatsMessage, stream_subjects
from sinks.nats.exchange import LostDuplicates
from sinks.nats.leading import StreamInDoubt, take_over_stream
from sinks.nats.options import DeliveryMode, NatsOptions
from sinks.nats.stream import KnownBucket, KnownStream, NatsMemory, NatsStream, StreamDescription, loss_of
from sinks.receipt import BatchResult, Receipt, SinkUnavailable

LOOK_INTERVAL = 30.0
"""Seconds between two looks at the stream, and at the bucket."""


class NatsSink(NamesGaps):
    """A record is stored when the stream has acknowledged it, or knew its id already.

    With ``sole_writer`` each message names the number of the message before it, which the stream has to have as its
    last; the first such number is read with each connection. When a message is lost, the stream stores none behind it.
    Otherwise messages of an object wait for each other.

    The next ``deliver`` replaces a connection that broke, or that brought no answer for ``ack_timeout``. Messages in
    flight are sent again with the same ids, which the stream knows for its ``duplicate_window``. A duplicate whose
    message the stream has lost since (it was purged) is not stored: the sink sends it again, with an id that names the
    lost message, and behind it those of the object that the stream has: an object ends with its newest record.

    A stream that was deleted is created again if ``create_stream`` says how, and the receipt reports it.

    **A stream that has lost messages**, because it was purged, or created again, or by its server, is noticed with
    every new connection, and every half minute of deliveries. A Gap stands in front of the next records. Messages that
    the stream's own limits may have removed are no loss.

    **With an election** and ``sole_writer``, ``open`` begins the leader's term with a notice, behind which the stream
    stores nothing of a former leader (``leading.take_over_stream``).

    With ``mode: core`` there is no stream: a record is stored when the server has read it (``CoreDelivery``).
    """

    def __init__(self, name: str, options: NatsOptions, *, cluster: str) -> None:
        self._name = name
        self._options = options
        events = options.events(cluster)
        super().__init__(events)
        self._encoder = NatsEncoder(options, cluster, events)
        self._stream = NatsStream(options, stream_subjects(options, cluster))
        self._connection: NatsConnection | None = None
        self._servers: list[str] = []
        self._duplicates = LostDuplicates()
        self._known: KnownStream | None = None
        self.known_bucket: KnownBucket | None = None
        """The bucket of a sink with state."""
        self.has_begun = False
        """The sink had a memory when it was opened."""
        self._found: StreamDescription | None = None
        """The stream after a loss that no Gap has named yet."""
        self._loss = ""
        self._last: int | None = None
        """The number of the last message in the stream; None if unknown."""
        self._context = SinkContext()
        self._in_doubt = 0
        """The number of the last message that may be a later leader's. The Lease is confirmed before the next attempt:
        then its leader counts, whatever that message is."""
        self._look_at = float("inf")
        """When to look at the stream again, on the monotonic clock."""
        self._memory = NatsMemory()
        """As the bridge has it."""

    async def open(self, context: SinkContext) -> None:
        self._context = context
        self._in_doubt = context.in_doubt
        self._restore(context.memory)
        await self._connected()

    def _restore(self, saved: bytes) -> None:
        found = NatsMemory.read(saved)
        self.remember_gap(saved if found is None else found.gap.encode())
        self._known = None if found is None else found.stream
        self.known_bucket = None if found is None else found.bucket
        self.has_begun = bool(saved)
        self._memory = self._present_memory

    @property
    def _present_memory(self) -> NatsMemory:
        return NatsMemory(self.newest_gap.decode(), self._known, self.known_bucket)

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        return self._remembered(await self._deliver(batch))

    def _remembered(self, receipt: Receipt) -> Receipt:
        """The receipt, with the memory if that has changed."""
        if (memory := self._present_memory) == self._memory:
            return receipt
        self._memory = memory
        return replace(receipt, memory=memory.written())

    async def _deliver(self, batch: Sequence[Record]) -> Receipt:
        try:
            connection = await self._connected()
            if monotonic() >= self._look_at or (self._options.fences and self._last is None):
                await self._look(connection)
        except SinkUnavailable as error:
            return Receipt(pending=range(len(batch)), failure=error.retry_later())
        lost = ""
        if self._found is not None:
            lost = f"stream {self._stream.name} {self._loss}"
            receipt = await self._send(connection, [gap_before(batch, lost, None)])
            if receipt.pending:
                return replace(receipt, pending=range(len(batch)))
            self._see(self._found)
        receipt = await self._send(connection, batch)
        if self._stream.created:
            return await self._deliver_again(batch, receipt, lost)
        return replace(receipt, lost=lost) if lost else receipt

    async def _deliver_again(self, batch: Sequence[Record], receipt: Receipt, lost: str) -> Receipt:
        """After the stream was created: a Gap has to be in front of the records that were not stored any more."""
        self._stream.created, self._look_at = False, 0.0
        if receipt.pending and not lost:
            rest = await self._deliver([batch[index] for index in receipt.pending])
            receipt, lost = receipt.followed_by(rest), rest.lost
        return replace(receipt, created=f"stream {self._stream.name}", lost=lost)

    async def check(self) -> str:
        connection = await self._new_connection()
        try:
            if self._options.mode is DeliveryMode.CORE:
                return f"{connection.server}, without a stream"
            return await self._stream.look(connection)
        finally:
            await connection.close()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _send(self, connection: NatsConnection, batch: Sequence[Record]) -> Receipt:
        result = BatchResult(batch)
        messages = self._encode(result, connection.max_payload)
        if self._options.mode is DeliveryMode.CORE:
            timeout = self._options.ack_timeout
            core = CoreDelivery(connection, messages, result, timeout=timeout, may_send=self._context.may_send)
            receipt = await core.run()
            self.note_gap(batch, receipt)
            return receipt
        last, self._last = self._last, None  # Unknown if this is cancelled.
        if self._options.sole_writer and last is None:
            raise ValueError("the number of the stream's last message is unknown")
        delivery = NatsDelivery(
            connection,
            self._stream,
            self._duplicates,
            messages,
            result,
            last if self._options.sole_writer else None,
            fences=self._fences,
            may_send=self._context.may_send,
        )
        receipt = await delivery.run()
        self.note_gap(batch, receipt)
        self._last = delivery.last
        if receipt.failure is not None:
            self._look_at = 0.0  # The stream may be gone, and another one there next time.
        if self._known is not None and (last := delivery.last_stored):
            if last < self._known.last:
                self._look_at = 0.0  # The numbers of a stream ascend: it is another stream, or has lost messages.
            else:
                self._known = replace_fields(self._known, last=last, at=time.time())
        return receipt

    async def _look(self, connection: NatsConnection) -> None:
        """Compares the stream with what the sink knows of it. With an election, takes it over: raises SinkUnavailable
        if that fails."""
        self._look_at = monotonic() + LOOK_INTERVAL
        known, self._last = self._last, None
        try:
            found = await self._stream.describe(connection)
        except SinkUnavailable:
            if not self._fences and (known is not None or not self._options.sole_writer):
                self._last = known
                return  # The delivery fails too, if it matters.
            await self._stream.find(connection, self._options.create_stream)
            found = await self._stream.describe(connection)
        last = found.state.last_seq
        self._loss = loss_of(self._known, found, time.time()) if self._known is not None else ""
        if self._loss:
            self._found = found
        else:
            self._see(found)
        term = self._context.term
        if term is not None and self._options.fences and (self._loss or last != known):
            last = await self._take_over(connection, term, last)
        self._last = last

    @property
    def _fences(self) -> bool:
        return self._context.term is not None and self._options.fences

    async def _take_over(self, connection: NatsConnection, term: TermBegan, last: int) -> int:
        """See ``leading.take_over_stream``."""
        try:
            return await take_over_stream(self._stream, connection, self._encoder, term, last, self._in_doubt)
        except StreamInDoubt as doubt:
            self._in_doubt = doubt.in_doubt
            raise

    def _see(self, stream: StreamDescription) -> None:
        known, state = self._known, stream.state
        same = known is not None and known.created == stream.created and known.last == state.last_seq
        at = known.at if known is not None and same else time.time()
        self._known, self._found = KnownStream(stream.created, state.first_seq, state.last_seq, at), None

    def _encode(self, result: BatchResult, max_payload: int) -> dict[int, NatsMessage]:
        room = ROOM_FOR_SEQUENCE if self._options.fences else 0

        def encode(record: Record) -> NatsMessage:
            return self._encoder.encode(record).within(max_payload, room)

        return result.encode(encode)

    async def _connected(self) -> NatsConnection:
        """Raises SinkUnavailable."""
        if self._connection is None or self._connection.closed:
            await self.close()
            connection = await self._new_connection()
            try:
                if self._options.mode is DeliveryMode.JETSTREAM:
                    await self._stream.find(connection, self._options.create_stream)
                    self._look_at, self._last = 0.0, None
                    if self._fences:
                        await self._look(connection)
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
            self._servers = connection.servers
        return self._connection

    async def _new_connection(self) -> NatsConnection:
        return await NatsConnection.connect(self._options, self._name, self._servers)
