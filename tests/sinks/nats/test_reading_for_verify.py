"""Reading back from a real server what the NATS sink wrote."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import nats
import pytest
from kubedelta_reader.sources import nats as readback

from bridge.model.change import Op
from bridge.model.formats.stored_record import FOREIGN, StoredVersion, StoredVersions
from bridge.model.record import Record
from sinks.base import ALL_STORED, ReadPurpose
from sinks.nats.options import NatsOptions
from sinks.nats.reader import nats_reader
from sinks.nats.sink import NatsSink
from sinks.reader import RecordReader
from tests.cluster.fixtures import MakeStream, NatsStream
from tests.cluster.servers import Nats
from tests.kit.readers import opened, rest
from tests.kit.records import CLUSTER_ROLES, a_delta, a_gap, as_stored, changes
from tests.kit.sinks import opened_sink

CLUSTER = "prod"


def options(server: Nats, stream: NatsStream, **further: Any) -> NatsOptions:
    subject = f"{stream.prefix}.{{group}}.{{resource}}.{{namespace}}.{{name}}"
    return NatsOptions.model_validate(
        {"servers": [server.url], "stream": stream.name, "subject": subject, "connect_timeout": 2.0, **further}
    )


async def write(chosen: NatsOptions, records: Sequence[Record]) -> None:
    sink = NatsSink("live", chosen, cluster=CLUSTER)
    async with opened_sink(sink):
        for start in range(0, len(records), 500):
            assert await sink.deliver(records[start : start + 500]) == ALL_STORED


def reading(chosen: NatsOptions) -> AbstractAsyncContextManager[RecordReader]:
    return opened(nats_reader("live", chosen, cluster=CLUSTER, purpose=ReadPurpose.VERIFY))


@pytest.mark.parametrize("form", ["cloudevents", "envelope"])
async def test_every_record_is_read_in_order_and_by_its_kind(
    nats_server: Nats, nats_stream: MakeStream, form: str
) -> None:
    chosen = options(nats_server, await nats_stream(), format=form)
    records: list[Record] = [
        a_delta(1),
        a_gap(2, 3),
        a_delta(4, resource=CLUSTER_ROLES, key="system:node 50%"),
        a_delta(5, op=Op.DELETED),
    ]
    await write(chosen, records)

    async with reading(chosen) as reader:
        assert await rest(reader) == as_stored(records)


async def test_a_long_stream_is_read_whole_and_then_only_what_is_new(
    nats_server: Nats, nats_stream: MakeStream
) -> None:
    chosen = options(nats_server, await nats_stream())
    await write(chosen, changes(1700))
    async with reading(chosen) as reader:
        assert await rest(reader) == as_stored(changes(1700))
        assert await rest(reader) == []
        await write(chosen, changes(3, first=1701))
        assert await rest(reader) == as_stored(changes(3, first=1701))


async def test_other_subjects_are_ignored_and_others_messages_foreign(
    nats_server: Nats, nats_stream: MakeStream
) -> None:
    stream = await nats_stream()
    chosen = options(nats_server, stream)
    await write(chosen, changes(1))
    async with await nats.connect(nats_server.url) as other:
        await other.jetstream().publish(f"{stream.prefix}.elsewhere", b"{}")
        await other.jetstream().publish(f"{stream.prefix}.core.pods.shop.web-1", b"{}")

    async with reading(chosen) as reader:
        assert await rest(reader) == [*as_stored(changes(1)), FOREIGN]


async def test_messages_that_went_from_the_stream_are_not_waited_for(
    nats_server: Nats, nats_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readback, "_BATCH", 10)
    stream = await nats_stream()
    chosen = options(nats_server, stream)
    await write(chosen, changes(30))
    found: list[StoredVersion] = []
    async with reading(chosen) as reader, await nats.connect(nats_server.url) as other:
        async for batch in reader.read():
            found += [version for record in batch for version in StoredVersions().of(record)]
            if len(found) == 10:
                await other.jetstream().purge_stream(stream.name, seq=26)

    assert found == as_stored([*changes(10), *changes(5, first=26)])
