"""Posts records to an endpoint: those about one object one after another, those about different objects at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from bridge.model.record import Record
from sinks.base import Receipt, RetryLater, SinkUnavailable
from sinks.webhook.answers import Closed, Failed, Refused, Stored
from sinks.webhook.encode import Message, MessageEncoder, batch_of
from sinks.webhook.endpoint import Endpoint
from sinks.webhook.options import WebhookOptions

Letters = deque[tuple[int, Message]]
"""Messages and their places in the batch, to be posted in this order."""


_ENOUGH = 4
"""Failures in a row, at least, after which an endpoint that fails for some records counts as failing for all."""


class WebhookSink:
    """A record is stored when the endpoint answered 2xx. The endpoint may get a record twice, when an answer was lost:
    its ``id`` (and ``webhook-id``) is the same then.

    A record that fails holds up only later ones about the same object, in this batch. When the endpoint takes nothing
    (it cannot be reached, it refuses the credentials, it is busy), or when as many requests failed in a row as may be
    under way at once, no further ones are begun.
    """

    def __init__(self, name: str, options: WebhookOptions, *, cluster: str) -> None:
        self._options = options
        self._encoder = MessageEncoder(options.events(cluster), options.format)
        self._endpoint = Endpoint(options)

    async def open(self) -> None:
        await self._endpoint.open()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        try:
            await self._endpoint.open()
        except SinkUnavailable as error:
            return Receipt(pending=range(len(batch)), trouble=RetryLater(str(error)))
        messages, rejected = self._encode(batch)
        round_ = _Round(self._endpoint, self._options, rejected)
        await round_.post(self._lanes(batch, messages))
        return round_.receipt(messages)

    async def check(self) -> str:
        try:
            return await self._endpoint.ask()
        finally:
            await self._endpoint.close()

    async def close(self) -> None:
        await self._endpoint.close()

    def _encode(self, batch: Sequence[Record]) -> tuple[dict[int, Message], dict[int, str]]:
        messages, rejected = {}, {}
        for place, record in enumerate(batch):
            try:
                messages[place] = self._encoder.single(record)
            except ValueError as error:
                rejected[place] = str(error)
        return messages, rejected

    def _lanes(self, batch: Sequence[Record], messages: dict[int, Message]) -> list[Letters]:
        """A lane for each object; where requests hold several events, as many lanes as there may be requests, so that
        they fill up."""
        lanes: dict[object, Letters] = {}
        for place, message in messages.items():
            key: object = batch[place].ordering_key
            if self._options.batch > 1:
                key = hash(key) % self._options.concurrency
            lanes.setdefault(key, deque()).append((place, message))
        return list(lanes.values())


class _Round:
    """One ``deliver``: what became of each record so far."""

    def __init__(self, endpoint: Endpoint, options: WebhookOptions, rejected: dict[int, str]) -> None:
        self._endpoint = endpoint
        self._options = options
        self._rejected = rejected
        self._stored: set[int] = set()
        self._troubles: list[RetryLater] = []
        self._failed_in_a_row = 0
        self._enough = max(_ENOUGH, options.concurrency)
        self._stopped = False

    async def post(self, lanes: list[Letters]) -> None:
        waiting = iter(lanes)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._options.concurrency, len(lanes))):
                group.create_task(self._work(waiting))

    def receipt(self, messages: Iterable[int]) -> Receipt:
        pending = [place for place in messages if place not in self._stored and place not in self._rejected]
        if not pending:
            return Receipt(rejected=self._rejected)
        after = max((trouble.after for trouble in self._troubles if trouble.after is not None), default=None)
        return Receipt(pending, RetryLater(self._troubles[0].reason, after), self._rejected)

    async def _work(self, lanes: Iterable[Letters]) -> None:
        for lane in lanes:
            await self._empty(lane)

    async def _empty(self, lane: Letters) -> None:
        """Post what is in the lane, until something fails."""
        while lane and not self._stopped:
            letters = list(islice(lane, self._options.batch))
            if not await self._post(letters):
                return
            for _ in letters:
                lane.popleft()

    async def _post(self, letters: list[tuple[int, Message]]) -> bool:
        """Whether all of these are settled, so that later ones may follow."""
        places = [place for place, _ in letters]
        one = letters[0][1] if self._options.batch == 1 else batch_of([message for _, message in letters])
        match await self._endpoint.post(one):
            case Stored():
                self._stored.update(places)
                self._failed_in_a_row = 0
                return True
            case Refused() if len(letters) > 1:
                # Which of them it does not take is found out one by one.
                for letter in letters:
                    if self._stopped or not await self._post([letter]):
                        return False
                return True
            case Refused(reason):
                self._rejected.update(dict.fromkeys(places, reason))
                self._failed_in_a_row = 0
                return True
            case Failed(trouble):
                self._troubles.append(trouble)
                self._failed_in_a_row += 1
                self._stopped = self._stopped or self._failed_in_a_row >= self._enough
            case Closed(trouble):
                self._troubles.append(trouble)
                self._stopped = True
        return False
