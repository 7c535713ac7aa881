"""Reading a file back that the sink wrote."""

from __future__ import annotations

import gzip
import os
import random
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard
from kubedelta_reader.sources import Unavailable, lines
from kubedelta_reader.sources.files import FileLines
from kubedelta_reader.sources.parts import parts_of

from bridge.model.change import Op
from bridge.model.formats.stored_record import FOREIGN, StoredVersion
from bridge.model.record import Record, split_at_notices
from sinks.base import ALL_STORED, CannotRead, ReadPurpose
from sinks.file.connection import FileConnection
from sinks.file.delivery import open_writer
from sinks.file.options import FileOptions
from sinks.file.reader import FileReader
from sinks.file.sink import FileSink
from tests.kit.readers import rest
from tests.kit.records import CLUSTER_ROLES, DEPLOYMENTS, a_delta, a_gap, as_stored, changes
from tests.kit.sinks import opened_sink

RECORDS: list[Record] = [
    a_delta(1, op=Op.ADDED),
    a_delta(2, key="shop/web-2", body=b'{"text":"pages\\nof text","op":"deleted","type":"none"}'),
    a_gap(3, 4),
    a_delta(5, resource=DEPLOYMENTS, key="shop/web", op=Op.SYNC),
    a_delta(6, resource=CLUSTER_ROLES, key="admin"),
    a_delta(7, op=Op.DELETED),
]


async def write(path: Path, records: Sequence[Record], **options: Any) -> None:
    sink = FileSink("copy", FileOptions.model_validate({"path": str(path), **options}), cluster="prod")
    async with opened_sink(sink):
        for where in split_at_notices(records):
            assert await sink.deliver(records[where]) == ALL_STORED


@asynccontextmanager
async def reading(path: Path) -> AsyncIterator[FileReader]:
    reader = FileReader("copy", FileOptions(path=path), cluster="prod", purpose=ReadPurpose.VERIFY)
    try:
        yield reader
    finally:
        await reader.close()


async def everything(path: Path) -> list[StoredVersion]:
    async with reading(path) as reader:
        await reader.open()
        return await rest(reader)


def cut(path: Path, count: int) -> bytes:
    """Take so many bytes from the end; what was there before."""
    whole = path.read_bytes()
    os.truncate(path, len(whole) - count)
    return whole


