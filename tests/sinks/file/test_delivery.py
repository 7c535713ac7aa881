"""Files that hold whole lines only, and pipes that may have slow readers."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sinks.base import SinkUnavailable
from sinks.file import connection as syncing
from sinks.file.connection import describe
from sinks.file.delivery import AppendFailed, FileWriter, PipeWriter, open_writer
from sinks.file.options import FileOptions, Fsync
from tests.kit.deadlines import BUSY

A, B, C = b'{"n":1}\n', b'{"n":2}\n', b'{"n":3}\n'


def file_writer(path: Path, **options: Any) -> FileWriter:
    return FileWriter(FileOptions.model_validate({"path": path, **options}), name="copy")


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """The kernel takes a part of what is written and refuses the rest, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file of 100 MB, almost all of it a hole, so that a limit on its size hurts no other file of this process."""
    path = tmp_path / "large.ndjson"
    with path.open("wb") as file:
        file.truncate(100_000_000)
        file.seek(0, os.SEEK_END)
        file.write(b"\n")
    return path


@pytest.mark.parametrize("fsync", Fsync)
def test_lines_are_appended_behind_what_is_there(tmp_path: Path, fsync: Fsync) -> None:
    path = tmp_path / "deltas.ndjson"
    for lines in ([A, B], [C]):
        file = file_writer(path, fsync=fsync)
        file.append(lines)
        file.close()

    assert path.read_bytes() == A + B + C


@pytest.mark.parametrize("torn", [b'{"n":2', b"{", b"\0\0\0\0", b'{"long":"' + b"x" * 200_000])
@pytest.mark.parametrize("whole", [A, b""])
def test_a_torn_last_line_is_cut_off_when_the_file_is_opened(tmp_path: Path, whole: bytes, torn: bytes) -> None:
    path = tmp_path / "deltas.ndjson"
    path.write_bytes(whole + torn)

    file = file_writer(path, fsync="never")
    file.append([B])
    file.close()

    assert path.read_bytes() == whole + B


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")

    with pytest.raises(SinkUnavailable, match=r"notes\.txt: it ends with a line that is not JSON"):
        file_writer(path, fsync="never")

    assert path.read_text() == "dear diary"


def test_a_batch_too_large_for_the_disk_leaves_no_trace(large: Path) -> None:
    file = file_writer(large)
    size = large.stat().st_size

    with files_no_larger_than(size + len(A) + 3), pytest.raises(AppendFailed, match="File too large") as failed:
        file.append([A, B])

    assert failed.value.kept == 0
    assert large.stat().st_size == size
    file.append([A, B])
    file.close()
    with large.open("rb") as readback:
        readback.seek(size)
        assert readback.read() == A + B


def test_two_sinks_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "deltas.ndjson"
    first = file_writer(path, fsync="never")

    with pytest.raises(SinkUnavailable, match="another kubedelta sink appends to it"):
        file_writer(path, fsync="never")

    first.close()
    file_writer(path, fsync="never").close()


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    path, rotated = tmp_path / "deltas.ndjson", tmp_path / "deltas.ndjson.1"
    file = file_writer(path)
    file.append([A])

    path.rename(rotated)
    file.append([B])
    path.unlink()
    file.append([C])
    file.close()

    assert (rotated.read_bytes(), path.read_bytes()) == (A, C)


def test_appends_fail_until_a_lost_folder_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "mount"
    folder.mkdir()
    file = file_writer(folder / "deltas.ndjson")
    folder.rename(tmp_path / "elsewhere")

    for _ in range(2):
        with pytest.raises(AppendFailed, match="No such file or directory"):
            file.append([A])

    folder.mkdir()
    file.append([B])
    file.close()
    assert (folder / "deltas.ndjson").read_bytes() == B


def a_pipe() -> tuple[int, PipeWriter]:
    reading, writing = os.pipe()
    stream = PipeWriter(writing, "the pipe")
    stream.idle_timeout = 30.0 * BUSY
    return reading, stream


def reader_of(reading: int) -> tuple[threading.Thread, list[bytes]]:
    """A thread that reads lines until the pipe is closed, and the lines."""
    read: list[bytes] = []

    def run() -> None:
        with os.fdopen(reading, "rb") as pipe:
            read.extend(pipe)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, read


def test_a_pipe_takes_more_than_it_holds_while_somebody_reads() -> None:
    reading, stream = a_pipe()
    lines = [b'{"n":%d,"pad":"%s"}\n' % (n, b"x" * 10_000) for n in range(50)]
    reader, read = reader_of(reading)

    stream.append(lines)
    stream.close()
    reader.join(10 * BUSY)

    assert read == lines


def test_an_unread_pipe_fails_and_a_torn_line_is_completed_first() -> None:
    reading, stream = a_pipe()
    line = b'{"pad":"%s"}\n' % (b"x" * 50_000)

    stream.idle_timeout = 0.3
    with pytest.raises(AppendFailed, match="the pipe: nobody reads it") as failed:
        stream.append([line, line, line])
    assert failed.value.kept == 1

    stream.idle_timeout = 30.0 * BUSY
    reader, read = reader_of(reading)
    stream.append([line, line])
    stream.close()
    reader.join(10 * BUSY)
    assert read == [line] * 4


def test_an_append_to_a_pipe_without_a_reader_fails() -> None:
    reading, stream = a_pipe()
    os.close(reading)

    with pytest.raises(AppendFailed, match="its reader is gone"):
        stream.append([A])
    stream.close()


def test_waiting_for_a_reader_can_be_interrupted() -> None:
    reading, stream = a_pipe()
    ended = threading.Event()

    def append() -> None:
        with pytest.raises(AppendFailed):
            stream.append([b"x" * 1_000_000])
        ended.set()

    threading.Thread(target=append).start()
    while not ended.wait(0.05):
        stream.interrupt()
    stream.close()
    os.close(reading)


def test_an_append_to_a_full_device_fails() -> None:
    stream = open_writer(FileOptions(path=Path("/dev/full")))

    with pytest.raises(AppendFailed, match="/dev/full: No space left on device"):
        stream.append([A])
    stream.close()


@pytest.mark.parametrize(
    ("path", "reason"),
    [("missing/deltas.ndjson", "the folder .*missing does not exist"), (".", "it is a folder")],
)
def test_an_unwritable_path_is_reported_before_anything_is_sent(tmp_path: Path, path: str, reason: str) -> None:
    options = FileOptions(path=tmp_path / path)

    with pytest.raises(SinkUnavailable, match=reason):
        describe(options)
    with pytest.raises(SinkUnavailable, match="cannot write to"):
        open_writer(options)


def test_a_named_pipe_is_unavailable_until_it_has_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    options = FileOptions(path=path, fsync=Fsync.BATCH)
    with pytest.raises(SinkUnavailable, match="cannot write to"):
        open_writer(options)

    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    stream = open_writer(options)
    stream.append([A])
    assert os.read(reading, 100) == A
    stream.close()
    os.close(reading)


def test_a_terminal_gets_escapes_and_a_pipe_the_raw_bytes() -> None:
    line = '{"name":"\u009b31m\u202egnp"}\n'.encode()
    ours, its = os.openpty()
    terminal = PipeWriter(its, "standard output")
    terminal.append([line])
    terminal_got = os.read(ours, 1000)
    terminal.close()
    os.close(ours)
    reader, writer = os.pipe()
    pipe = PipeWriter(writer, "standard output")
    pipe.append([line])
    pipe_got = os.read(reader, 1000)
    pipe.close()
    os.close(reader)

    assert terminal_got.strip() == b'{"name":"\\u009b31m\\u202egnp"}'
    assert pipe_got == line


# ── An fsync at most each interval ───────────────────────────────────────────


class Syncs:
    """The fsyncs so far, each by the size of the file."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.fails = False
        patch.setattr(syncing, "_force_to_disk", self._force)

    def _force(self, fd: int) -> None:
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.sizes.append(os.fstat(fd).st_size)


