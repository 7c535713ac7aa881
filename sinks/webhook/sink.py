"""The webhook sink: it posts the records of a batch to the endpoint, request after request, and makes a receipt of the
responses.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, groupby

from bridge.model.record import Record
from sinks.base import SinkContext, always
from sinks.excerpt import READ, Secrets, excerpt
from sinks.gaps import NamesGaps
from sinks.keys import signature
from sinks.receipt import BatchResult, Receipt, RetryLater, SinkUnavailable
from sinks.webhook.client import HttpResponse
from sinks.webhook.connection import WebhookConnection
from sinks.webhook.encode import WebhookEncoder, WebhookMessage, batch_of, compressed
from sinks.webhook.options import WebhookOptions
from sinks.webhook.responses import UNAUTHORIZED, PostAccepted, PostFailed, PostRejected, PostResult, result_of

_NO_WITNESS = "it has accepted no other event since, so the connection or an option may be at fault: see url, cert_file"
_PRECONDITION_FAILED = 412
_UNSUPPORTED = 415
TERM_HEADER = "kubedelta-term"
_LONG = 256 * 1024
"""Bytes of a body that is compressed in a thread, so that the event loop goes on."""


class WebhookDelivery:
    """Sends request after request, with up to ``batch`` messages each, until a request fails. A request with
    several messages that is rejected is sent again as requests with a single message, so that only the culprits are
    rejected. A message whose refusal is no verdict yet waits, with those of its object behind it: until another one is
    accepted, in this ``deliver`` or in others."""

    def __init__(
        self,
        connection: WebhookConnection,
        messages: Mapping[int, WebhookMessage],
        result: BatchResult,
        options: WebhookOptions,
        term: int,
    ) -> None:
        """``messages``: by index in the batch of ``result``. ``term``: of the leader of an election; 0 without one."""
        self._connection = connection
        self._messages = messages
        self._result = result
        self._options = options
        self._expect = (options.expect or "").encode()
        self._term = term

    async def run(self) -> Receipt:
        result, refusals = self._result, self._connection.refusals
        size, most = self._options.batch, self._options.compresses_above
        requests = deque(self._requests())
        waiting: list[int] = []
        failure: RetryLater | None = None
        while requests:
            indexes = result.sendable(requests.popleft())
            if waiting:
                indexes = self._before(waiting, indexes)
            if not indexes:
                continue
            messages = [self._messages[index] for index in indexes]
            message = messages[0] if size == 1 else batch_of(messages, self._options)
            if most is not None and len(message.body) > most:
                message = await _compressed(message)
            match await self._post(message):
                case PostAccepted():
                    refusals.accepted([each.id for each in messages])
                    # In front: later messages of their objects follow them.
                    requests.extendleft([index] for index in reversed(waiting))
                    waiting.clear()
                case PostRejected() if len(indexes) > 1:
                    # Which event is at fault is unknown, so each is sent alone.
                    requests.extendleft([index] for index in reversed(indexes))
                case PostRejected(reason, certain, answer) if certain or refusals.is_verdict(messages[0].id):
                    result.reject(indexes[0], reason, answer)
                case PostRejected(reason):
                    failure = RetryLater(f"{self._connection.name} {reason}; {_NO_WITNESS}")
                    waiting.append(indexes[0])
                case PostFailed(failure):
                    return result.receipt(result.sendable(sorted([*waiting, *indexes, *chain(*requests)])), failure)
        return result.receipt(result.sendable(waiting), failure)

    def _before(self, waiting: list[int], indexes: Sequence[int]) -> list[int]:
        """The indexes of messages that are not behind a waiting one of their object; the others wait, too."""
        batch = self._result.batch
        objects = {batch[index].ordering_key for index in waiting}
        waiting += [index for index in indexes if batch[index].ordering_key in objects]
        return [index for index in indexes if batch[index].ordering_key not in objects]

    def _requests(self) -> Iterator[list[int]]:
        """The indexes of each request: consecutive messages of the same route."""
        for _, run in groupby(self._messages, key=lambda index: self._messages[index].route):
            indexes, size = list(run), self._options.batch
            yield from (indexes[at : at + size] for at in range(0, len(indexes), size))

    async def _post(self, message: WebhookMessage) -> PostResult:
        connection = self._connection
        try:
            headers, response = await self._send(message)
            if response.status == UNAUTHORIZED and connection.reject_token(headers):
                headers, response = await self._send(message)
        except SinkUnavailable as error:
            return PostFailed(error.retry_later())
        if reason := connection.wants_https(response):
            return PostFailed(RetryLater(reason, unavailable=True))
        if self._term and response.status == _PRECONDITION_FAILED:
            reason = f"{connection.name} answers 412: it knows a leader of a later term than {self._term}"
            return PostFailed(RetryLater(reason, unavailable=True, doubted=True))
        result = result_of(response.status, response.retry_after, datetime.now(UTC))
        if isinstance(result, PostAccepted) and self._expect not in response.body:
            result = self._refusal(response)
        match result:
            case PostRejected() if response.status == _UNSUPPORTED and "content-encoding" in headers:
                # Perhaps the endpoint takes the event uncompressed, so the event is not at fault.
                reason = f"{connection.name} answers 415: it may not take compressed bodies; see compression"
                return PostFailed(RetryLater(reason, unavailable=True))
            case PostRejected() as rejected:
                secrets = Secrets(connection.secrets(headers, message.route.target))
                charset, encoding = response.charset, response.encoding
                answer = excerpt(response.body, secrets, complete=response.complete, charset=charset, encoding=encoding)
                return replace(rejected, answer=answer)
            case PostFailed(failure):
                return PostFailed(replace(failure, reason=f"{connection.name} {failure.reason}"))
            case accepted:
                return accepted

    def _refusal(self, response: HttpResponse) -> PostResult:
        """By an answer 2xx without what ``expect`` says."""
        if any(text.encode() in response.body for text in self._options.retry_if or ()):
            return PostFailed(RetryLater(f"answers {response.status} with what retry_if says"))
        return PostRejected(f"answers {response.status} without what expect says", certain=False)

    async def _send(self, message: WebhookMessage) -> tuple[dict[str, str], HttpResponse]:
        """Returns the headers that were sent, and the response."""
        connection = self._connection
        headers = connection.headers | message.headers
        if self._term:
            headers[TERM_HEADER] = str(self._term)
        if connection.prepares:
            headers |= await connection.prepare()
        if connection.keys:
            # A new timestamp for every attempt: receivers refuse old timestamps, to prevent replays.
            now = int(time.time())
            headers["webhook-id"] = message.id
            headers["webhook-timestamp"] = str(now)
            headers["webhook-signature"] = signature(connection.keys, message.id, now, message.body)
        if self._expect:
            headers["accept-encoding"] = "identity"
        keep = READ if self._expect else 0
        return headers, await connection.request("POST", headers, message.body, keep=keep, target=message.route.target)


async def _compressed(message: WebhookMessage) -> WebhookMessage:
    if len(message.body) > _LONG:
        return await asyncio.to_thread(compressed, message)
    return compressed(message)


class WebhookSink(NamesGaps):
    """A record is stored when the endpoint answered 2xx. When an answer is lost, the endpoint gets the record twice,
    with the same ``id`` and ``webhook-id``. The type asks for lanes: several ``deliver`` share the connection."""

    def __init__(self, name: str, options: WebhookOptions, *, cluster: str) -> None:
        self._options = options
        events = options.events(cluster)
        super().__init__(events)
        self._encoder = WebhookEncoder(events, options)
        self._connection: WebhookConnection | None = None

    async def open(self, context: SinkContext) -> None:
        self.remember_gap(context.memory)
        self._connection = WebhookConnection(self._options, context.may_send)
        await self._connection.open()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        connection = self._connection
        if connection is None:
            raise RuntimeError("deliver() before open()")
        try:
            await connection.open()
        except SinkUnavailable as error:
            return Receipt(pending=range(len(batch)), failure=error.retry_later())
        result = BatchResult(batch)
        encoded = result.encode(self._encoder.encode)
        messages = {index: message for index, message in encoded.items() if message is not None}
        delivery = WebhookDelivery(connection, messages, result, self._options, batch[0].term)
        return self.remembered(batch, await delivery.run())

    async def check(self) -> str:
        connection = WebhookConnection(self._options, always)
        try:
            return await connection.ping()
        finally:
            await connection.close()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
