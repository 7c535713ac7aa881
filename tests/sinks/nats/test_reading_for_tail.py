"""Following, on a real server, the messages that the NATS sink wrote."""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

import msgspec
import nats
import pytest
from kubedelta_reader.sources import NoDestination, Unavailable
from kubedelta_reader.sources import nats as follower

from bridge.model.change import Op
from bridge.model.record import Record
from sinks.base import ALL_STORED, CannotRead, ReadPurpose
from sinks.nats.options import NatsOptions
from sinks.nats.reader import nats_reader
from sinks.reader import RecordReader
from tests.cluster.fixtures import MakeStream, fresh_name
from tests.cluster.servers import Nats
from tests.cluster.servers.ports import reserve_port
from tests.kit.readers import last, news, opened, present, versions
from tests.kit.records import CLUSTER_ROLES, TIME, a_delta, a_gap, changes
from tests.sinks.nats.test_leading import FORMER, NEXT, in_term, leading
from tests.sinks.nats.test_reading_for_verify import CLUSTER, options, write


def following(chosen: NatsOptions) -> AbstractAsyncContextManager[RecordReader]:
    return opened(nats_reader("live", chosen, cluster=CLUSTER, purpose=ReadPurpose.TAIL))


@pytest.mark.parametrize("form", ["cloudevents", "envelope", "row", "raw"])
async def test_a_record_is_read_in_every_format(nats_server: Nats, nats_stream: MakeStream, form: str) -> None:
    chosen = options(nats_server, await nats_stream(), format=form)
    delta = a_delta(1, resource=CLUSTER_ROLES, key="system:node 50%", op=Op.DELETED)
    await write(chosen, [delta])
    async with following(chosen) as found:
        [record] = await last(found, 5)
    assert (record.op, record.name, record.namespace) == (Op.DELETED, "system:node 50%", "")
    assert record.resource == "clusterroles.rbac.authorization.k8s.io"
    assert (record.version, record.evidence, record.time, record.cluster) == ("1001", "watched", TIME, CLUSTER)
    assert record.object == delta.body
    assert msgspec.json.decode(record.text)["subject"].endswith("system:node 50%")


async def test_it_begins_with_the_last_records_and_goes_on(nats_server: Nats, nats_stream: MakeStream) -> None:
    chosen = options(nats_server, await nats_stream())
    records: list[Record] = [*changes(1200), a_gap(1201, 1203), a_delta(1204)]
    await write(chosen, records)
    async with following(chosen) as found:
        *deltas, gap, newest = await last(found, 10)
        assert (versions([*deltas, newest]), gap.is_gap) == ([*range(1193, 1201), 1204], True)
        assert await present(found) == []
        await write(chosen, changes(600, first=1205))
        assert versions(await news(found, 600)) == list(range(1205, 1805))


async def test_a_takeover_is_one_line(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    chosen = options(nats_server, stream, subject=f"{stream.prefix}.{{resource}}.{{namespace}}.{{name}}")
    async with leading(nats_server, stream, FORMER) as former:
        assert await former.deliver(in_term(FORMER, changes(3))) == ALL_STORED
    async with leading(nats_server, stream, NEXT):
        pass
    async with following(chosen) as found:
        said = [record.notice for record in await last(found, 2)]
        assert said == ["", "the leader of term 2 delivers from here on"]
        async with leading(nats_server, stream, NEXT + 1):
            pass
        assert [record.notice for record in await news(found, 1)] == ["the leader of term 3 delivers from here on"]


async def test_the_last_records_are_those_that_were_chosen(
    nats_server: Nats, nats_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinks.reader.FIRST_LOOK_BACK", 5)
    chosen = options(nats_server, await nats_stream())
    await write(chosen, changes(100))
    async with following(chosen) as found:
        few = await last(found, 2, lambda record: record.version in ("1003", "1007", "1098"))
        assert versions(few) == [7, 98]


async def test_messages_behind_the_end_of_a_wait_are_read(
    nats_server: Nats, nats_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_WAIT", 0.0001)
    chosen = options(nats_server, await nats_stream())
    await write(chosen, changes(3))
    async with following(chosen) as found:
        for _ in range(20):
            assert versions(await last(found, 5)) == [1, 2, 3]


async def test_it_begins_with_the_oldest_or_at_a_time(nats_server: Nats, nats_stream: MakeStream) -> None:
    chosen = options(nats_server, await nats_stream())
    await write(chosen, changes(20))
    async with following(chosen) as found:
        await found.begin(None)
        assert versions(await news(found, 20)) == list(range(1, 21))
        between = datetime.now(UTC)
        await write(chosen, changes(5, first=21))
        await found.begin(between)
        assert versions(await news(found, 5)) == list(range(21, 26))


async def test_a_consumer_that_the_server_forgot_is_made_again(nats_server: Nats, nats_stream: MakeStream) -> None:
    """As while a pager holds the output longer than the server keeps an idle consumer."""
    stream = await nats_stream()
    chosen = options(nats_server, stream)
    await write(chosen, changes(3))
    async with following(chosen) as found, await nats.connect(nats_server.url) as other:
        assert versions(await last(found, 1)) == [3]
        jetstream = other.jetstream()
        for consumer in await jetstream.consumers_info(stream.name):
            await jetstream.delete_consumer(stream.name, consumer.name)
        await write(chosen, changes(2, first=4))
        assert versions(await news(found, 2)) == [4, 5]


async def test_nothing_is_left_behind_at_the_server(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    chosen = options(nats_server, stream)
    await write(chosen, changes(2))
    async with following(chosen) as found:
        await last(found, 1)
    async with await nats.connect(nats_server.url) as other:
        assert (await other.jetstream().stream_info(stream.name)).state.consumer_count == 0


async def test_a_missing_stream_is_named_and_may_come(nats_server: Nats) -> None:
    chosen = NatsOptions.model_validate({"servers": [nats_server.url], "stream": fresh_name("none")})
    with pytest.raises(NoDestination, match=f"has no stream {chosen.stream}"):
        async with following(chosen):
            pass


async def test_without_a_stream_new_messages_come(nats_server: Nats) -> None:
    core = {"servers": [nats_server.url], "mode": "core", "subject": f"{fresh_name('k')}.{{resource}}"}
    chosen = NatsOptions.model_validate(core)
    async with following(chosen) as found:
        with pytest.raises(CannotRead, match="mode is core"):
            await found.begin(None)
        assert await last(found, 10) == []
        await write(chosen, changes(3))
        assert versions(await news(found, 3)) == [1, 2, 3]


async def test_a_server_that_cannot_be_reached_is_named() -> None:
    server = f"nats://127.0.0.1:{reserve_port()}"
    with pytest.raises(Unavailable, match=re.escape(f"cannot connect to {server}")):
        async with following(NatsOptions.model_validate({"servers": [server], "stream": "K"})):
            pass
