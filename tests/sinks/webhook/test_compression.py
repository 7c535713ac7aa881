"""Compressed bodies, as a receiver gets them."""

from __future__ import annotations

import gzip
import hmac
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from sinks.base import ALL_STORED, SinkContext
from tests.kit.openssl import KeyPair, verifies
from tests.kit.records import a_delta, changes
from tests.kit.sinks import deliver_once, failure_of
from tests.kit.webhook_receiver import ACCEPTED, Answer, WebhookReceiver
from tests.sinks.webhook.test_sink import a_sink

LONG = b'{"spec": "' + b"x" * 3000 + b'"}'


async def delivered(receiver: WebhookReceiver, *bodies: bytes, **options: Any) -> None:
    records = [a_delta(number, body=body) for number, body in enumerate(bodies, 1)]
    assert await deliver_once(a_sink(receiver.url, **options), records) == ALL_STORED


async def test_long_bodies_are_compressed_and_short_ones_are_not(receiver: WebhookReceiver) -> None:
    await delivered(receiver, b"{}", LONG, compression="gzip")

    short, long = receiver.asked
    assert "content-encoding" not in short.headers
    assert short.events[0]["data"] == {}
    assert long.headers["content-encoding"] == "gzip"
    assert long.headers["content-type"] == "application/cloudevents+json"
    assert int(long.headers["content-length"]) == len(long.body) < 1000
    assert LONG in gzip.decompress(long.body)


async def test_the_bound_is_an_option(receiver: WebhookReceiver) -> None:
    await delivered(receiver, b"{}", compression="gzip", compress_above=0)
    await delivered(receiver, LONG, compression="gzip", compress_above="1MiB")
    await delivered(receiver, LONG, compress_above=0)

    assert [posted.headers.get("content-encoding") for posted in receiver.asked] == ["gzip", None, None]


async def test_signatures_are_about_the_bytes_that_are_sent(receiver: WebhookReceiver, tmp_path: Path) -> None:
    pair, shared = KeyPair.make(), os.urandom(32)
    (tmp_path / "keys").write_text(f"whsec_{b64encode(shared).decode()}\n{pair.private()}\n")
    await delivered(receiver, LONG, compression="gzip", secret_file=tmp_path / "keys")

    headers, body = receiver.asked[0].headers, receiver.asked[0].body
    symmetric, asymmetric = (each.partition(",")[2] for each in headers["webhook-signature"].split(" "))
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode()
    assert verifies(pair, content + body, asymmetric)
    assert not verifies(pair, content + gzip.decompress(body), asymmetric)
    assert hmac.digest(shared, content + body, "sha256") == b64decode(symmetric)


async def test_a_retry_sends_the_same_bytes(receiver: WebhookReceiver) -> None:
    receiver.answer = lambda posted: Answer(500)
    sink = a_sink(receiver.url, compression="gzip")
    await sink.open(SinkContext())
    record = a_delta(body=LONG)
    await sink.deliver([record])
    await sink.deliver([record])
    await sink.close()

    first, second = receiver.asked
    assert first.body == second.body


@pytest.mark.parametrize("batch", [1, 10])
async def test_an_endpoint_without_gzip_rejects_no_record(receiver: WebhookReceiver, batch: int) -> None:
    receiver.answer = lambda posted: Answer(415) if "content-encoding" in posted.headers else ACCEPTED
    sink = a_sink(receiver.url, compression="gzip", compress_above=0, batch=batch)
    receipt = await deliver_once(sink, changes(5))

    assert list(receipt.pending) == list(range(5))
    assert not receipt.rejected
    assert receipt.failure is not None
    assert receipt.failure.unavailable
    assert failure_of(receipt).endswith("answers 415: it may not take compressed bodies; see compression")
