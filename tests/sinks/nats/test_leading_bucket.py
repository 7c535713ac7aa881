"""Leaders of several terms on one bucket of a real server: once a leader has opened, the bucket stores no entry of an
earlier one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import nats
import pytest
from nats.js.api import DiscardPolicy, StreamConfig

from bridge.model.change import Op
from bridge.model.record import Delta, Record
from sinks.base import ALL_STORED, Receipt, SinkUnavailable
from sinks.nats.bucket import NatsSinkWithState
from sinks.nats.delivery import MAX_MESSAGES_IN_FLIGHT
from tests.cluster.fixtures import MakeStream, NatsStream, StartNats
from tests.cluster.servers import Nats
from tests.kit.deadlines import BUSY
from tests.kit.records import a_delta, a_gap, changes
from tests.kit.sinks import ALONE, failure_of, opened_sink, until_stored
from tests.sinks.nats.replicated import cluster as cluster
from tests.sinks.nats.replicated import make_streams
from tests.sinks.nats.test_bucket import CREATE, key_of, make_bucket, state_in, the_sink
from tests.sinks.nats.test_bucket import bucket as bucket
from tests.sinks.nats.test_leading import FORMER, NEXT, Held, in_term, of_leader, until_taken_over
from tests.sinks.nats.test_sink import K8S

TERM_KEY = "prod._.notice._._"


def a_sink(server: Nats, stream: NatsStream, bucket: str, **options: Any) -> NatsSinkWithState:
    sink: NatsSinkWithState = the_sink(server, stream, bucket, **(CREATE | options))
    return sink


@asynccontextmanager
async def leading(
    server: Nats, stream: NatsStream, bucket: str, term: int, **options: Any
) -> AsyncIterator[NatsSinkWithState]:
    async with opened_sink(a_sink(server, stream, bucket, **options), of_leader(term)) as sink:
        yield sink


@asynccontextmanager
async def frozen(
    sink: NatsSinkWithState, batch: Sequence[Record], behind: int = 0
) -> AsyncIterator[asyncio.Task[Receipt]]:
    """The sink delivers, and is frozen in front of an entry of its bucket until the end of the block."""
    entries = Held(sink, behind, "$KV.")
    delivering = asyncio.get_running_loop().create_task(sink.deliver(batch))
    async with asyncio.timeout(20 * BUSY):
        await entries.reached.wait()
        yield delivering
        entries.thawed.set()
        await delivering


async def store(sink: NatsSinkWithState, batch: Sequence[Record]) -> None:
    receipt = await sink.deliver(batch)
    assert (receipt.pending, receipt.failure) == ((), None)


def objects(count: int, first: int = 1) -> list[Delta]:
    """A record of each of so many objects."""
    return [a_delta(first + number, key=f"shop/web-{number}") for number in range(count)]


async def values_in(server: Nats, bucket: str) -> dict[str, bytes | None]:
    """Without the key of terms."""
    found = await state_in(server, bucket)
    assert found.pop(TERM_KEY, None) is None, "no reader takes it for an object"
    return found


def values(*records: Delta) -> dict[str, bytes | None]:
    return {key_of(each): None if each.op is Op.DELETED else each.body for each in records}


@pytest.mark.parametrize("form", ["value", "purge"])
async def test_a_frozen_leader_does_not_set_an_object_back(
    nats_server: Nats, nats_stream: MakeStream, bucket: str, form: str
) -> None:
    stream = await nats_stream()
    older = a_delta(1, op=Op.DELETED if form == "purge" else Op.UPDATED)
    newer = a_delta(2, op=Op.ADDED)
    async with leading(nats_server, stream, bucket, FORMER) as former:
        async with (
            frozen(former, in_term(FORMER, [older])) as delivering,
            leading(nats_server, stream, bucket, NEXT) as successor,
        ):
            await store(successor, in_term(NEXT, [older, newer]))
        refused = await delivering

        assert list(refused.pending) == [0]
        assert failure_of(refused).startswith(f"another publisher writes into the bucket {bucket}")
        assert refused.failure is not None
        assert refused.failure.doubted, "it sends nothing more until it has read the Lease"
        again = await former.deliver(in_term(FORMER, [older]))
        assert "is of a leader of term 2, and this leader has term 1" in failure_of(again)
        assert await values_in(nats_server, bucket) == values(newer)


@pytest.mark.parametrize("sent", [0, 1, 40, 99])
async def test_a_frozen_leader_stores_nothing_once_the_next_has_opened(
    nats_server: Nats, nats_stream: MakeStream, bucket: str, sent: int
) -> None:
    """However many entries it had sent: the first of the others is refused, and all behind it."""
    stream, batch = await nats_stream(), objects(250)
    async with leading(nats_server, stream, bucket, FORMER) as former:
        await store(former, in_term(FORMER, batch[:1]))
        newer = [a_delta(1000 + index, key=each.key) for index, each in enumerate(batch)]
        async with (
            frozen(former, in_term(FORMER, newer), sent) as delivering,
            leading(nats_server, stream, bucket, NEXT),
        ):
            pass
        refused = await delivering

        assert len(refused.pending) == 250 - sent
        assert refused.failure is not None
        assert refused.failure.doubted
        assert await values_in(nats_server, bucket) == values(*batch[:1], *newer[:sent])


async def test_entries_in_flight_are_refused_at_their_numbers(
    nats_server: Nats, nats_stream: MakeStream, bucket: str
) -> None:
    """The first is refused at the marker; the numbers of the next ones would come, marker by marker."""
    stream, batch = await nats_stream(), objects(MAX_MESSAGES_IN_FLIGHT)
    async with leading(nats_server, stream, bucket, FORMER) as former:
        last, connection = former._last_entry, former._connection
        assert last is not None
        assert connection is not None
        async with leading(nats_server, stream, bucket, NEXT):
            for index, record in enumerate(in_term(FORMER, batch)):
                headers, _ = former._entries.encode(record, expires=True).behind(last + index)
                await connection.publish(f"$KV.{bucket}.{key_of(batch[index])}", b"{}", headers)
        async with await nats.connect(nats_server.url) as reader:
            await connection.client.flush()
            state = (await reader.jetstream().stream_info(f"KV_{bucket}")).state

    assert (state.messages, state.last_seq) == (1, last + MAX_MESSAGES_IN_FLIGHT), "the last marker"


async def test_a_bucket_refuses_a_former_leader_by_itself(
    nats_server: Nats, nats_stream: MakeStream, bucket: str
) -> None:
    """As where the history was created again."""
    stream, other, batch = await nats_stream(), await nats_stream(), objects(3)
    async with leading(nats_server, stream, bucket, NEXT) as successor:
        await store(successor, in_term(NEXT, batch))
        async with leading(nats_server, other, bucket, FORMER) as former:
            refused = await former.deliver(in_term(FORMER, batch))

    assert list(refused.pending) == [0, 1, 2]
    assert f"KV_{bucket}: its last message" in failure_of(refused)
    assert "is of a leader of term 2" in failure_of(refused)
    assert refused.failure is not None
    assert refused.failure.doubted


@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=pytest.mark.soak)])
async def test_a_takeover_of_a_bucket_ends_what_is_in_flight(
    nats_server: Nats, nats_stream: MakeStream, bucket: str, rounds: int
) -> None:
    for turn in range(rounds):
        stream, name = await nats_stream(), f"{bucket}-{turn}"
        batch = changes(400, keys=200)

        async def deliver(stream: NatsStream = stream, name: str = name, batch: list[Delta] = batch) -> None:
            async with leading(nats_server, stream, name, FORMER) as former:
                for first in range(0, 400, 200):
                    await former.deliver(in_term(FORMER, batch[first : first + 200]))

        delivering = asyncio.get_running_loop().create_task(deliver())
        await asyncio.sleep(random.uniform(0, 0.1))
        await until_taken_over(partial(a_sink, nats_server, stream, name), in_term(NEXT, batch))
        with suppress(SinkUnavailable):
            await delivering

        found = [int(each.headers["ce-term"]) for each in await nats_server.read_all(f"KV_{name}")]
        assert found == sorted(found), "nothing of term 1 behind term 2"
        assert await values_in(nats_server, name) == values(*batch)


async def test_readers_of_a_bucket_see_objects_alone(nats_server: Nats, nats_stream: MakeStream, bucket: str) -> None:
    stream, batch = await nats_stream(), objects(3)
    for term in (FORMER, NEXT):
        async with leading(nats_server, stream, bucket, term) as sink:
            await store(sink, in_term(term, batch))
            assert await sink.deliver([a_gap(1, 2)]) == ALL_STORED

    async with await nats.connect(nats_server.url) as connection:
        reader = await connection.jetstream().key_value(bucket)
        assert sorted(await reader.keys()) == sorted(map(key_of, batch))
    [marker] = [each for each in await nats_server.read_all(f"KV_{bucket}") if "Nats-Rollup" in each.headers]
    assert (marker.subject, marker.data) == (f"$KV.{bucket}.{TERM_KEY}", b"")
    assert marker.headers["KV-Operation"] == "PURGE"
    assert marker.headers["Nats-TTL"] == "24h"
    assert marker.headers["ce-type"] == "kubedelta.term.began.v1"
    assert (marker.headers["ce-term"], "Nats-Msg-Id" in marker.headers) == ("2", False)


async def test_a_leader_that_is_alone_writes_its_markers_once(
    nats_server: Nats, nats_stream: MakeStream, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it looks at the bucket."""
    monkeypatch.setattr("sinks.nats.bucket.LOOK_INTERVAL", 0.0)
    stream = await nats_stream()
    async with leading(nats_server, stream, bucket, FORMER) as sink:
        for first in (1, 4, 7):
            await store(sink, in_term(FORMER, objects(3, first)))
    async with await nats.connect(nats_server.url) as reader:
        state = (await reader.jetstream().stream_info(f"KV_{bucket}")).state

    assert (state.last_seq, state.messages) == (MAX_MESSAGES_IN_FLIGHT + 9, 4)


