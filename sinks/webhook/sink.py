"""Posts records to an endpoint, one request at a time for each lane."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain

from bridge.model.record import Record
from sinks.base import NamesGaps, Receipt, RetryLater, SinkUnavailable, encode_each, not_following, receipt_of
from sinks.webhook.answers import Failed, Refused, Stored
from sinks.webhook.encode import Message, MessageEncoder, batch_of
from sinks.webhook.endpoint import Endpoint
from sinks.webhook.options import WebhookOptions


class WebhookSink(NamesGaps):
    """A record is stored when the endpoint answered 2xx. The endpoint may get a record twice, when an answer was lost:
    its ``id`` (and ``webhook-id``) is the same then.

    ``deliver`` sends one request after another, with up to ``batch`` events each, until one fails. A request with
    several events that is refused is sent again as requests with one each, so that only those at fault are rejected.
    """

    def __init__(self, name: str, options: WebhookOptions, *, cluster: str) -> None:
        self._options = options
        events = options.events(cluster)
        super().__init__(events)
        self._encoder = MessageEncoder(events, options.format)
        self._endpoint = Endpoint(options)

    async def open(self) -> None:
        await self._endpoint.open()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        return self.note_gaps(batch, await self._deliver(batch))

    async def _deliver(self, batch: Sequence[Record]) -> Receipt:
        try:
            await self._endpoint.open()
        except SinkUnavailable as error:
            return Receipt(pending=range(len(batch)), trouble=RetryLater(str(error), whole=True))
        messages, rejected = encode_each(batch, self._encoder.single)
        answers: dict[int, str] = {}
        requests = deque(self._requests(list(messages)))
        while requests:
            places = not_following(batch, requests.popleft(), rejected)
            if not places:
                continue
            match await self._endpoint.post(self._one([messages[place] for place in places])):
                case Stored():
                    pass
                case Refused() if len(places) > 1:
                    requests.extendleft([place] for place in reversed(places))
                case Refused(reason, answer):
                    rejected[places[0]], answers[places[0]] = reason, answer
                case Failed(trouble):
                    left = not_following(batch, [*places, *chain(*requests)], rejected)
                    return receipt_of(batch, pending=left, trouble=trouble, rejected=rejected, answers=answers)
        return receipt_of(batch, rejected=rejected, answers=answers)

    async def check(self) -> str:
        try:
            return await self._endpoint.ask()
        finally:
            await self._endpoint.close()

    async def close(self) -> None:
        await self._endpoint.close()

    def _requests(self, places: list[int]) -> list[list[int]]:
        size = self._options.batch
        return [places[start : start + size] for start in range(0, len(places), size)]

    def _one(self, messages: Sequence[Message]) -> Message:
        return messages[0] if self._options.batch == 1 else batch_of(messages)