def rotate(path: Path, suffix: str) -> None:
    part = path.with_name(path.name + suffix)
    path.rename(part)
    if suffix.endswith(".gz"):
        part.write_bytes(gzip.compress(part.read_bytes()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deltas.ndjson"


@pytest.mark.parametrize("form", ["cloudevents", "envelope", "row"])
async def test_every_record_is_read_in_order_and_by_its_kind(path: Path, form: str) -> None:
    await write(path, RECORDS, format=form)

    assert await everything(path) == as_stored(RECORDS)


async def test_raw_objects_cannot_be_read_again(path: Path) -> None:
    await write(path, RECORDS, format="raw")
    options = FileOptions.model_validate({"path": path, "format": "raw"})

    with pytest.raises(CannotRead, match="format raw has no operations"):
        FileReader("copy", options, cluster="prod", purpose=ReadPurpose.VERIFY)


async def test_a_torn_last_line_is_reported_and_read_when_it_is_whole(path: Path) -> None:
    await write(path, changes(3))
    whole = cut(path, 7)
    async with reading(path) as reader:
        await reader.open()
        assert await rest(reader) == as_stored(changes(2))
        [note] = reader.notes
        assert str(path) in note
        assert f"{len(whole.splitlines(keepends=True)[2]) - 7} bytes" in note

        with path.open("ab") as file:
            file.write(whole[-7:])
        assert await rest(reader) == as_stored(changes(3))[2:]
        assert not reader.notes


async def test_foreign_lines_are_reported_and_the_others_are_read(path: Path) -> None:
    await write(path, changes(1))
    with path.open("ab") as file:
        file.write(b'not JSON\n{"level":"info"}\n[]\n{"specversion":"1.0","type":"com.acme.sold","source":"shop"}\n\n')
        file.write(b'{"type":"kubedelta.object.updated.v1","op":"jumped","partitionkey":"x"}\n\xff\xfe\n')
        file.write(b'{"cluster":"prod","resource":"pods","name":"a","uid":"u","resource_version":"1","op":"jumped"}\n')
        file.write(b'{"cluster":"prod","op":"added","gap":"gap/1/2"}\n')
    await write(path, changes(1, first=2))

    assert await everything(path) == [*as_stored(changes(1)), *[FOREIGN] * 9, *as_stored(changes(1, first=2))]


async def test_a_line_beyond_the_limit_is_passed_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 2000)
    long = a_delta(2, body=b'"' + b"x" * 7000 + b'"')
    await write(path, [a_delta(1), long, a_delta(3)])

    assert await everything(path) == [*as_stored([a_delta(1)]), FOREIGN, *as_stored([a_delta(3)])]


@pytest.mark.parametrize(
    ("oldest", "middle", "newest"),
    [(".10", ".2.gz", ".1"), ("-20261119.gz", "-20261120", "-20261121")],
    ids=["numbered", "dated"],
)
async def test_parts_that_were_moved_aside_are_read_before_the_file(
    path: Path, oldest: str, middle: str, newest: str
) -> None:
    for number, suffix in enumerate((oldest, middle, newest)):
        await write(path, changes(2, first=1 + 2 * number))
        rotate(path, suffix)
    await write(path, changes(2, first=7))
    path.with_name(path.name + ".bak").write_bytes(b"another's\n")

    assert await everything(path) == as_stored(changes(8))


async def test_a_truncated_file_is_read_from_its_beginning(path: Path) -> None:
    await write(path, changes(5))
    async with reading(path) as reader:
        await reader.open()
        await rest(reader)
        os.truncate(path, 0)
        await write(path, changes(2, first=6))
        assert await rest(reader) == as_stored(changes(2, first=6))


async def test_what_cannot_be_read_again_is_refused(path: Path) -> None:
    os.mkfifo(path)
    for each in (Path("-"), path, Path("/dev/null")):
        with pytest.raises(CannotRead, match="cannot be read again"):
            FileReader("copy", FileOptions(path=each), cluster="prod", purpose=ReadPurpose.VERIFY)


ROTATION = {"rotation": {"bytes": 4096}}


async def rotated(path: Path, count: int, *, first: int = 1) -> None:
    """Batches of three records; a part has a few of them."""
    sink = FileSink("copy", FileOptions.model_validate({"path": str(path), **ROTATION}), cluster="prod")
    async with opened_sink(sink):
        for start in range(first, first + count, 3):
            assert await sink.deliver(changes(3, first=start)) == ALL_STORED


async def test_closed_parts_are_read_before_the_file(path: Path) -> None:
    await rotated(path, 60)
    parts = parts_of(path)
    assert len(parts) > 4

    async with reading(path) as reader:
        assert f"and {len(parts)} closed parts" in await reader.open()
        assert await rest(reader) == as_stored(changes(60))
        await rotated(path, 60, first=61)
        assert await rest(reader) == as_stored(changes(60, first=61))
        assert await rest(reader) == []
        assert list(reader.notes) == []


@pytest.mark.parametrize("left", ["an empty file", "no file"])
async def test_parts_are_read_right_after_a_rotation(path: Path, left: str) -> None:
    await rotated(path, 6)
    file = FileConnection(path, sync=True)
    file.rotate()
    file.close()
    if left == "no file":  # A kill came before the new file was created.
        os.unlink(path)  # noqa: PTH108

    async with reading(path) as reader:
        await reader.open()
        assert await rest(reader) == as_stored(changes(6))
        await rotated(path, 30, first=7)
        assert await rest(reader) == as_stored(changes(30, first=7))


async def test_a_part_that_was_removed_is_named(path: Path) -> None:
    await rotated(path, 30)
    async with reading(path) as reader:
        await reader.open()
        oldest = parts_of(path)[0]
        oldest.path.unlink()
        found = await rest(reader)
    assert list(reader.notes) == [f"{oldest.path.name} was removed before it was read"]
    assert found == as_stored(changes(30))[-len(found) :]


@pytest.mark.parametrize("missing", [1, 30, 300])
async def test_a_torn_compressed_part_is_reported(path: Path, missing: int) -> None:
    part = path.with_name(path.name + ".1.zst")
    part.write_bytes(zstandard.compress(random.Random(1).randbytes(1000) + b"\n")[:-missing])
    await rotated(path, 3)
    async with reading(path) as reader:
        await reader.open()
        with pytest.raises(Unavailable, match=r"cannot read .*: the file ends within a frame"):
            await rest(reader)


def test_a_reader_beside_a_busy_writer_reads_each_line_once(path: Path) -> None:
    """Parts are closed, compressed and removed while it reads."""
    lines = [b'{"sequence":"%d","pad":"%s"}\n' % (n, b"x" * (n % 700)) for n in range(1, 1201)]
    options = FileOptions.model_validate({"path": path, **ROTATION})
    writer = open_writer(options)
    writer.append(lines[:1])
    reader, read = FileLines(path), list[bytes | None]()
    reader.open()

    def write() -> None:
        for start in range(1, len(lines), 3):
            writer.append(lines[start : start + 3])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while thread.is_alive():
            read.extend(reader.lines())
    finally:
        thread.join()
        writer.close()
    read.extend(reader.lines())
    reader.close()

    assert read == [line.rstrip(b"\n") for line in lines]
    assert reader.removed == []
