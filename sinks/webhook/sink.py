"""Posts records to an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridge.model.record import Record
from sinks.base import always
from sinks.errors import SinkUnavailable
from sinks.gaps import NamesGaps
from sinks.receipt import BatchResult, Receipt, RetryLater
from sinks.webhook.connection import WebhookConnection
from sinks.webhook.delivery import WebhookDelivery
from sinks.webhook.encode import WebhookEncoder
from sinks.webhook.options import WebhookOptions


class WebhookSink(NamesGaps):
    """A record is stored when the endpoint answered 2xx. When an answer is lost, the endpoint gets the record twice,
    with the same ``id`` and ``webhook-id``. The type asks for lanes: several ``deliver`` share the connection."""

    def __init__(self, name: str, options: WebhookOptions, *, cluster: str) -> None:
        self._options = options
        events = options.events(cluster)
        super().__init__(events)
        self._encoder = WebhookEncoder(events, options)
        self.may_send: Callable[[], bool] = always
        self._connection = WebhookConnection(options, lambda: self.may_send())

    async def open(self) -> None:
        await self._connection.open()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        try:
            await self._connection.open()
        except SinkUnavailable as error:
            return Receipt(pending=range(len(batch)), failure=RetryLater(str(error), unavailable=True))
        result = BatchResult(batch)
        encoded = result.encode(self._encoder.encode)
        messages = {index: message for index, message in encoded.items() if message is not None}
        delivery = WebhookDelivery(
            self._connection,
            messages,
            result,
            max_events=self._options.batch,
            compresses_above=self._options.compresses_above,
            term=batch[0].term,
        )
        return self.note_gaps(batch, await delivery.run())

    async def check(self) -> str:
        try:
            return await self._connection.ping()
        finally:
            await self._connection.close()

    async def close(self) -> None:
        await self._connection.close()
