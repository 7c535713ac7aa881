"""Abuse protection: an endpoint agrees before the first delivery, or gets none."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from sinks.base import ALL_STORED, SinkContext, SinkUnavailable
from sinks.webhook.options import WebhookOptions
from sinks.webhook.sink import WebhookSink
from tests.kit.records import a_delta, changes
from tests.kit.sinks import deliver_once, failure_of
from tests.kit.token_server import TokenServer
from tests.kit.webhook_receiver import Answer, Posted, WebhookReceiver

ORIGIN = "kubedelta.example.com"


def a_sink(receiver: WebhookReceiver, **options: Any) -> WebhookSink:
    parsed = WebhookOptions.model_validate({"url": receiver.url, "request_origin": ORIGIN, **options})
    return WebhookSink("hook", parsed, cluster="prod")


def granted(origin: str = ORIGIN, **more: str) -> Answer:
    return Answer(200, {"Allow": "POST", "WebHook-Allowed-Origin": origin, **more})


@pytest.mark.parametrize("origin", [ORIGIN, ORIGIN.upper(), "*"])
async def test_the_endpoint_is_asked_once_before_the_first_delivery(receiver: WebhookReceiver, origin: str) -> None:
    receiver.permission = lambda posted: granted(origin, **{"WebHook-Allowed-Rate": "*"})
    sink = a_sink(receiver, concurrency=4)
    await sink.open(SinkContext())
    assert receiver.asked == [], "an open sink with no records bothers nobody"
    lanes = [changes(3, keys=1, first=1 + 3 * lane) for lane in range(4)]
    assert await asyncio.gather(*map(sink.deliver, lanes)) == [ALL_STORED] * 4
    await sink.close()

    first, *rest = receiver.asked
    assert (first.method, first.headers["webhook-request-origin"], first.body) == ("OPTIONS", ORIGIN, b"")
    assert "webhook-request-rate" not in first.headers
    assert "webhook-request-callback" not in first.headers
    assert [each.method for each in rest] == ["POST"] * 12
    assert {each.headers["webhook-request-origin"] for each in rest} == {ORIGIN}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(405), "it answers 405 to OPTIONS without WebHook-Allowed-Origin; permission by callback is not supp"),
        (Answer(200, {"Allow": "POST"}), "it answers 200 to OPTIONS without WebHook-Allowed-Origin"),
        (granted("other.example.com"), "it answers 200 to OPTIONS for another origin only"),
        (granted(f"x{ORIGIN}"), "it answers 200 to OPTIONS for another origin only"),
        (granted(**{"WebHook-Allowed-Rate": "0"}), "a WebHook-Allowed-Rate that is no number of requests per minute"),
        (granted(**{"WebHook-Allowed-Rate": "1e9"}), "a WebHook-Allowed-Rate that is no number of requests per minute"),
        (granted(**{"WebHook-Allowed-Rate": "9" * 5000}), "a WebHook-Allowed-Rate that is no number of requests per"),
    ],
)
async def test_without_permission_nothing_is_sent(receiver: WebhookReceiver, answer: Answer, reason: str) -> None:
    receiver.permission = lambda posted: answer
    sink = a_sink(receiver)
    await sink.open(SinkContext())
    receipt = await sink.deliver(changes(3))
    assert list(receipt.pending) == [0, 1, 2]
    assert not receipt.rejected
    assert receipt.failure is not None
    assert receipt.failure.unavailable
    assert reason in failure_of(receipt)
    assert "request_origin" in failure_of(receipt)
    assert {each.method for each in receiver.asked} == {"OPTIONS"}

    receiver.permission = lambda posted: granted()
    assert await sink.deliver(changes(3)) == ALL_STORED, "it is asked again"
    await sink.close()


async def test_the_allowed_rate_is_kept(receiver: WebhookReceiver) -> None:
    receiver.permission = lambda posted: granted(**{"WebHook-Allowed-Rate": "1200"})
    arrived: list[float] = []

    def answer(posted: Posted) -> Answer:
        arrived.append(time.monotonic())
        return Answer()

    receiver.answer = answer
    began = time.monotonic()
    assert await deliver_once(a_sink(receiver, rate={"requests": 100_000, "burst": 1}), changes(6)) == ALL_STORED

    assert receiver.asked[0].headers["webhook-request-rate"] == str(100_000 * 60)
    assert arrived[-1] - began >= 5 * 0.05 - 0.01


@pytest.mark.parametrize(("rate", "asked"), [({"requests": 2, "per": "1m"}, "2"), ({"requests": 1, "per": "1h"}, "1")])
async def test_the_own_rate_is_asked_for(receiver: WebhookReceiver, rate: dict[str, Any], asked: str) -> None:
    receiver.permission = lambda posted: granted(**{"WebHook-Allowed-Rate": "100"})
    assert await deliver_once(a_sink(receiver, rate=rate), [a_delta()]) == ALL_STORED

    assert receiver.asked[0].headers["webhook-request-rate"] == asked


async def test_check_asks_for_permission(receiver: WebhookReceiver) -> None:
    with pytest.raises(SinkUnavailable, match=r"does not agree to deliveries \(request_origin\)"):
        await a_sink(receiver).check()
    receiver.permission = lambda posted: granted()
    assert await a_sink(receiver).check() == f"{receiver.url.removesuffix('/hook')} agrees to deliveries from {ORIGIN}"


async def test_an_expired_token_does_not_block_the_permission(receiver: WebhookReceiver, tmp_path: Path) -> None:
    (tmp_path / "client").write_text("hush")
    async with TokenServer() as tokens:

        def permission(posted: Posted) -> Answer:
            return granted() if tokens.accepts(posted.headers["authorization"]) else Answer(401)

        receiver.permission = permission
        sink = a_sink(receiver, oauth2=tokens.options(client_secret_file=tmp_path / "client"))
        await sink.open(SinkContext())
        receiver.permission = lambda posted: Answer(401)
        refused = await sink.deliver([a_delta()])
        receiver.permission = permission
        assert await sink.deliver([a_delta()]) == ALL_STORED
        await sink.close()

    assert "answers 401 to OPTIONS" in failure_of(refused)
    assert len(tokens.given) == 2
