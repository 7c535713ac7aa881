"""Publishes batches to JetStream and waits until the stream has stored them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bridge.model.record import Record
from sinks.errors import SinkUnavailable
from sinks.gaps import NamesGaps
from sinks.nats.connection import NatsConnection
from sinks.nats.delivery import NatsDelivery
from sinks.nats.duplicates import Duplicates
from sinks.nats.encode import NatsEncoder, NatsMessage, stream_subjects
from sinks.nats.options import NatsOptions
from sinks.nats.stream import NatsStream
from sinks.receipt import BatchResult, Receipt, RetryLater


class NatsSink(NamesGaps):
    """A record is stored when the stream has acknowledged it, or knew its id already.

    With ``sole_writer`` each message of an exchange names its predecessor as the last message of the stream: when a
    message is lost, the stream stores no message behind it. Otherwise messages of an object wait for each other.

    The next ``deliver`` replaces a connection that broke, or that brought no answer for ``ack_timeout``. Messages in
    flight are sent again with the same ids, which the stream knows for its ``duplicate_window``. A duplicate whose
    message the stream has lost since (it was purged) is not stored: the sink sends it again, with an id that names the
    lost message. While duplicates are expected, at most one message of each object is in flight, so that no message
    overtakes a message that must be sent again.

    A stream that was deleted is created again if ``create_stream`` says how, and the receipt reports it.
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
        self._duplicates = Duplicates()

    async def open(self) -> None:
        await self._connected()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        receipt = self.note_gaps(batch, await self._deliver(batch))
        if not self._stream.created:
            return receipt
        self._stream.created = False
        return replace(receipt, created=f"stream {self._options.stream}")

    async def check(self) -> str:
        connection = await self._new_connection()
        try:
            return await self._stream.look(connection)
        finally:
            await connection.close()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _deliver(self, batch: Sequence[Record]) -> Receipt:
        try:
            connection = await self._connected()
        except SinkUnavailable as error:
            return Receipt(pending=range(len(batch)), failure=RetryLater(str(error), unavailable=True))
        result = BatchResult(batch)
        messages = self._encode(result, connection.max_payload)
        return await NatsDelivery(self._options, connection, self._stream, self._duplicates, messages, result).run()

    def _encode(self, result: BatchResult, max_payload: int) -> dict[int, NatsMessage]:
        def encode(record: Record) -> NatsMessage:
            message = self._encoder.encode(record)
            if message.size > max_payload:
                # The server would close the connection because of it, each time it is sent.
                raise ValueError(message.too_large(max_payload))
            return message

        return result.encode(encode)

    async def _connected(self) -> NatsConnection:
        """Raises SinkUnavailable."""
        if self._connection is None or self._connection.closed:
            await self.close()
            connection = await self._new_connection()
            try:
                await self._stream.find(connection, self._options.create_stream)
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
            self._servers = connection.servers
        return self._connection

    async def _new_connection(self) -> NatsConnection:
        return await NatsConnection.connect(self._options, self._name, self._servers)
