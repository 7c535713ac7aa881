"""A replica whose time at the head may be over: no request begins, whatever it waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sinks.base import ALL_STORED, WITHHELD, Receipt, SinkContext
from sinks.webhook.options import WebhookOptions
from sinks.webhook.sink import WebhookSink
from tests.kit.records import changes
from tests.kit.sinks import opened_sink
from tests.kit.token_server import TokenServer
from tests.kit.webhook_receiver import ACCEPTED, Answer, Posted, WebhookReceiver


class Term:
    def __init__(self) -> None:
        self.lasts = True

    def may_send(self) -> bool:
        return self.lasts

    def ending_with(self, answer: Answer) -> Callable[[Posted], Answer]:
        """The deadline passes while a request is under way."""

        def respond(_posted: Posted) -> Answer:
            self.lasts = False
            return answer

        return respond


@pytest.fixture
def term() -> Term:
    return Term()


@asynccontextmanager
async def leading(receiver: WebhookReceiver, term: Term, **options: Any) -> AsyncIterator[WebhookSink]:
    chosen = WebhookOptions.model_validate({"url": receiver.url, "timeout": 10, **options})
    sink = WebhookSink("hook", chosen, cluster="prod")
    async with opened_sink(sink, SinkContext(may_send=term.may_send)):
        yield sink


@pytest.mark.parametrize(
    ("options", "answer", "pending"),
    [
        ({}, ACCEPTED, [1, 2]),
        ({"rate": {"requests": 10}}, ACCEPTED, [1, 2]),
        ({"batch": 3}, Answer(400), [0, 1, 2]),
        ({"batch": 2}, ACCEPTED, [2]),
    ],
    ids=["record by record", "at a rate", "a rejected batch", "batches"],
)
async def test_no_further_request_begins(
    receiver: WebhookReceiver, term: Term, options: dict[str, Any], answer: Answer, pending: list[int]
) -> None:
    receiver.answer = term.ending_with(answer)
    async with leading(receiver, term, **options) as sink:
        receipt = await sink.deliver(changes(3))

    assert receipt == Receipt(pending, WITHHELD)
    assert len(receiver.asked) == 1


async def test_no_second_try_with_another_token(receiver: WebhookReceiver, term: Term, tmp_path: Path) -> None:
    secret = tmp_path / "client"
    secret.write_text("secret")
    receiver.answer = term.ending_with(Answer(401))
    async with TokenServer(secret="secret") as tokens:
        oauth2 = tokens.options(client_secret_file=secret)
        async with leading(receiver, term, oauth2=oauth2) as sink:
            receipt = await sink.deliver(changes(1))

    assert receipt == Receipt([0], WITHHELD)
    assert len(receiver.asked) == 1


async def test_a_request_that_waited_for_a_connection(receiver: WebhookReceiver, term: Term) -> None:
    go_on = asyncio.Event()
    receiver.answer = lambda _posted: Answer(wait=go_on)
    async with leading(receiver, term, concurrency=1) as sink, asyncio.TaskGroup() as tasks:
        under_way = tasks.create_task(sink.deliver(changes(1)))
        while not receiver.asked:  # noqa: ASYNC110 (the receiver has no events)
            await asyncio.sleep(0.001)
        waits = tasks.create_task(sink.deliver(changes(1, first=2)))
        await asyncio.sleep(0)
        term.lasts = False
        go_on.set()

    assert under_way.result() == ALL_STORED
    assert waits.result() == Receipt([0], WITHHELD)
    assert len(receiver.asked) == 1
