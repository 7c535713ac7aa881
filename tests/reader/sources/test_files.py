"""A source of files that goes on from a saved position, whatever became of the files meanwhile."""

from __future__ import annotations

import gzip
import os
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard
from kubedelta_reader.sources.files import FileSource
from kubedelta_reader.sources.parts import parts_of

from sinks.file.parts import name_of_part

NOW = datetime(2026, 11, 27, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def line(number: int) -> bytes:
    return b'{"sequence":"%d"}' % number


def write(path: Path, *numbers: int) -> Path:
    with path.open("ab") as file:
        file.writelines(line(each) + b"\n" for each in numbers)
    return path


def close_part(path: Path, first: int, last: int, packed: bool = False) -> Path:
    part = name_of_part(path, first, last, NOW)
    path.rename(part)
    return compress(part) if packed else part


def compress(part: Path) -> Path:
    found = part.with_name(f"{part.name}.zst")
    found.write_bytes(zstandard.compress(part.read_bytes()))
    part.unlink()
    return found


async def rest(path: Path, position: bytes = b"", at_most: int | None = None) -> tuple[list[bytes | None], bytes]:
    """The lines from the position on, and the position behind them."""
    found: list[bytes | None] = []
    async with FileSource(path) as source:
        await source.resume(position)
        async for batch in source.read():
            found += [each.data for each in batch]
            if at_most is not None and len(found) >= at_most:
                break
        return found, source.position


async def test_a_source_goes_on_in_the_open_file(path: Path) -> None:
    write(path, 1, 2)
    found, position = await rest(path)
    assert found == [line(1), line(2)]

    write(path, 3)
    assert (await rest(path, position))[0] == [line(3)]


async def test_a_source_that_follows_says_once_behind_records_that_it_has_caught_up(path: Path) -> None:
    write(path)
    async with FileSource(path) as source, aclosing(source.follow()) as batches:
        assert await anext(batches) == ()

        write(path, 1, 2)
        assert [[each.data for each in await anext(batches)] for _ in range(2)] == [[line(1), line(2)], []]

        write(path, 3)
        assert [[each.data for each in await anext(batches)] for _ in range(2)] == [[line(3)], []]


def rotate_numbers(path: Path) -> None:
    """As logrotate with ``delaycompress`` does it, at the end with the former part compressed."""
    if (former := Path(f"{path}.1")).exists():
        Path(f"{path}.2.gz").write_bytes(gzip.compress(former.read_bytes()))
        former.unlink()
    path.rename(former)


def copy_and_truncate(path: Path) -> None:
    Path(f"{path}.1").write_bytes(path.read_bytes())
    os.truncate(path, 0)


async def test_without_a_line_the_position_is_the_oldest_record(path: Path) -> None:
    os.truncate(write(path, 1), 5)

    assert await rest(path) == ([], b"")


@pytest.mark.parametrize("packed", [False, True])
async def test_a_file_that_became_a_part_is_read_to_its_end(path: Path, packed: bool) -> None:
    write(path, 1, 2)
    _, position = await rest(path)
    write(path, 3)
    close_part(path, 1, 3, packed)
    write(path, 4)
    close_part(path, 4, 4)
    write(path, 5)

    assert (await rest(path, position))[0] == [line(3), line(4), line(5)]


async def test_a_part_is_compressed_where_a_source_stopped_in_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubedelta_reader.sources.files._BATCH", 2)
    write(path, 1, 2, 3, 4, 5)
    part = close_part(path, 1, 5)
    write(path, 6)
    found, position = await rest(path, at_most=2)
    compress(part)

    assert found == [line(1), line(2)]
    assert (await rest(path, position))[0] == [line(3), line(4), line(5), line(6)]


async def test_parts_of_logrotate_are_numbered_anew(path: Path) -> None:
    write(path, 1)
    _, position = await rest(path)
    rotate_numbers(write(path, 2))
    rotate_numbers(write(path, 3))
    write(path, 4)

    assert (await rest(path, position))[0] == [line(2), line(3), line(4)]


async def test_a_file_that_was_copied_and_truncated_is_read_in_the_copy(path: Path) -> None:
    write(path, 1)
    _, position = await rest(path)
    copy_and_truncate(write(path, 2))
    write(path, 3)

    assert (await rest(path, position))[0] == [line(2), line(3)]


async def test_the_position_behind_a_truncation_is_in_the_copy(path: Path) -> None:
    write(path, 1)
    async with FileSource(path) as source:
        assert [each.data async for batch in source.read() for each in batch] == [line(1)]
        copy_and_truncate(write(path, 2))
        assert [batch async for batch in source.read()] == []
        position = source.position

    assert (await rest(path, position))[0] == [line(2)]


async def test_lines_that_are_taken_back_may_come_twice_and_are_not_missed(path: Path) -> None:
    """The sink takes a batch back that it could not finish, and writes the same lines later."""
    _, position = await rest(write(path, 1, 2, 3))
    os.truncate(path, len(line(1)) + 1)

    assert await rest(path, position) == ([], (await rest(path, at_most=1))[1])
    write(path, 2, 3, 4)
    assert (await rest(path, position))[0] == [line(4)]


async def test_what_was_removed_unread_is_told(path: Path) -> None:
    write(path, 1)
    _, position = await rest(path)
    part = close_part(path, 1, 1)
    write(path, 2)
    part.unlink()

    async with FileSource(path) as source:
        await source.resume(position)
        assert [each.data async for batch in source.read() for each in batch] == [line(2)]
        assert source.lost
        assert source.notes == ["the rest of the file that was read last was removed before it was read"]


async def test_a_position_of_another_source_is_refused(path: Path) -> None:
    write(path, 1)
    async with FileSource(path) as source:
        with pytest.raises(ValueError, match="no position of such a source"):
            await source.resume(b"17")
    assert parts_of(path) == []
