"""A history that three real servers store. nats-server 2.15 stops such a stream for good at a message that names the id
of another one than the last: no message may name an id."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import nats
import pytest
from nats.js.api import StreamConfig
from nats.js.errors import APIError

from bridge.model.record import Delta
from sinks.base import ALL_STORED
from sinks.nats.delivery import MAX_MESSAGES_IN_FLIGHT
from sinks.nats.leading import StreamInDoubt
from sinks.nats.sink import NatsSink
from tests.cluster.servers import Nats
from tests.kit.deadlines import BUSY
from tests.kit.records import a_delta, changes, ids_of
from tests.kit.sinks import opened_sink, until_stored
from tests.sinks.nats.replicated import change_leader, make_streams
from tests.sinks.nats.replicated import cluster as cluster
from tests.sinks.nats.test_leading import FORMER, NEXT, Held, ids_of_stream, in_term, leading, messages, terms
from tests.sinks.nats.test_sink import K8S, the_sink


@asynccontextmanager
async def running(servers: Sequence[Nats], **options: Any) -> AsyncIterator[NatsSink]:
    urls = [server.url for server in servers]
    sink = the_sink(servers[0], K8S.name, K8S.prefix, servers=urls, **options)
    async with opened_sink(sink):
        yield sink


async def make(servers: Sequence[Nats], **config: Any) -> None:
    await make_streams(servers[0], StreamConfig(name=K8S.name, subjects=[f"{K8S.prefix}.>"], num_replicas=3, **config))


async def until_led(server: Nats) -> None:
    """The stream has a leader, which answers."""
    async with asyncio.timeout(60 * BUSY):
        while True:
            with suppress(APIError, nats.errors.Error, TimeoutError):
                await server.read_all(K8S.name)
                return
            await asyncio.sleep(0.1)


async def no_ids_named(server: Nats) -> bool:
    return not any("Nats-Expected-Last-Msg-Id" in each.headers for each in await server.read_all(K8S.name))


async def test_a_rejected_message_leaves_a_replicated_stream_in_order(cluster: Sequence[Nats]) -> None:
    await make(cluster, max_msg_size=3000)
    batch = [a_delta(n, key=f"a/{n}") for n in range(1, 30)]
    batch[9] = a_delta(10, key="a/10", body=b'"' + b"x" * 4000 + b'"')
    async with running(cluster) as sink:
        receipt = await sink.deliver(batch)
        assert receipt.failure is None, receipt.failure
        assert (list(receipt.rejected), list(receipt.pending), receipt.failure) == ([9], [], None)
        assert await sink.deliver(changes(20, first=100)) == ALL_STORED

    del batch[9]
    assert await ids_of_stream(cluster[0], K8S) == ids_of(batch) + ids_of(changes(20, first=100))
    assert await no_ids_named(cluster[0])


@pytest.mark.long
@pytest.mark.parametrize("sent", [0, 40])
async def test_a_replicated_stream_refuses_a_former_leader_and_goes_on(cluster: Sequence[Nats], sent: int) -> None:
    await make(cluster)
    server, batch = cluster[0], [a_delta(n, key=f"a/{n}") for n in range(1, 251)]
    async with leading(server, K8S, FORMER) as former:
        held = Held(former, sent)
        delivering = asyncio.get_running_loop().create_task(former.deliver(in_term(FORMER, batch)))
        await held.reached.wait()
        async with leading(server, K8S, NEXT) as successor:
            held.thawed.set()
            refused = await delivering
            assert len(refused.pending) == 250 - sent
            assert refused.failure is not None
            assert refused.failure.doubted
            assert await successor.deliver(in_term(NEXT, batch)) == ALL_STORED

    assert await ids_of_stream(server, K8S) == ["term/1", *ids_of(batch[:sent]), "term/2", *ids_of(batch[sent:])]
    assert await no_ids_named(server)


@pytest.mark.long
async def test_late_messages_of_a_former_leader_are_refused(cluster: Sequence[Nats]) -> None:
    """They were on their way when the next leader took the stream over, and come behind its notice, and behind another
    choice of the stream's leader. The first one names a number before the notice. The second one would name that of the
    notice, if no others were in front of it, and the stream would store it, and all behind it."""
    await make(cluster)
    server, batch = cluster[0], [a_delta(n, key=f"a/{n}") for n in range(1, MAX_MESSAGES_IN_FLIGHT + 1)]
    async with leading(server, K8S, FORMER) as former:
        last, connection = former._last, former._connection
        assert last is not None
        assert connection is not None
        async with leading(cluster[1], K8S, NEXT):
            await change_leader(cluster[1], K8S.name)
            await until_led(server)
            for index, record in enumerate(in_term(FORMER, batch)):
                message = former._encoder.encode(record)
                headers, _ = message.behind(last + index)
                await connection.publish(message.subject, message.payload, headers)
            await connection.client.flush()
        async with leading(cluster[2], K8S, NEXT) as successor:
            assert await successor.deliver(in_term(NEXT, batch)) == ALL_STORED, "nobody else has stored anything"

    assert await ids_of_stream(server, K8S) == ["term/1", "term/2", *ids_of(batch)]
    found = await terms(server, K8S)
    assert found == sorted(found), "nothing of term 1 behind term 2"


@pytest.mark.long
async def test_a_takeover_of_copies_ends_what_is_in_flight(cluster: Sequence[Nats]) -> None:
    await make(cluster)
    batch, server = changes(300, keys=100), cluster[0]
    async with leading(server, K8S, FORMER) as former:
        delivering = asyncio.get_running_loop().create_task(former.deliver(in_term(FORMER, batch)))
        await asyncio.sleep(random.uniform(0, 0.1))
        async with asyncio.timeout(60 * BUSY):
            while True:
                with suppress(StreamInDoubt):  # The former leader stored one more in between.
                    async with leading(cluster[1], K8S, NEXT) as successor:
                        await until_stored(successor, in_term(NEXT, batch))
                    break
        await delivering

    found = await terms(server, K8S)
    assert found == sorted(found), "nothing of term 1 behind term 2"
    ids = [each for each in await ids_of_stream(server, K8S) if not each.startswith("term/")]
    assert sorted(ids) == sorted(ids_of(batch)), "each once"


@pytest.mark.long
@pytest.mark.parametrize("elected", [False, True])
async def test_another_leader_of_the_stream_stores_all_once(cluster: Sequence[Nats], elected: bool) -> None:
    await make(cluster)
    batch: list[Delta] = changes(2000, keys=150)
    async with leading(cluster[0], K8S, FORMER) if elected else running(cluster, ack_timeout=2) as sink:
        records = in_term(FORMER, batch)
        for first in range(0, 2000, 400):
            delivering = asyncio.get_running_loop().create_task(until_stored(sink, records[first : first + 400]))
            await asyncio.sleep(random.uniform(0, 0.02))
            await change_leader(cluster[1], K8S.name)
            await delivering

    await until_led(cluster[0])
    ids = [each for each in await ids_of_stream(cluster[0], K8S) if not each.startswith("term/")]
    assert ids == ids_of(batch), "each once, in order"


@pytest.mark.long
async def test_a_killed_server_costs_a_replicated_stream_nothing(cluster: Sequence[Nats]) -> None:
    await make(cluster)
    batch: list[Delta] = changes(1200, keys=150)
    async with running(cluster, ack_timeout=2, connect_timeout=2) as sink:
        for turn, server in enumerate(cluster):
            part = batch[turn * 400 : turn * 400 + 400]
            delivering = asyncio.get_running_loop().create_task(until_stored(sink, part))
            await asyncio.sleep(random.uniform(0, 0.02))
            await asyncio.to_thread(server.kill9)
            await delivering
            await asyncio.to_thread(server.start)

    await until_led(cluster[1])
    assert ids_of(batch) == [each.headers["ce-id"] for each in await messages(cluster[1], K8S)]