async def test_a_full_bucket_is_named(nats_server: Nats, nats_stream: MakeStream, bucket: str) -> None:
    stream = await nats_stream()
    await make_bucket(nats_server, bucket, max_bytes=100, discard=DiscardPolicy.NEW)
    with pytest.raises(SinkUnavailable, match=f"KV_{bucket}: the server answers: maximum bytes exceeded"):
        async with leading(nats_server, stream, bucket, FORMER):
            pass


async def test_a_bucket_of_its_owners_keeps_one_marker(nats_server: Nats, nats_stream: MakeStream, bucket: str) -> None:
    stream = await nats_stream()
    await make_bucket(nats_server, bucket, max_msgs_per_subject=10)
    for term in (FORMER, NEXT):
        async with leading(nats_server, stream, bucket, term):
            pass

    [marker] = await nats_server.read_all(f"KV_{bucket}")
    assert (marker.headers["ce-term"], "Nats-TTL" in marker.headers) == ("2", False)


async def test_a_leader_goes_on_in_its_bucket_behind_restarts(start_nats: StartNats, bucket: str) -> None:
    server, batch = start_nats(), objects(3)
    for _ in range(2):
        async with leading(server, K8S, bucket, FORMER, create_stream={}) as sink:
            await store(sink, in_term(FORMER, batch))
            await asyncio.to_thread(server.kill9)
            await asyncio.to_thread(server.start)
            batch = objects(3, first=int(batch[-1].sequence) + 1)
            await until_stored(sink, in_term(FORMER, batch))

    assert await values_in(server, bucket) == values(*batch)


