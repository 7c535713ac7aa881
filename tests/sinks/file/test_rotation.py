"""Files that are closed as parts, and compressed, without a lost or repeated line."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard
from kubedelta_reader.sources.parts import parts_of

from sinks.base import ALL_STORED, ReadPurpose, SinkUnavailable
from sinks.file.connection import describe, examine
from sinks.file.delivery import open_writer
from sinks.file.lines import sequence_in, time_in
from sinks.file.options import FileOptions, Rotation
from sinks.file.parts import PartRetention, ReadingLock, name_of_part, unread
from sinks.file.reader import FileReader
from sinks.file.sink import FileSink
from tests.kit.commands import child
from tests.kit.deadlines import BUSY
from tests.kit.records import a_delta, changes
from tests.kit.sinks import opened_sink
from tests.kit.small_disk import CannotMount, mounted_small_disk
from tests.kit.virtual_time import StandingClock
from tests.sinks.file import killed_writer

PLAIN = {"bytes": 8192, "compression": "none"}
PACKED = {"bytes": 8192}


def options(path: Path, **others: Any) -> FileOptions:
    return FileOptions.model_validate({"path": path, "rotation": PACKED} | others)


@asynccontextmanager
async def opened(path: Path, **others: Any) -> AsyncIterator[FileSink]:
    sink = FileSink("copy", options(path, **others), cluster="prod")
    async with opened_sink(sink):
        yield sink


async def write(path: Path, count: int, *, first: int = 1, batch: int = 10, **others: Any) -> None:
    async with opened(path, **others) as sink:
        for start in range(first, first + count, batch):
            assert await sink.deliver(changes(batch, first=start)) == ALL_STORED


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30 * BUSY):
        while not holds():  # noqa: ASYNC110 (another thread's work)
            await asyncio.sleep(0.005)


async def until_packed(path: Path) -> None:
    await until(lambda: bool(parts_of(path)) and all_packed(path))


def all_packed(path: Path) -> bool:
    return all(part.packed for part in parts_of(path))


def content(file: Path) -> bytes:
    if file.suffix == ".zst":
        with zstandard.open(file, "rb") as unpacked:
            return bytes(unpacked.read())
    return file.read_bytes()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def lines(path: Path) -> list[bytes]:
    """Of the folder, in the order of names, by other means than the sink's."""
    parts = sorted(each for each in path.parent.iterdir() if each.name.startswith(f"{path.name}."))
    whole = b"".join(content(each) for each in [*parts, path] if each.exists())
    return whole.splitlines()


