"""A stream that was purged, or created again, or lost messages: a Gap stands in front of the next records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import nats
import pytest
from msgspec.structs import replace
from nats.js import JetStreamContext
from nats.js.api import StreamConfig

from sinks.base import ALL_STORED, Receipt, SinkContext
from sinks.nats import sink as sink_module
from sinks.nats.sink import NatsSink
from sinks.nats.stream import KnownStream, StreamContents, StreamDescription, StreamLimits, loss_of
from tests.cluster.fixtures import MakeStream, NatsStream
from tests.cluster.servers import Nats
from tests.kit.deadlines import BUSY
from tests.kit.records import a_delta, changes, ids_of
from tests.kit.sinks import opened_sink, remembered
from tests.sinks.nats.test_sink import ids_in, the_sink

# ── Against a real server ────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def running(server: Nats, stream: NatsStream, memory: bytes = b"", **options: Any) -> AsyncIterator[NatsSink]:
    """As the bridge opens it."""
    sink = the_sink(server, stream.name, stream.prefix, **options)
    async with opened_sink(sink, SinkContext(memory=memory)):
        yield sink


@asynccontextmanager
async def operator(server: Nats) -> AsyncIterator[JetStreamContext]:
    async with await nats.connect(server.url) as connection:
        yield connection.jetstream()


async def test_a_purge_between_two_runs_is_a_gap_in_the_stream(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    async with running(nats_server, stream) as sink:
        memory = await remembered(sink, changes(20))
    async with operator(nats_server) as jetstream:
        await jetstream.purge_stream(stream.name)

    async with running(nats_server, stream, memory) as sink:
        assert await sink.deliver(changes(5, first=21)) == Receipt(lost=f"stream {stream.name} was purged")
        memory = await remembered(sink, changes(5, first=26))
    assert await ids_in(nats_server, stream) == ["gap/1/20", *ids_of(changes(10, first=21))]
    [gap, *_] = await nats_server.read_all(stream.name)
    assert b'"count":null' in gap.data
    assert f'"reason":"stream {stream.name} was purged"'.encode() in gap.data

    async with running(nats_server, stream, memory) as sink:
        assert await sink.deliver(changes(5, first=31)) == ALL_STORED


@pytest.mark.parametrize("sole_writer", [True, False])
async def test_a_purge_under_a_sink_is_noticed_at_its_next_look(
    nats_server: Nats, nats_stream: MakeStream, monkeypatch: pytest.MonkeyPatch, sole_writer: bool
) -> None:
    monkeypatch.setattr(sink_module, "LOOK_INTERVAL", 0.0)
    stream = await nats_stream()
    async with running(nats_server, stream, sole_writer=sole_writer) as sink, operator(nats_server) as jetstream:
        assert await sink.deliver(changes(20)) == ALL_STORED
        await jetstream.purge_stream(stream.name)
        receipt = await sink.deliver(changes(5, first=21))

    assert receipt == Receipt(lost=f"stream {stream.name} was purged")
    assert await ids_in(nats_server, stream) == ["gap/1/20", *ids_of(changes(5, first=21))]


async def test_a_stream_that_its_owner_creates_again_begins_with_a_gap(
    nats_server: Nats, nats_stream: MakeStream
) -> None:
    stream = await nats_stream()
    async with running(nats_server, stream) as sink, operator(nats_server) as jetstream:
        memory = await remembered(sink, changes(20))
        await jetstream.delete_stream(stream.name)
        await jetstream.add_stream(StreamConfig(name=stream.name, subjects=[f"{stream.prefix}.>"]))
    # More messages than the sink knew: only the stream's own time of creation tells.
    async with running(nats_server, stream) as other:
        assert await other.deliver(changes(30, first=1001)) == ALL_STORED

    async with running(nats_server, stream, memory) as sink:
        receipt = await sink.deliver(changes(5, first=21))
    assert receipt.lost == f"stream {stream.name} was deleted and created again"
    assert (await ids_in(nats_server, stream))[30:] == ["gap/1/20", *ids_of(changes(5, first=21))]


async def test_a_new_stream_under_a_sink_shows_by_its_numbers(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    async with running(nats_server, stream) as sink, operator(nats_server) as jetstream:
        assert await sink.deliver(changes(20)) == ALL_STORED
        await jetstream.delete_stream(stream.name)
        await jetstream.add_stream(StreamConfig(name=stream.name, subjects=[f"{stream.prefix}.>"]))
        assert len((await sink.deliver(changes(5, first=21))).pending) == 5, "the stream ends at another number"
        receipt = await sink.deliver(changes(5, first=21))

    assert receipt.lost == f"stream {stream.name} was deleted and created again"
    assert await ids_in(nats_server, stream) == ["gap/1/20", *ids_of(changes(5, first=21))]


@pytest.mark.parametrize(
    "limits", [{"max_msgs": 5}, {"max_msgs_per_subject": 1}, {"max_age": 0.2}], ids=["number", "newest", "age"]
)
async def test_what_the_limits_of_a_stream_remove_is_no_loss(
    nats_server: Nats, nats_stream: MakeStream, limits: dict[str, Any]
) -> None:
    window = {"duplicate_window": 0.1} if "max_age" in limits else {}
    stream = await nats_stream(**limits, **window)
    async with running(nats_server, stream) as sink:
        memory = await remembered(sink, changes(20, keys=3))
    if "max_age" in limits:
        async with operator(nats_server) as jetstream, asyncio.timeout(60 * BUSY):
            while (await jetstream.stream_info(stream.name)).state.messages:
                pass

    async with running(nats_server, stream, memory) as sink:
        for first in (21, 41):
            assert await sink.deliver(changes(20, keys=3, first=first)) == ALL_STORED


async def test_an_unreadable_memory_is_an_unknown_gap(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    for damaged in (b"{", b'{"gap":5}', b"\xff", b'{"stream":{}}'):
        async with running(nats_server, stream, damaged) as sink:
            assert sink.newest_gap == b"gap/unknown"


async def test_a_receipt_has_the_memory_if_it_has_changed(nats_server: Nats, nats_stream: MakeStream) -> None:
    async with running(nats_server, await nats_stream()) as sink:
        memory = await remembered(sink, [a_delta(1)])
        assert await remembered(sink, [a_delta(2)]) != memory
        receipt = await sink.deliver([a_delta(2)])
        assert (receipt, receipt.memory) == (ALL_STORED, None), "a duplicate, which the stream has"


# ── The decision ─────────────────────────────────────────────────────────────────────────────────────────────────────

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CREATED = NOW - timedelta(days=1)
KNOWN = KnownStream(CREATED, first=1, last=100, at=NOW.timestamp() - 60)
NOTHING = KnownStream(CREATED, first=0, last=0, at=NOW.timestamp())
HOUR = 3_600_000_000_000


def described(first: int, last: int, *, created: datetime = CREATED, **limits: Any) -> StreamDescription:
    messages = last - first + 1
    return StreamDescription(
        created, StreamContents(messages, 100 * messages, first, last), StreamLimits(**limits), NOW
    )


@pytest.mark.parametrize(
    ("found", "loss"),
    [
        (described(1, 100), ""),
        (described(1, 500), ""),
        (described(1, 100, created=NOW), "was deleted and created again"),
        (described(1, 90), "has lost its newest messages: its last was 100, and is 90"),
        (described(101, 100), "was purged"),
        (described(101, 500), "was purged"),
        (described(51, 500), "was purged up to its message 50"),
        (described(101, 500, by_consumers="workqueue"), ""),
        (described(101, 500, by_consumers="interest"), ""),
        (described(51, 500, max_age=HOUR), ""),
        (described(101, 500, max_age=HOUR), "was purged"),
        (described(101, 500, max_age=HOUR // 120), ""),
        (described(101, 500, max_msgs=400), ""),
        (described(101, 500, max_msgs=1000), "was purged"),
        (described(101, 500, max_msgs=400, discard="new"), "was purged"),
        (described(101, 500, max_bytes=40_000), ""),
        (described(101, 500, max_bytes=400_000), "was purged"),
        (described(51, 500, max_bytes=400_000), ""),
        (described(101, 500, max_msgs_per_subject=1), ""),
        (described(101, 100, max_msgs_per_subject=1), "was purged"),
    ],
)
def test_a_loss_is_what_no_limit_explains(found: StreamDescription, loss: str) -> None:
    assert loss_of(KNOWN, found, NOW.timestamp()) == loss


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (NOTHING, described(1, 0)),
        (NOTHING, described(1, 5)),
        (NOTHING, described(1, 5, created=NOW)),
        (replace(KNOWN, at=NOW.timestamp() - 3601), described(101, 100, max_age=HOUR)),
    ],
)
def test_what_was_never_known_or_is_too_old_is_not_lost(known: KnownStream, found: StreamDescription) -> None:
    assert loss_of(known, found, NOW.timestamp()) == ""
