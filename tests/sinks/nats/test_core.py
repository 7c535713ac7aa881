"""``mode: core``: the server hands messages on and keeps none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg
from nats.js.api import StreamConfig

from sinks import registry
from sinks.base import ALL_STORED, CannotRead, ReadPurpose
from sinks.nats.options import NatsOptions
from sinks.nats.reader import nats_reader
from sinks.nats.sink import NatsSink
from tests.cluster.fixtures import StartNats, fresh_name
from tests.cluster.servers import Nats
from tests.kit.deadlines import BUSY
from tests.kit.records import a_delta, changes, ids_of
from tests.kit.sinks import failure_of, opened_sink


def options(server: Nats, prefix: str, **more: Any) -> NatsOptions:
    subject = f"{prefix}.{{resource}}.{{namespace}}.{{name}}"
    return NatsOptions.model_validate({"mode": "core", "servers": [server.url], "subject": subject, **more})


@asynccontextmanager
async def opened(server: Nats, prefix: str, **more: Any) -> AsyncIterator[NatsSink]:
    sink = NatsSink("live", options(server, prefix, **more), cluster="prod")
    async with opened_sink(sink):
        yield sink


@asynccontextmanager
async def subscribed(server: Nats, prefix: str) -> AsyncIterator[list[Msg]]:
    """The messages that a subscriber has received, all of them at the end of the context."""
    received: list[Msg] = []
    own = asyncio.Queue[Msg]()

    async def take(message: Msg) -> None:
        if message.subject == f"{prefix}.own":
            own.put_nowait(message)
        else:
            received.append(message)

    async def go_round() -> None:
        """The server has read what this client sent, and this client what the server had for it. A PONG does not show
        that: behind an INFO in the handshake, the client takes the PONG of its CONNECT for that of a later flush."""
        await client.publish(f"{prefix}.own")
        async with asyncio.timeout(10 * BUSY):
            await own.get()

    async with await nats.connect(server.url) as client:
        await client.subscribe(f"{prefix}.>", cb=take)
        await go_round()
        yield received
        await go_round()


def ids(messages: list[Msg]) -> list[str]:
    return [(message.headers or {})["ce-id"] for message in messages]


async def test_what_is_delivered_is_with_the_server(nats_server: Nats) -> None:
    """More than the client may hold at once, and read by the server when ``deliver`` returns."""
    prefix = fresh_name("core")
    batch = [a_delta(n, body=b'"' + b"x" * 500_000 + b'"') for n in range(1, 31)]
    async with subscribed(nats_server, prefix) as received, opened(nats_server, prefix) as sink:
        assert await sink.deliver(batch) == ALL_STORED

    assert ids(received) == ids_of(batch)


async def test_a_record_larger_than_the_server_takes_is_rejected(start_nats: StartNats, tmp_path: Path) -> None:
    (tmp_path / "nats.conf").write_text("max_payload: 20000\n")
    server = start_nats("-c", str(tmp_path / "nats.conf"))
    large = a_delta(2, key="shop/large", body=b'"' + b"x" * 20_000 + b'"')
    async with subscribed(server, "k8s") as received, opened(server, "k8s") as sink:
        receipt = await sink.deliver([a_delta(1), large, a_delta(3)])

    assert list(receipt.rejected) == [1]
    assert ids(received) == ids_of([a_delta(1), a_delta(3)])
    assert "Nats-Expected-Stream" not in (received[0].headers or {})


async def test_a_server_that_goes_and_comes_back_gets_the_batch_again(start_nats: StartNats) -> None:
    server = start_nats()
    async with opened(server, "k8s") as sink:
        assert await sink.deliver(changes(5)) == ALL_STORED
        await asyncio.to_thread(server.kill9)
        receipt = await sink.deliver(changes(50, first=6))
        assert list(receipt.pending) == list(range(50))
        assert failure_of(receipt)
        await asyncio.to_thread(server.start)
        async with subscribed(server, "k8s") as received:
            assert await sink.deliver(changes(50, first=6)) == ALL_STORED

    assert ids(received) == ids_of(changes(50, first=6))


async def test_a_frozen_server_is_a_failure_after_the_timeout(start_nats: StartNats) -> None:
    server = start_nats()
    async with opened(server, "k8s", ack_timeout=1) as sink, asyncio.timeout(60 * BUSY):
        while await sink.deliver(changes(5)) != ALL_STORED:
            pass  # A busy machine answers too late.
        server.pause()
        receipt = await sink.deliver(changes(5, first=6))
        server.resume()

    assert "no answer within 1 s" in failure_of(receipt)


async def test_a_cancelled_deliver_leaves_the_sink_usable(nats_server: Nats) -> None:
    prefix = fresh_name("core")
    async with subscribed(nats_server, prefix) as received, opened(nats_server, prefix) as sink:
        for pause in (0.0, 0.001, 0.005):
            with suppress(TimeoutError):
                await asyncio.wait_for(sink.deliver(changes(500)), pause)
        assert await sink.deliver(changes(5, first=1001)) == ALL_STORED

    assert ids(received)[-5:] == ids_of(changes(5, first=1001))


async def test_a_refused_permission_is_reported(start_nats: StartNats, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hush")
    (tmp_path / "nats.conf").write_text(
        "authorization: { users: [ { user: me, password: hush, permissions: {"
        ' publish: ["_INBOX.>"], subscribe: ["_INBOX.>"] } } ] }\n'
    )
    server = start_nats("-c", str(tmp_path / "nats.conf"))
    async with opened(server, "k8s", user="me", password_file=tmp_path / "password") as sink:
        receipt = await asyncio.wait_for(sink.deliver(changes(3)), 5 * BUSY)

    assert list(receipt.pending) == [0, 1, 2]
    assert "permissions violation for publish to" in failure_of(receipt).lower()


async def test_a_stream_of_others_may_keep_the_messages(nats_server: Nats) -> None:
    prefix = fresh_name("core")
    async with await nats.connect(nats_server.url) as owner, opened(nats_server, prefix) as sink:
        await owner.jetstream().add_stream(StreamConfig(name=prefix, subjects=[f"{prefix}.>"]))
        assert await sink.deliver(changes(20)) == ALL_STORED
        assert await sink.deliver(changes(20)) == ALL_STORED
        # The server has taken the messages; the stream stores them behind that, and this one behind them.
        await owner.jetstream().publish(f"{prefix}.last", timeout=5 * BUSY)
        *stored, _ = await nats_server.read_all(prefix)
        await owner.jetstream().delete_stream(prefix)

    assert [each.headers["Nats-Msg-Id"] for each in stored] == ids_of(changes(20)), "the stream drops repetitions"


async def test_check_and_claims_need_no_stream(nats_server: Nats) -> None:
    chosen = options(nats_server, "k8s")
    found = await NatsSink("live", chosen, cluster="prod").check()

    assert found == f"127.0.0.1:{nats_server.port}, without a stream"
    assert "at most once" in (chosen.caution() or "")
    assert list(registry.types()["nats"].claims(chosen)) == []
    with pytest.raises(CannotRead, match="the server keeps no messages"):
        nats_reader("live", chosen, cluster="prod", purpose=ReadPurpose.VERIFY)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"mode": "core", "stream": "K8S"}, "mode core has no stream"),
        ({"mode": "core", "create_stream": {}}, "mode core has no stream"),
        ({"mode": "core", "sole_writer": False}, "mode core has no stream"),
        ({}, "mode jetstream needs a stream"),
        ({"mode": "jetstream"}, "mode jetstream needs a stream"),
    ],
)
def test_a_stream_belongs_to_jetstream(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        NatsOptions.model_validate({"servers": ["nats://a"], **given})


def test_jetstream_gives_up_no_promise() -> None:
    assert NatsOptions.model_validate({"servers": ["nats://a"], "stream": "K8S"}).caution() is None