def numbers(path: Path) -> list[int]:
    return [sequence_in(line) for line in lines(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deltas.ndjson"


# ── Parts ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rotation", [PLAIN, PACKED], ids=["plain", "packed"])
async def test_parts_hold_every_line_within_their_bound(path: Path, rotation: dict[str, Any]) -> None:
    await write(path, 300, rotation=rotation)

    assert numbers(path) == list(range(1, 301))
    parts = parts_of(path)
    assert len(parts) > 5
    assert all(len(content(part.path)) <= 8192 for part in parts)
    assert len(content(path)) <= 8192


@pytest.mark.parametrize("form", ["cloudevents", "envelope"])
async def test_a_name_has_the_first_and_last_number(path: Path, form: str) -> None:
    await write(path, 100, rotation=PLAIN, format=form)

    for part in parts_of(path):
        found = [sequence_in(line) for line in part.path.read_bytes().splitlines()]
        assert part.stem.rpartition(".")[2] == f"{found[0]:020d}-{found[-1]:020d}"
    assert sorted(part.path.name for part in parts_of(path)) == [part.path.name for part in parts_of(path)]


def test_names_ascend_when_the_clock_is_set_back(path: Path) -> None:
    now = datetime(2026, 11, 22, 10, tzinfo=UTC)
    names = [path.with_name("deltas.ndjson.1")]  # Of logrotate: without a time.
    names[0].touch()
    for moment in (now, now, now - timedelta(days=400), now + timedelta(seconds=1)):
        names.append(name_of_part(path, 1, 2, moment))
        names[-1].touch()

    assert names[1].name == f"deltas.ndjson.20261122T100000000000Z.{1:020d}-{2:020d}"
    assert names == sorted(names)
    assert [part.path for part in parts_of(path)] == names


async def test_a_batch_beyond_the_bound_is_written_whole(path: Path) -> None:
    body = b'"' + b"x" * 20_000 + b'"'
    async with opened(path, rotation=PLAIN) as sink:
        for number in range(1, 4):
            assert await sink.deliver([a_delta(number, body=body)]) == ALL_STORED

    assert len(parts_of(path)) == 2
    assert numbers(path) == [1, 2, 3]


async def test_a_file_is_closed_by_its_age_without_a_new_line(path: Path) -> None:
    async with opened(path, rotation={"age": 0.3, "compression": "none"}) as sink:
        await sink.deliver(changes(3))
        await until(lambda: len(parts_of(path)) == 1 and path.exists())
        assert content(path) == b""
        await asyncio.sleep(1)  # An empty file has no age.
        assert len(parts_of(path)) == 1
        await sink.deliver(changes(3, first=4))
        await until(lambda: len(parts_of(path)) == 2)

    assert numbers(path) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("form", ["cloudevents", "envelope"])
async def test_a_restart_does_not_make_a_file_younger(path: Path, form: str) -> None:
    """The records are of 2026-11-21."""
    await write(path, 3, batch=3, rotation={"age": "20000d"}, format=form)
    age = int(datetime.now(UTC).timestamp() - (time_in(lines(path)[0]) or 0))

    async with opened(path, rotation={"age": age + 3600, "compression": "none"}):
        await asyncio.sleep(0.7)
        assert parts_of(path) == []
    async with opened(path, rotation={"age": max(1, age - 1), "compression": "none"}):
        await until(lambda: len(parts_of(path)) == 1)
    assert numbers(path) == [1, 2, 3]


async def test_a_new_file_is_private_unless_the_former_was_not(path: Path) -> None:
    await write(path, 50, rotation=PLAIN)
    assert {mode_of(each) for each in path.parent.iterdir()} == {0o600}

    os.chmod(path, 0o640)  # noqa: PTH101
    await write(path, 50, first=51)
    await write(path, 10, first=101)
    async with opened(path):
        await until_packed(path)
    assert mode_of(path) == 0o640
    assert mode_of(parts_of(path)[-1].path) == 0o640


# ── Compression ──────────────────────────────────────────────────────────────


async def test_a_compressed_part_is_the_part(path: Path) -> None:
    await write(path, 60, rotation=PLAIN)
    before = {part.stem: (part.path.read_bytes(), part.status.st_mtime_ns) for part in parts_of(path)}

    async with opened(path):
        await until_packed(path)

    after = {part.stem: (content(part.path), part.status.st_mtime_ns) for part in parts_of(path)}
    assert after == before
    for part in parts_of(path):
        frame = zstandard.get_frame_parameters(part.path.read_bytes())
        assert (frame.content_size, frame.has_checksum) == (len(before[part.stem][0]), True)


async def test_a_compression_delays_neither_delivery_nor_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck, free = threading.Event(), threading.Event()

    compressor = zstandard.ZstdCompressor

    def slow(*args: Any, **others: Any) -> zstandard.ZstdCompressor:
        stuck.set()
        assert free.wait(60)
        return compressor(*args, **others)

    monkeypatch.setattr(zstandard, "ZstdCompressor", slow)
    async with opened(path) as sink:
        for start in range(1, 301, 10):
            assert await sink.deliver(changes(10, first=start)) == ALL_STORED
        assert await asyncio.to_thread(stuck.wait, 30)
        assert len(parts_of(path)) > 5
        assert not any(part.packed for part in parts_of(path))
        # The sink is closed while its thread is at work.
        asyncio.get_running_loop().call_soon(free.set)

    assert numbers(path) == list(range(1, 301)), "a part whose compression broke off is plain"
    assert not list(path.parent.glob("*.tmp"))
    monkeypatch.undo()
    async with opened(path):
        await until_packed(path)
    assert numbers(path) == list(range(1, 301))


# ── Kills ────────────────────────────────────────────────────────────────────


def killed(folder: Path, *options: str) -> list[Path]:
    """A folder for each kill."""
    code = f"import sys; from {killed_writer.__name__} import main; main(*sys.argv[1:])"
    with child(code, str(folder), *options) as killing:
        assert killing.process.wait(120 * BUSY) == 0
    return sorted(folder.iterdir())


async def test_a_kill_at_any_step_of_a_removal_keeps_the_newest(tmp_path: Path) -> None:
    folders = killed(tmp_path, "retaining")
    assert len(folders) > 20
    for folder in folders:
        path, acknowledged = folder / "deltas.ndjson", (folder / "acknowledged").read_text().split()
        async with opened(path, rotation=killed_writer.RETAINING) as sink:
            assert await sink.deliver(changes(5, first=1000)) == ALL_STORED
            await until(lambda path=path: len(parts_of(path)) <= 1 and all_packed(path))  # type: ignore[misc]
        *kept, _, _, _, _, last = numbers(path)
        assert last == 1004
        assert kept == list(range(kept[0], kept[-1] + 1)) if kept else not acknowledged, folder
        assert not acknowledged or kept[-1] >= int(acknowledged[-1]), folder
        assert len(list(folder.iterdir())) <= 3, "one part, the file, and the test's own"


async def test_a_kill_at_any_step_loses_no_line(tmp_path: Path) -> None:
    folders = killed(tmp_path)
    assert len(folders) > 25
    half = 0
    for folder in folders:
        path = folder / "deltas.ndjson"
        acknowledged = int(
            (folder / "acknowledged").read_text().split()[-1:][0] if (folder / "acknowledged").read_bytes() else 0
        )
        half += len(list(folder.glob("*.tmp")))
        async with opened(path) as sink:
            assert await sink.deliver(changes(5, first=1000)) == ALL_STORED
            await until(partial(all_packed, path))
        assert not list(folder.glob("*.tmp"))
        stored = numbers(path)
        assert stored[:acknowledged] == list(range(1, acknowledged + 1)), folder
        assert stored[-5:] == list(range(1000, 1005))
        # The kernel may take a part of a write before the kill: whole lines of it stay.
        assert 0 <= len(stored) - 5 - acknowledged <= killed_writer.BATCH, folder
        assert len({part.stem for part in parts_of(path)}) == len(list(folder.iterdir())) - 2
    assert half > 0, "no kill came within a compression"


# ── Strangers ────────────────────────────────────────────────────────────────


async def test_no_symbolic_link_is_followed_or_removed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep me")
    await write(path, 40, rotation=PLAIN)
    first, second = parts_of(path)[:2]
    links = [
        first.path.with_name(f"{first.path.name}.zst"),
        second.path.with_name(f"{second.path.name}.zst.tmp"),
        path.with_name(f"{path.name}.20200101T000000000000Z.{1:020d}-{2:020d}"),
    ]
    for link in links:
        link.symlink_to(victim)

    async with opened(path) as sink:
        for start in range(41, 81, 10):
            assert await sink.deliver(changes(10, first=start)) == ALL_STORED
        await until(lambda: any(part.packed for part in parts_of(path)))

    assert victim.read_text() == "keep me"
    assert all(link.is_symlink() for link in links)
    assert first.path.exists()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.symlink_to(path.with_name("target")), "is a symbolic link; name the file itself in path"),
        (os.mkfifo, "is not a regular file and cannot be rotated; leave the option out"),
    ],
    ids=["link", "pipe"],
)
def test_only_a_regular_file_is_rotated(path: Path, make: Callable[[Path], None], reason: str) -> None:
    make(path)

    (wrong,) = examine(options(path))
    assert str(wrong) == f"rotation: {path} {reason}"
    with pytest.raises(SinkUnavailable, match="rotation: "):
        open_writer(options(path))