async def test_another_application_in_the_bucket_is_named(
    nats_server: Nats, nats_stream: MakeStream, bucket: str
) -> None:
    stream, batch = await nats_stream(), objects(3)
    async with leading(nats_server, stream, bucket, FORMER) as sink, await nats.connect(nats_server.url) as other:
        await store(sink, in_term(FORMER, batch))
        await (await other.jetstream().key_value(bucket)).put("mine", b"1")
        refused = await sink.deliver(in_term(FORMER, batch))
        assert f"another publisher writes into the bucket {bucket}: give this sink a bucket" in failure_of(refused)
        assert list(refused.pending) == [0, 1, 2]
        await store(sink, in_term(FORMER, batch))


async def test_a_bucket_that_was_deleted_is_taken_over_again(
    nats_server: Nats, nats_stream: MakeStream, bucket: str
) -> None:
    stream, batch = await nats_stream(), objects(150)
    async with leading(nats_server, stream, bucket, FORMER) as sink:
        assert (await sink.deliver(in_term(FORMER, batch))).created == f"bucket {bucket}"
        async with await nats.connect(nats_server.url) as connection:
            await connection.jetstream().delete_key_value(bucket)
        receipt = await sink.deliver(in_term(FORMER, batch))
        assert (list(receipt.pending), receipt.created) == ([*range(150)], f"bucket {bucket}")
        again = await sink.deliver(in_term(FORMER, batch))
        assert not again.pending
        assert f"bucket {bucket} was created again" in again.lost
        async with (
            frozen(sink, in_term(FORMER, [a_delta(151)])) as delivering,
            leading(nats_server, stream, bucket, NEXT),
        ):
            pass
        assert (await delivering).pending

    assert await values_in(nats_server, bucket) == values(*batch)


