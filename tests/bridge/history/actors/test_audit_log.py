"""The audit log is read through its rotations, from a position on."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kubedelta_reader.sources import lines
from kubedelta_reader.sources.files import FileSource
from kubedelta_reader.sources.parts import timed_parts_of

from tests.kit.deadlines import BUSY


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "audit.log"
    path.touch()
    return path


@pytest.fixture
async def log(path: Path) -> AsyncIterator[FileSource]:
    async with FileSource(path, parts=timed_parts_of) as log:
        yield log


async def rest(log: FileSource) -> list[bytes | None]:
    return [record.data async for batch in log.read() for record in batch]


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def rotate(path: Path, time: str, *, compressed: bool = False) -> None:
    """As lumberjack does."""
    backup = path.with_name(f"audit-2026-11-27T{time}.000.log")
    path.rename(backup)
    if compressed:
        backup.with_name(f"{backup.name}.gz").write_bytes(gzip.compress(backup.read_bytes()))
        backup.unlink()


async def test_lines_come_once_through_rotations(path: Path, log: FileSource) -> None:
    write(path, b"1\n2\n")
    assert await rest(log) == [b"1", b"2"]
    append(path, b"3\n")
    rotate(path, "10-00-00")
    write(path, b"4\n")
    rotate(path, "11-00-00", compressed=True)
    write(path, b"5\n")
    assert await rest(log) == [b"3", b"4", b"5"]
    assert await rest(log) == []


async def test_another_process_goes_on_at_the_position_in_a_renamed_and_compressed_file(path: Path) -> None:
    write(path, b"1\n2\n")
    async with FileSource(path, parts=timed_parts_of) as log:
        assert await rest(log) == [b"1", b"2"]
        position = log.position
    append(path, b"3\n")
    rotate(path, "10-00-00", compressed=True)
    write(path, b"4\n")
    async with FileSource(path, parts=timed_parts_of) as later:
        await later.resume(position)
        assert await rest(later) == [b"3", b"4"]
        assert not later.lost


async def test_a_line_without_its_end_waits_for_it(path: Path, log: FileSource) -> None:
    write(path, b"1\n2")
    assert await rest(log) == [b"1"]
    append(path, b"2\n")
    assert await rest(log) == [b"22"]


async def test_a_torn_line_in_front_of_another_file_is_passed_over(path: Path) -> None:
    write(path, b"1\n2")
    rotate(path, "10-00-00")
    write(path, b"3\n")
    async with FileSource(path, parts=timed_parts_of) as log:
        assert await rest(log) == [b"1", b"3"]


async def test_a_file_without_a_line_yet_is_no_loss(path: Path, log: FileSource) -> None:
    assert await rest(log) == []
    write(path, b"1\n")
    assert await rest(log) == [b"1"]
    rotate(path, "10-00-00")
    write(path, b"")
    assert await rest(log) == []
    assert not log.lost


async def test_files_of_others_are_not_read(path: Path) -> None:
    write(path, b"1\n")
    append(path.with_name("audit-policy.log"), b"mine\n")
    append(path.with_name("audit-2026-11-27.log"), b"mine\n")
    append(path.with_name("audit.log.1"), b"mine\n")
    async with FileSource(path, parts=timed_parts_of) as log:
        assert await rest(log) == [b"1"]


async def test_a_line_that_is_too_long_is_passed_over(
    path: Path, log: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 8)
    write(path, b"1\n" + b"x" * 100 + b"\n2\n")
    assert await rest(log) == [b"1", None, b"2"]


async def test_a_pipe_in_place_of_the_file_holds_nobody_up(path: Path, log: FileSource) -> None:
    write(path, b"1\n")
    assert await rest(log) == [b"1"]
    for time, content in (("10-00-00", b"2\n"), ("11-00-00", b"3\n")):
        rotate(path, time)
        write(path, content)
    rotate(path, "12-00-00")
    os.mkfifo(path)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(rest(log))
        done, _ = await asyncio.wait([reading], timeout=2 * BUSY)
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))  # Whoever waits for a writer goes on.
    assert (reading.result(), done) == ([b"2", b"3"], {reading})
    rotate(path, "13-00-00")
    write(path, b"4\n")
    assert await rest(log) == [b"4"]