def test_standard_output_and_long_names_are_not_rotated(tmp_path: Path) -> None:
    assert "standard output cannot be rotated" in str(examine(options(Path("-")))[0])
    assert "would have names of more than 255 bytes" in str(examine(options(tmp_path / ("x" * 190)))[0])


async def test_check_counts_the_parts(path: Path) -> None:
    assert describe(options(path)) == f"{path}, to be created; 0 closed parts"
    await write(path, 40, rotation=PLAIN)
    assert describe(options(path)).endswith(f" bytes; {len(parts_of(path))} closed parts")


# ── Full disks ───────────────────────────────────────────────────────────────


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Any]:
    try:
        with mounted_small_disk(tmp_path / "disk") as disk:
            yield disk
    except CannotMount as error:
        pytest.skip(f"no small disk: {error}")


def test_check_tells_a_read_only_disk_from_missing_rights(small_disk: Any) -> None:
    small_disk.make_read_only()
    with pytest.raises(SinkUnavailable, match="deltas: Read-only file system"):
        describe(options(small_disk.folder / "deltas"))


async def test_a_full_disk_holds_deliveries_up_and_loses_nothing(small_disk: Any) -> None:
    path = small_disk.folder / "deltas.ndjson"
    async with opened(path, rotation={"bytes": "64KiB"}) as sink:
        assert await sink.deliver(changes(100)) == ALL_STORED
        small_disk.fill()
        receipt = await sink.deliver(changes(1000, first=101))
        assert receipt.failure is not None
        assert receipt.failure.reason == f"{path}: No space left on device"
        small_disk.make_room()
        assert await sink.deliver(changes(1000, first=101)) == ALL_STORED

    assert numbers(path) == list(range(1, 1101))