async def test_a_bucket_without_its_last_message_waits_for_the_lease(
    nats_server: Nats, nats_stream: MakeStream, bucket: str
) -> None:
    stream, batch = await nats_stream(), objects(3)
    async with leading(nats_server, stream, bucket, FORMER) as former:
        await store(former, in_term(FORMER, batch))
    async with await nats.connect(nats_server.url) as operator:
        await operator.jetstream().purge_stream(f"KV_{bucket}")
    async with leading(nats_server, stream, bucket, NEXT) as successor:
        refused = await successor.deliver(in_term(NEXT, batch))
        assert f"KV_{bucket}: its last message 103 cannot be read" in failure_of(refused)
        assert refused.failure is not None
        assert refused.failure.doubted
        assert await values_in(nats_server, bucket) == {}, "nothing before"
        await store(successor, in_term(NEXT, batch))

    assert await values_in(nats_server, bucket) == values(*batch)


async def test_a_refused_entry_does_not_hold_up_those_behind_it(
    nats_server: Nats, nats_stream: MakeStream, bucket: str
) -> None:
    stream, batch = await nats_stream(), objects(5)
    async with await nats.connect(nats_server.url) as connection:
        await connection.jetstream().create_key_value(bucket=bucket, max_value_size=2000)
    batch[2] = a_delta(3, key="shop/web-2", body=b'"' + b"x" * 3000 + b'"')
    async with leading(nats_server, stream, bucket, FORMER) as sink:
        receipt = await sink.deliver(in_term(FORMER, batch))
        assert receipt.rejected == {2: "the state: larger than the stream's max_msg_size"}
        assert not receipt.pending
        await store(sink, in_term(FORMER, objects(2, first=6)))

    assert await values_in(nats_server, bucket) == values(*batch[3:], *objects(2, first=6))


@pytest.mark.parametrize("options", [{}, {"sole_writer": False}])
async def test_without_a_fence_entries_name_no_number(
    nats_server: Nats, nats_stream: MakeStream, bucket: str, options: dict[str, Any]
) -> None:
    stream, batch = await nats_stream(), objects(3)
    sink = a_sink(nats_server, stream, bucket, **options)
    async with opened_sink(sink, of_leader(FORMER) if options else ALONE), await nats.connect(nats_server.url) as other:
        assert (await sink.deliver(batch)).failure is None
        await (await other.jetstream().key_value(bucket)).put("mine", b"1")
        assert await sink.deliver(objects(3)) == ALL_STORED

    entries = await nats_server.read_all(f"KV_{bucket}")
    assert len(entries) == 4
    assert not any("Nats-Expected-Last-Sequence" in each.headers for each in entries)


# ── Of three servers ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.parametrize("sent", [0, 40])
async def test_a_replicated_bucket_refuses_a_former_leader_and_goes_on(cluster: Sequence[Nats], sent: int) -> None:
    """A refused entry must leave the bucket in order: servers of 2.15 stop a stream for another refusal."""
    bucket, batch, server = "states", objects(90), cluster[0]
    one = {"max_msgs_per_subject": 1, "allow_rollup_hdrs": True}
    await make_streams(
        server,
        StreamConfig(name=K8S.name, subjects=[f"{K8S.prefix}.>"]),
        StreamConfig(name=f"KV_{bucket}", subjects=[f"$KV.{bucket}.>"], num_replicas=3, **one),  # type: ignore[arg-type]
    )
    async with leading(server, K8S, bucket, FORMER) as former:
        await store(former, in_term(FORMER, batch))
        later = [a_delta(1000 + index, key=each.key) for index, each in enumerate(batch)]
        async with (
            frozen(former, in_term(FORMER, later), sent) as delivering,
            leading(server, K8S, bucket, NEXT),
        ):
            pass
        refused = await delivering
        assert len(refused.pending) == 90 - sent
        assert refused.failure is not None
        assert refused.failure.doubted
        assert await values_in(server, bucket) == values(*later[:sent], *batch[sent:])
        async with leading(server, K8S, bucket, NEXT) as successor:
            await store(successor, in_term(NEXT, later))

    assert await values_in(server, bucket) == values(*later)
