"""Tokens for requests, from a real token endpoint that may be slow, broken or hostile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sinks import registry
from sinks.base import ALL_STORED, SinkContext, SinkUnavailable
from sinks.webhook.options import WebhookOptions
from sinks.webhook.sink import WebhookSink
from tests.kit.records import a_delta, changes
from tests.kit.sinks import deliver_once, failure_of
from tests.kit.token_server import TokenServer
from tests.kit.webhook_receiver import ACCEPTED, Answer, Posted, WebhookReceiver
from tests.sinks.webhook.test_sink import answered_by, dripping

SECRET = "s3cr/t+hüsh"


@pytest.fixture
async def tokens() -> AsyncIterator[TokenServer]:
    async with TokenServer(secret=SECRET) as server:
        yield server


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "client"
    file.write_text(f"{SECRET}\n")
    return file


def a_sink(receiver: WebhookReceiver, oauth2: dict[str, Any], **options: Any) -> WebhookSink:
    parsed = WebhookOptions.model_validate({"url": receiver.url, "oauth2": oauth2, "timeout": 10, **options})
    return WebhookSink("hook", parsed, cluster="prod")


def only_newest_token(tokens: TokenServer) -> Any:
    def answer(posted: Posted) -> Answer:
        return ACCEPTED if tokens.accepts(posted.headers.get("authorization", "")) else Answer(401)

    return answer


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_requests_carry_a_token(
    receiver: WebhookReceiver, tokens: TokenServer, secret: Path, method: str
) -> None:
    more = {"scopes": ["a.read", "b"], "endpoint_params": {"audience": "hook&more"}, "client_auth": method}
    tokens.client_id = "me & co"
    sink = a_sink(receiver, tokens.options(client_secret_file=secret, **more), concurrency=4)
    receiver.answer = only_newest_token(tokens)
    await sink.open(SinkContext())
    async with asyncio.TaskGroup() as group:
        deliveries = [group.create_task(sink.deliver([a_delta(n, key=f"shop/web-{n}")])) for n in range(1, 21)]
    await sink.close()

    assert [each.result() for each in deliveries] == [ALL_STORED] * 20
    assert tokens.given == ["token-1"]
    [form] = tokens.forms
    assert form["scope"] == ["a.read b"]
    assert form["audience"] == ["hook&more"]
    assert ("client_secret" in form) == (method == "client_secret_post")


async def test_a_401_renews_the_token_once(receiver: WebhookReceiver, tokens: TokenServer, secret: Path) -> None:
    sink = a_sink(receiver, tokens.options(client_secret_file=secret))
    receiver.answer = only_newest_token(tokens)
    await sink.open(SinkContext())
    assert await sink.deliver([a_delta(1)]) == ALL_STORED
    tokens.given.append("revoked the first")
    assert await sink.deliver([a_delta(2)]) == ALL_STORED
    assert len(receiver.asked) == 3

    receiver.answer = lambda posted: Answer(401)
    receipt = await sink.deliver([a_delta(3)])
    await sink.close()

    assert len(receiver.asked) == 5, "the request, and once more with another token"
    assert len(tokens.forms) == 3
    assert receipt.failure is not None
    assert receipt.failure.unavailable
    assert "answers 401: it wants credentials" in receipt.failure.reason
    assert not receipt.rejected


async def test_a_renewed_secret_is_used(receiver: WebhookReceiver, tokens: TokenServer, secret: Path) -> None:
    tokens.secret = "renewed"
    sink = a_sink(receiver, tokens.options(client_secret_file=secret))
    await sink.open(SinkContext())
    refused = await sink.deliver([a_delta()])
    secret.write_text("renewed")  # noqa: ASYNC240
    assert await sink.deliver([a_delta()]) == ALL_STORED
    secret.unlink()  # noqa: ASYNC240
    receiver.answer = lambda posted: Answer(401)
    gone = await sink.deliver([a_delta()])
    await sink.close()

    name = tokens.url.removesuffix("/token")
    hint = "see oauth2.client_id and oauth2.client_secret_file"
    assert failure_of(refused) == f"oauth2.token_url: {name} answers 401 (invalid_client): {hint}"
    assert failure_of(gone).startswith("oauth2.client_secret_file: cannot read the secret file")


async def test_without_a_token_records_are_pending_and_not_sent(
    receiver: WebhookReceiver, tokens: TokenServer, secret: Path
) -> None:
    sink = a_sink(receiver, tokens.options(client_secret_file=secret))
    await sink.open(SinkContext())
    await tokens.stop()
    receipt = await sink.deliver(changes(5))
    assert list(receipt.pending) == [0, 1, 2, 3, 4]
    assert not receipt.rejected
    assert receipt.failure is not None
    assert receipt.failure.unavailable
    assert failure_of(receipt).startswith("oauth2.token_url: http://127.0.0.1:")
    assert "cannot be reached" in failure_of(receipt)
    assert receiver.asked == []

    await tokens.start()
    assert await sink.deliver(changes(5)) == ALL_STORED
    await sink.close()


async def test_a_busy_token_endpoint_says_how_long_to_wait(
    receiver: WebhookReceiver, tokens: TokenServer, secret: Path
) -> None:
    tokens.instead = lambda: web.Response(status=503, headers={"Retry-After": "17"})
    receipt = await deliver_once(a_sink(receiver, tokens.options(client_secret_file=secret)), [a_delta()])

    assert receipt.failure is not None
    assert receipt.failure.after == 17.0


def echo(**members: Any) -> web.Response:
    return web.json_response({"access_token": f"{SECRET} in an answer", "token_type": "Bearer", **members})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda: web.Response(text=SECRET), "answers without an access token as JSON"),
        (lambda: web.Response(text="[" * 50_000), "answers without an access token as JSON"),
        (lambda: web.Response(body=b'{"access_token": "\xff", "token_type": "bearer"}'), "without an access token"),
        (lambda: web.json_response({"access_token": 5, "token_type": "bearer"}), "without an access token"),
        (lambda: web.json_response({"token_type": "bearer"}), "without an access token"),
        (lambda: echo(), "answers with a token that no header can hold"),
        (lambda: echo(access_token="a\r\nX-Injected: 1"), "answers with a token that no header can hold"),
        (lambda: echo(access_token="x" * 20_000), "answers with a token that no header can hold"),
        (lambda: echo(access_token="ok", token_type="mac"), "answers with a token of another type than Bearer"),
        (lambda: echo(access_token="ok", expires_in=0), "answers with a token that has ended already"),
        (lambda: echo(access_token="ok", expires_in="nan"), "answers with a token that has ended already"),
        (lambda: echo(access_token="ok", expires_in="soon"), "without an access token"),
        (lambda: echo(access_token="x" * 70_000), "answers with more than 64 KiB"),
        (lambda: web.Response(status=302, headers={"Location": "http://169.254.169.254/"}), "it redirects, which is"),
        (lambda: web.json_response({"error": "invalid_scope"}, status=400), r"answers 400 \(invalid_scope\): see oau"),
        (lambda: web.json_response({"error": SECRET}, status=400), r"answers 400$"),
        (lambda: web.Response(status=500, text=SECRET), r"answers 500$"),
    ],
)
async def test_an_answer_without_a_usable_token_is_a_failure(
    receiver: WebhookReceiver, tokens: TokenServer, secret: Path, answer: Any, reason: str
) -> None:
    tokens.instead = answer
    sink = a_sink(receiver, tokens.options(client_secret_file=secret))
    await sink.open(SinkContext())
    receipt = await sink.deliver([a_delta()])
    await sink.close()
    with pytest.raises(SinkUnavailable, match=reason):
        await sink.check()

    assert list(receipt.pending) == [0]
    assert receipt.failure is not None
    assert receipt.failure.unavailable
    assert failure_of(receipt).startswith(f"oauth2.token_url: {tokens.url.removesuffix('/token')} ")
    assert SECRET not in failure_of(receipt)
    assert receiver.asked == []


@pytest.mark.parametrize(
    ("lifetime", "requests"), [(None, 1), ("3600", 1), (3600.5, 1), (10**30, 1), (1e-6, 3)], ids=str
)
async def test_lifetimes_are_taken_as_servers_write_them(
    receiver: WebhookReceiver, tokens: TokenServer, secret: Path, lifetime: Any, requests: int
) -> None:
    tokens.lifetime = lifetime
    sink = a_sink(receiver, tokens.options(client_secret_file=secret))
    assert await deliver_once(sink, changes(3, keys=1)) == ALL_STORED

    assert len(tokens.forms) == requests


async def test_a_token_answer_that_drips_is_a_failure(receiver: WebhookReceiver, secret: Path) -> None:
    async with answered_by(dripping) as url:
        oauth2 = {"token_url": url, "client_id": "me", "client_secret_file": secret}
        receipt = await deliver_once(a_sink(receiver, oauth2, timeout=0.3), [a_delta()])

    assert failure_of(receipt) == f"oauth2.token_url: {url.removesuffix('/')} did not answer within 0.3 s"
    assert receiver.asked == []


async def test_an_echo_of_a_token_is_redacted(receiver: WebhookReceiver, tokens: TokenServer, secret: Path) -> None:
    receiver.answer = lambda posted: Answer(413, body=json.dumps(posted.headers).encode())
    receipt = await deliver_once(a_sink(receiver, tokens.options(client_secret_file=secret)), [a_delta()])

    assert "content-type" in receipt.answers[0]
    assert "token-1" not in receipt.answers[0]


async def test_the_networks_hold_for_the_token_endpoint(receiver: WebhookReceiver, secret: Path) -> None:
    oauth2 = {"token_url": "http://169.254.169.254/token", "client_id": "me", "client_secret_file": secret}
    receipt = await deliver_once(a_sink(receiver, oauth2), [a_delta()])
    kind = registry.types()["webhook"]
    wrong = kind.examine(WebhookOptions.model_validate({"url": receiver.url, "oauth2": oauth2}))

    assert "169.254.169.254 is a link-local address" in failure_of(receipt)
    assert [each.option for each in wrong] == ["oauth2.token_url"]