# ── Retention ────────────────────────────────────────────────────────────────


def stems(path: Path) -> list[str]:
    return [part.stem for part in parts_of(path)]


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_the_oldest_parts_are_removed_beyond_a_number(path: Path, compression: str) -> None:
    await write(path, 200, rotation=PLAIN)
    before = stems(path)
    rotation = {**PLAIN, "compression": compression, "retain_parts": 3}
    async with opened(path, rotation=rotation) as sink:
        await until(lambda: stems(path) == before[-3:])
        for start in range(201, 301, 10):
            assert await sink.deliver(changes(10, first=start)) == ALL_STORED
        await until(lambda: len(parts_of(path)) == 3)
    kept = numbers(path)
    assert kept == list(range(kept[0], 301)), "the newest parts and the open file"


async def test_parts_are_removed_beyond_their_size_when_packed(path: Path) -> None:
    await write(path, 200, rotation=PLAIN)
    before = stems(path)
    async with opened(path, rotation={**PACKED, "retain_bytes": 8192}):
        await until(lambda: all_packed(path) and sum(part.status.st_size for part in parts_of(path)) <= 8192)
    sizes = [part.status.st_size for part in parts_of(path)]
    assert len(sizes) > 1, "a compressed part is smaller"
    assert sum(sizes) + 2 * max(sizes) > 8192, "no more than needed"
    assert stems(path) == before[-len(sizes) :]


async def test_parts_are_removed_at_their_age(path: Path) -> None:
    await write(path, 60, rotation=PLAIN)
    old = path.with_name(f"{path.name}.20200101T000000000000Z.{1:020d}-{2:020d}")
    old.write_bytes(b"{}\n")
    before = stems(path)
    async with opened(path, rotation={**PLAIN, "retain_age": "1h"}):
        await until(lambda: stems(path) == before[1:])
    async with opened(path, rotation={**PLAIN, "retain_age": 1}):
        await until(lambda: not parts_of(path))
    assert len(content(path)) > 0, "the open file stays"


def test_a_clock_that_jumps_makes_no_part_older(path: Path) -> None:
    rotation = options(path, rotation={**PLAIN, "retain_age": "1h"}).rotation
    assert rotation is not None
    closed = datetime(2026, 11, 22, 10, tzinfo=UTC)
    name_of_part(path, 1, 2, closed).touch()
    clock, wall = StandingClock(), [closed + timedelta(minutes=10)]
    retention = PartRetention(rotation, now=clock, wall=lambda: wall[0])
    assert retention.due_in(parts_of(path)) == 3000
    wall[0] += timedelta(days=400)
    assert not retention.surplus(parts_of(path), by_size=True)
    clock.now += 3000
    assert retention.surplus(parts_of(path), by_size=True) == parts_of(path)


def test_a_part_that_was_gone_meanwhile_counts_as_new(path: Path) -> None:
    """What is known of parts is that of the parts which are there: a sink closes new ones for as long as it runs."""
    rotation = options(path, rotation={**PLAIN, "retain_age": "1h"}).rotation
    assert rotation is not None
    closed = datetime(2026, 11, 22, 10, tzinfo=UTC)
    name_of_part(path, 1, 2, closed).touch()
    [part], clock, wall = parts_of(path), StandingClock(), [closed]
    retention = PartRetention(rotation, now=clock, wall=lambda: wall[0])
    assert retention.due_in([part]) == 3600
    assert retention.may_stay(part)
    clock.now += 3600
    wall[0] += timedelta(minutes=10)
    assert not retention.may_stay(part)
    assert not retention.surplus([], by_size=True)
    assert retention.due_in([part]) == 3000
    assert retention.may_stay(part)


async def test_parts_that_verify_has_not_read_stay(path: Path) -> None:
    await write(path, 100, rotation=PLAIN)
    before = stems(path)
    reader = FileReader("copy", options(path), cluster="prod", purpose=ReadPurpose.VERIFY)
    await reader.open()
    removing = {**PLAIN, "compression": "zstd", "retain_parts": 1}
    async with opened(path, rotation=removing) as sink:
        await sink.deliver(changes(1, first=101))
        found = [record async for batch in reader.read() for record in batch]
        assert len(found) == 101
        assert not reader.notes
    await reader.close()
    async with opened(path, rotation=removing):
        await until(lambda: stems(path) == before[-1:])