def slowly(path: Path) -> FileWriter:
    return file_writer(path, fsync="interval", fsync_interval="10s")


def test_lines_count_as_stored_after_the_next_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, syncs = tmp_path / "deltas.ndjson", Syncs(monkeypatch)
    file = slowly(path)
    file.append([A])
    assert syncs.sizes == [len(A)], "the first at once"
    with ThreadPoolExecutor(1) as thread:
        appending = thread.submit(file.append, [B])
        while path.read_bytes() != A + B:
            os.sched_yield()
        assert not appending.done()
        assert len(syncs.sizes) == 1, "readers have the line, and the cursor has not"
        file.interrupt()
        appending.result(10 * BUSY)
    assert syncs.sizes == [len(A), len(A + B)]
    file.close()


def test_a_full_batch_waits_for_no_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = Syncs(monkeypatch)
    file = slowly(tmp_path / "deltas.ndjson")
    for _ in range(3):
        file.append([A] * 1000)
    file.close()
    assert len(syncs.sizes) == 3


def test_lines_without_their_fsync_are_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, syncs = tmp_path / "deltas.ndjson", Syncs(monkeypatch)
    file = slowly(path)
    syncs.fails = True
    with pytest.raises(AppendFailed, match="Input/output error") as failed:
        file.append([A])
    assert failed.value.kept == 0
    assert path.read_bytes() == b""
    syncs.fails = False
    file.append([A])
    file.close()
    assert path.read_bytes() == A


def test_the_interval_belongs_to_its_policy(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="fsync_interval has no effect without fsync: interval"):
        FileOptions(path=tmp_path / "deltas.ndjson", fsync_interval="1s")  # type: ignore[arg-type]
