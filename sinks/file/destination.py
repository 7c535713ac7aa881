"""Where lines go. All methods block and are called from one thread at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from bridge.model.primitives.printable import escaped
from sinks.base import SinkUnavailable
from sinks.file.options import STANDARD_OUTPUT, FileOptions, Fsync

_MODE = 0o640
"""Of a new file: readable by the group, as a log shipper beside the bridge wants it, and by nobody else."""
_BLOCK = 64 * 1024
_TORN_BEGINS = b"{\0"
"""A line of ours begins with a brace; zeros are what a file system leaves where a power cut took the data."""
_force_to_disk = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class AppendFailed(Exception):
    """Not all lines were taken. The message says why, for the operator."""

    def __init__(self, reason: str, kept: int) -> None:
        super().__init__(reason)
        self.kept = kept
        """Lines, from the first, that were taken nevertheless."""


class Destination(Protocol):
    def append(self, lines: Sequence[bytes]) -> None:
        """Write whole lines. Raises AppendFailed."""
        ...

    def interrupt(self) -> None:
        """From another thread: make an ``append`` that waits for a reader give up."""
        ...

    def close(self) -> None: ...


def open_destination(options: FileOptions) -> Destination:
    """Raises SinkUnavailable."""
    try:
        if options.path == STANDARD_OUTPUT:
            return Stream(os.dup(1), "standard output")
        if _is_stream(options.path):
            return Stream(os.open(options.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC), str(options.path))
        return LineFile(options.path, sync=options.fsync is Fsync.BATCH)
    except OSError as error:
        raise SinkUnavailable(f"cannot write to {options.path}: {error.strerror}") from error


def describe(options: FileOptions) -> str:
    """What is found there now, without opening it. Raises SinkUnavailable."""
    if options.path == STANDARD_OUTPUT:
        return f"standard output, {'a terminal' if sys.__stdout__ and sys.__stdout__.isatty() else 'not a terminal'}"
    path = options.path
    if not path.parent.is_dir():
        raise SinkUnavailable(f"cannot write to {path}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise SinkUnavailable(f"cannot write to {path}: it is a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise SinkUnavailable(f"cannot write to {path}: permission denied")
    return f"{path}, {path.stat().st_size} bytes" if path.exists() else f"{path}, to be created"


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise SinkUnavailable(f"cannot write to {path}: it is a folder")
    return not stat.S_ISREG(mode)


class LineFile:
    """A regular file that holds whole lines only.

    A line without its newline at the end is what a crash in the middle of a write left behind. It was never
    acknowledged and will come again, so it is cut off: completed with a newline it would stay there as a line that no
    reader can parse.
    """

    def __init__(self, path: Path, *, sync: bool) -> None:
        """Open or create it, lock it against other writers and mend its end. Raises OSError, SinkUnavailable."""
        self._path = path
        self._sync = sync
        self._cut_at: int | None = None
        self._fd = self._open()

    def append(self, lines: Sequence[bytes]) -> None:
        """All or none."""
        try:
            if self._was_moved():
                self._reopen()
            self._cut()
            end = os.fstat(self._fd).st_size
            self._cut_at = end
            _write_fully(self._fd, b"".join(lines))
            if self._sync:
                _force_to_disk(self._fd)
            self._cut_at = None
        except (OSError, SinkUnavailable) as error:
            self._try_to_cut()
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise AppendFailed(f"{self._path}: {reason}", kept=0) from error

    def interrupt(self) -> None:
        """A disk is never waited for in small steps."""

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> int:
        existed = self._path.exists()
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            self._lock(fd)
            _mend(fd, self._path)
            if self._sync and not existed:
                _sync_folder(self._path.parent)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _reopen(self) -> None:
        self.close()
        self._cut_at = None
        self._fd = self._open()

    def _lock(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SinkUnavailable(f"cannot write to {self._path}: another kubedelta sink appends to it") from None

    def _was_moved(self) -> bool:
        if self._fd < 0:
            return True
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return True
        ours = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)

    def _cut(self) -> None:
        """Take back what a failed append left."""
        if self._cut_at is not None:
            os.ftruncate(self._fd, self._cut_at)
            self._cut_at = None

    def _try_to_cut(self) -> None:
        with contextlib.suppress(OSError):  # The next append begins with it.
            self._cut()


class Stream:
    """A pipe, a terminal, a device: nothing can be taken back, and a reader may be slow or gone.

    Writes in pieces that a pipe takes at once when it says it is ready, so that no thread is ever stuck in one.
    """

    patience = 10.0
    """Seconds without any progress before the reader counts as stuck."""

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self._name = name
        self._rest = b""
        """Of a line that was torn: it must be completed before another may begin."""
        self._is_terminal = os.isatty(fd)
        self._interrupted = threading.Event()

    def append(self, lines: Sequence[bytes]) -> None:
        """Keeps what was taken; a torn line is completed by the next append, where it comes again as a duplicate. A
        terminal gets escapes for what it would obey; they mean the same in JSON."""
        self._interrupted.clear()
        if self._is_terminal:
            lines = [escaped(line.decode(errors="replace"), keep="\n").encode() for line in lines]
        kept = 0
        try:
            self._write(self._rest)
            for line in lines:
                self._write(line)
                kept += 1
        except OSError as error:
            raise AppendFailed(f"{self._name}: {self._reason(error)}", kept) from error

    def interrupt(self) -> None:
        self._interrupted.set()

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, text: bytes) -> None:
        """All of it, or as much as can be and an OSError. A part of a line is remembered."""
        waiter = select.poll()
        waiter.register(self._fd, select.POLLOUT)
        give_up_at = time.monotonic() + self.patience
        view = memoryview(text)
        try:
            while view:
                if self._interrupted.is_set() or time.monotonic() > give_up_at:
                    raise TimeoutError
                if not waiter.poll(100):
                    continue
                try:
                    view = view[os.write(self._fd, view[: select.PIPE_BUF]) :]
                except BlockingIOError:
                    continue
                give_up_at = time.monotonic() + self.patience
        finally:
            if text is self._rest or len(view) < len(text):
                self._rest = bytes(view)

    def _reason(self, error: OSError) -> str:
        match error:
            case BrokenPipeError():
                self._rest = b""  # The next reader has not seen the beginning of that line.
                return "its reader is gone"
            case TimeoutError():
                return "nobody reads it"
        return str(error.strerror)


def _write_fully(fd: int, text: bytes) -> None:
    view = memoryview(text)
    while view:
        view = view[os.write(fd, view) :]


def _mend(fd: int, path: Path) -> None:
    """Cut off a last line that has no newline. Raises SinkUnavailable where that is not a line of ours."""
    size = os.fstat(fd).st_size
    end = _end_of_last_line(fd, size)
    if end == size:
        return
    if os.pread(fd, 1, end) not in _TORN_BEGINS:
        raise SinkUnavailable(
            f"will not write to {path}: it ends with a line that is not JSON, so it is not a file of deltas; name"
            " another file, or end that line"
        )
    os.ftruncate(fd, end)


def _end_of_last_line(fd: int, size: int) -> int:
    """Behind the last newline; 0 where there is none."""
    end = size
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