async def test_a_locked_part_keeps_all_newer_ones(path: Path) -> None:
    await write(path, 100, rotation=PLAIN)
    before = stems(path)
    lock = ReadingLock()
    lock.move_to(parts_of(path)[2].path)
    async with opened(path, rotation={**PLAIN, "retain_parts": 1}):
        await until(lambda: stems(path) == before[2:])
    assert stems(path) == before[2:]
    lock.move_to(None)


async def test_a_part_that_is_locked_for_long_is_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may read it may lock it, and fill the disk so."""
    await write(path, 100, rotation=PLAIN)
    before = stems(path)
    lock = ReadingLock()
    lock.move_to(parts_of(path)[0].path)
    monkeypatch.setattr("sinks.file.parts.LONGEST_READ", 0.0)
    async with opened(path, rotation={**PLAIN, "retain_parts": 1}):
        await until(lambda: stems(path) == before[-1:])
    lock.move_to(None)


def test_a_lock_keeps_a_part_for_an_hour(path: Path) -> None:
    path.with_name(f"{path.name}.1").write_bytes(b"1\n")
    [part], clock = parts_of(path), StandingClock()
    kept = PartRetention(Rotation(retain_parts=1), now=clock)
    assert kept.may_stay(part)
    clock.now += 3599
    assert kept.may_stay(part)
    clock.now += 2
    assert not kept.may_stay(part)


def test_a_reader_does_not_wait_for_a_lock_of_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = path.with_name("a")
    part.write_bytes(b"1")
    monkeypatch.setattr("sinks.file.parts._LONGEST_WAIT", 0.0)
    with unread(part) as is_free:
        assert is_free
        lock = ReadingLock()
        lock.move_to(part)
    with unread(part) as is_free:
        assert is_free, "it goes on without one"


async def test_a_locked_part_is_not_compressed_yet(path: Path) -> None:
    """The writer has the lock of a part for a moment behind the rename."""
    await write(path, 60, rotation=PLAIN)
    locked, *others = (part.path for part in parts_of(path))
    lock = ReadingLock()
    lock.move_to(locked)

    async with opened(path):
        await until(lambda: not any(part.exists() for part in others))

    assert numbers(path) == list(range(1, 61)), "no part is there twice"
    lock.move_to(None)
    async with opened(path):
        await until_packed(path)


async def test_files_of_others_are_neither_compressed_nor_removed(path: Path) -> None:
    """Such as one that logrotate moved, and half of a file that an operator compressed by hand."""
    await write(path, 60, rotation=PLAIN)
    first = parts_of(path)[0].path
    half = zstandard.compress(first.read_bytes())[:-20]
    foreign = {path.with_name(f"{path.name}.1"): b"others\n", first.with_name(f"{first.name}.zst"): half}
    for each, its in foreign.items():
        each.write_bytes(its)
    async with opened(path, rotation={**PACKED, "retain_parts": 1}):
        await until(lambda: len(stems(path)) == 3 and bool(parts_of(path)[-1].packed))
    assert {each: each.read_bytes() for each in foreign} == foreign
    assert first.exists()


async def test_where_parts_cannot_be_compressed_they_stay_plain_and_are_removed_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the removal makes room."""
    await write(path, 100, rotation=PLAIN)
    before = stems(path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "utime", full)
    async with opened(path, rotation={**PACKED, "retain_bytes": 10_000}):
        await until(lambda: stems(path) == before[-1:])
    assert not any(part.packed for part in parts_of(path))
    assert not list(path.parent.glob("*.tmp"))


def test_a_lock_follows_a_part_that_is_compressed_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the opening and the lock, the compressed part takes the place of the plain one."""
    plain = path.with_name("a")
    packed = path.with_name("a.zst")
    plain.write_bytes(b"1")
    flock = fcntl.flock

    def slow_flock(fd: int, how: int) -> None:
        if plain.exists():
            packed.write_bytes(b"2")
            plain.unlink()
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", slow_flock)
    lock = ReadingLock()
    lock.move_to(plain)

    with unread(packed) as is_free:
        assert not is_free
    lock.move_to(None)
    with unread(packed) as is_free:
        assert is_free
