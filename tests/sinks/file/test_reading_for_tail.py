"""The records that ``kubedelta tail`` reads in a file, whatever their format."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kubedelta_reader
import pytest
import zstandard
from kubedelta_reader.sources import Unavailable

from bridge.model.change import Evidence, Op
from bridge.model.formats.stored_record import FollowedRecord, followed
from bridge.model.record import Delta, Record, SnapshotEdge
from sinks.base import CannotRead, NoDestination, ReadPurpose
from sinks.file.options import FileOptions
from sinks.file.reader import FileReader
from tests.kit.readers import last, opened, present
from tests.kit.records import CLUSTER_ROLES, DEPLOYMENTS, TIME, a_delta, a_gap, a_snapshot
from tests.sinks.file.test_reading_for_verify import write

RECORDS: list[Delta] = [
    a_delta(1, op=Op.ADDED),
    a_delta(2, resource=DEPLOYMENTS, key="shop/web", evidence=Evidence.RELISTED),
    a_delta(3, resource=CLUSTER_ROLES, key="admin", op=Op.SYNC),
    a_delta(4, op=Op.DELETED),
]
SEEN = [
    (Op.ADDED, "pods", "shop", "web-1", "1001", "watched"),
    (Op.UPDATED, "deployments.apps", "shop", "web", "1002", "relisted"),
    (Op.SYNC, "clusterroles.rbac.authorization.k8s.io", "", "admin", "1003", "watched"),
    (Op.DELETED, "pods", "shop", "web-1", "1004", "watched"),
]


def unopened(path: Path | str) -> FileReader:
    options = FileOptions.model_validate({"path": str(path)})
    return FileReader("copy", options, cluster="prod", purpose=ReadPurpose.TAIL)


def seen(record: FollowedRecord) -> tuple[Any, ...]:
    return record.op, record.resource, record.namespace, record.name, record.version, record.evidence


async def read(path: Path, records: Sequence[Record], **options: Any) -> list[FollowedRecord]:
    await write(path, records, **options)
    async with opened(unopened(path)) as reader:
        return await present(reader)


@pytest.mark.parametrize(
    "options",
    [{}, {"format": "envelope"}, {"format": "row"}, {"format": "row", "row": {"object": "string"}}],
    ids=["cloudevents", "envelope", "row", "row with a text"],
)
async def test_a_record_is_read_in_every_format(tmp_path: Path, options: dict[str, Any]) -> None:
    found = await read(tmp_path / "deltas.ndjson", RECORDS, **options)
    assert [seen(each) for each in found] == SEEN
    assert {each.time[:23] for each in found} == {TIME[:23]}
    assert {each.cluster for each in found} == {"prod"}
    assert [each.object for each in found] == [each.body for each in RECORDS]


async def test_an_object_alone_has_its_kind_for_a_resource(tmp_path: Path) -> None:
    found = await read(tmp_path / "deltas.ndjson", RECORDS[:2], format="raw")
    assert [seen(each) for each in found] == [
        (None, "Pod", "shop", "web-1", "1001", ""),
        (None, "Deployment.apps", "shop", "web", "1002", ""),
    ]


async def test_notices_are_in_words(tmp_path: Path) -> None:
    began, ended = a_snapshot(SnapshotEdge.BEGAN), a_snapshot(SnapshotEdge.ENDED)
    found = await read(tmp_path / "deltas.ndjson", [began, a_gap(3, 5), ended])
    assert [each.notice.partition(":")[0] for each in found] == ["snapshot began", "gap", "snapshot ended"]
    assert "from 3 to 5" in found[1].notice
    assert [each.is_gap for each in found] == [False, True, False]


async def test_the_state_before_is_read_where_the_format_has_it(tmp_path: Path) -> None:
    records: list[Record] = [a_delta(1, before=b'{"n":1}', body=b'{"n":2}')]
    [found] = await read(tmp_path / "deltas.ndjson", records, format="envelope", include=["before"])
    assert (found.before, found.object) == (b'{"n":1}', b'{"n":2}')


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        b'{"type":"kubedelta.object.added.v1","partitionkey":"a/b"}',
        b"\xff" * 9,
        b"[" * 9999,
    ],
    ids=["empty", "text", "list", "without members", "another key", "no text", "deep"],
)
def test_lines_of_others_are_foreign(line: bytes) -> None:
    assert followed(kubedelta_reader.Record(line)) == FollowedRecord(line, foreign=True)


async def test_records_come_once_through_rotations(tmp_path: Path) -> None:
    path = tmp_path / "deltas.ndjson"
    await write(path, RECORDS[:2])
    async with opened(unopened(path)) as reader:
        assert [seen(each) for each in await last(reader, 1)] == SEEN[1:2]
        assert await present(reader) == []
        await write(path, RECORDS[2:3])
        path.rename(tmp_path / "deltas.ndjson.1")
        await write(path, RECORDS[3:])
        assert [seen(each) for each in await present(reader)] == SEEN[2:]


async def test_the_last_records_are_those_that_were_chosen(tmp_path: Path) -> None:
    path = tmp_path / "deltas.ndjson"
    await write(path, RECORDS)
    async with opened(unopened(path)) as reader:
        assert [seen(each) for each in await last(reader, 1, lambda each: each.resource != "pods")] == SEEN[2:3]


async def test_records_of_a_time_or_later_are_read(tmp_path: Path) -> None:
    path = tmp_path / "deltas.ndjson"
    await write(path, RECORDS)
    with path.open("ab") as file:
        file.write(b'{"time":"2001-01-01T00:00:00Z"}\n')
    moment = datetime.fromisoformat(TIME)
    async with opened(unopened(path)) as reader:
        await reader.begin(moment)
        assert len(await present(reader)) == len(RECORDS) + 1, "a record behind may repeat an older time"
    async with opened(unopened(path)) as reader:
        await reader.begin(moment + timedelta(seconds=1))
        assert await present(reader) == []


async def test_a_file_that_does_not_exist_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "deltas.ndjson"
    reader = unopened(path)
    with pytest.raises(NoDestination):
        await reader.open()
    await write(path, RECORDS)
    path.rename(tmp_path / "deltas.ndjson.1")
    async with opened(reader):
        assert [seen(each) for each in await present(reader)] == SEEN
    with pytest.raises(Unavailable, match="no file") as raised:
        await unopened(tmp_path / "missing" / "x").open()
    assert not isinstance(raised.value, NoDestination)
    with pytest.raises(CannotRead):
        unopened("-")


@pytest.mark.parametrize(
    "damaged",
    [
        gzip.compress(b'{"a":1}\n' * 1000)[:-20],
        zstandard.compress(bytes(200 << 20)),
        zstandard.compress(b'{"a":1}\n' * (2 << 20)),
        b"no gzip",
    ],
    ids=["torn", "a bomb", "a bomb of lines", "of another kind"],
)
async def test_a_damaged_part_does_not_stop_its_reader(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "deltas.ndjson"
    await write(path, RECORDS)
    path.with_name("deltas.ndjson.1.zst" if damaged.startswith(b"(") else "deltas.ndjson.1.gz").write_bytes(damaged)
    async with opened(unopened(path)) as reader:
        found = await present(reader)
    assert found[-5].foreign, "what is left out is not passed over in silence"
    assert [seen(record) for record in found[-4:]] == SEEN

    async with opened(unopened(path)) as reader:
        newest = await last(reader, 6, lambda record: not record.foreign)
    assert [seen(record) for record in newest] == SEEN


@pytest.mark.parametrize("seeks_time", [False, True])
def test_a_search_ends_when_the_reader_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeks_time: bool
) -> None:
    path = tmp_path / "deltas"
    part = tmp_path / "deltas.20200101T000000000000Z.00000000000000000001-00000000000000000001"
    part.write_bytes(b"{}\n" * 1000)
    began, closed = threading.Event(), threading.Event()
    looks: list[object] = []

    def unwanted(line: object) -> float:
        looks.append(line)
        began.set()
        closed.wait()
        return 0.0

    monkeypatch.setattr("sinks.file.reader.time_in", unwanted)

    async def search(reader: FileReader) -> None:
        if seeks_time:
            await reader.begin(datetime(2100, 1, 1, tzinfo=UTC))
            async for _ in reader.read():
                pass
        else:
            await reader.last(1, lambda record: bool(unwanted(record)))

    async def leave() -> None:
        reader = unopened(path)
        await reader.open()
        async with asyncio.TaskGroup() as tasks:
            searching = tasks.create_task(search(reader))
            await asyncio.to_thread(began.wait)
            searching.cancel()
        await reader.close()
        closed.set()

    asyncio.run(leave())  # Ends behind the threads.

    assert len(looks) == 1


async def test_a_batch_of_large_records_is_bounded_in_bytes(tmp_path: Path) -> None:
    path = tmp_path / "deltas"
    path.write_bytes((b"x" * (1 << 20) + b"\n") * 20)
    async with opened(unopened(path)) as reader:
        sizes = [sum(len(each.data or b"") for each in batch) async for batch in reader.read()]

    assert sum(sizes) == 20 << 20
    assert max(sizes) <= 5 << 20
