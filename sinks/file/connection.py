"""The open file of a sink: it is locked against other writers, opened anew after logrotate moved it away, closed as a
part when it is rotated, and forced onto the disk as the option ``fsync`` says.

``examine`` checks the options before the bridge runs: whether the path can name a file. A folder that is missing or not
writable is no mistake in the options: a volume may be mounted later, and the other sinks do not wait for it.
``describe`` names it, for ``check``. ``claims`` names the file.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from kubedelta_reader.sources.lines import end_of_last_line, first_line
from kubedelta_reader.sources.parts import parts_of

from bridge.model.primitives.printable import counted, why_not_writable
from sinks.base import Claim
from sinks.file.lines import last_line, sequence_in
from sinks.file.options import STANDARD_OUTPUT, FileOptions, Fsync
from sinks.file.parts import SUFFIX_BYTES, name_of_part
from sinks.file.seals import seal_key
from sinks.receipt import SinkUnavailable, WrongOption, wrong_options

# ── The options ──────────────────────────────────────────────────────────────

_LONGEST_NAME = 255


def examine(options: FileOptions) -> Sequence[WrongOption]:
    return wrong_options([partial(_expect_file, options), partial(_expect_key, options)])


def _expect_file(options: FileOptions) -> None:
    with suppress(OSError):
        if options.rotation is not None:
            expect_rotatable(options.path)
        if options.path != STANDARD_OUTPUT and options.path.is_dir():
            raise WrongOption("path", f"cannot write to {options.path}: it is a folder")


def _expect_key(options: FileOptions) -> None:
    if options.rotation is not None:
        seal_key(options.rotation)


def claims(options: FileOptions) -> Sequence[Claim]:
    """Claims on the file by its real path, and by its inode, which hard links share. Character devices, such as
    /dev/null, may have any number of writers."""
    path = options.path
    try:
        found = os.fstat(1) if path == STANDARD_OUTPUT else path.stat()
    except OSError:
        found = None
    if found is not None and stat.S_ISCHR(found.st_mode) and path != STANDARD_OUTPUT:
        return ()
    description = "standard output" if path == STANDARD_OUTPUT else str(path)
    names = [] if path == STANDARD_OUTPUT else [f"path {os.path.realpath(path)}"]
    if found is not None:
        names.append(f"file {found.st_dev}:{found.st_ino}")
    return [Claim(name, description, True) for name in names or ["standard output"]]


def describe(options: FileOptions) -> str:
    """Returns a few words about the file, without opening it. Raises SinkUnavailable when it cannot be written,
    WrongOption when it cannot be rotated."""
    try:
        return _described(options)
    except OSError as error:
        raise SinkUnavailable(f"cannot write to {options.path}: {error.strerror}") from error


def _described(options: FileOptions) -> str:
    path = options.path
    if options.rotation is not None:
        expect_rotatable(path)
    if path == STANDARD_OUTPUT:
        return f"standard output, {'a terminal' if sys.__stdout__ and sys.__stdout__.isatty() else 'not a terminal'}"
    if not path.parent.is_dir():
        raise SinkUnavailable(f"cannot write to {path}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise SinkUnavailable(f"cannot write to {path}: it is a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise SinkUnavailable(f"cannot write to {path}: {why_not_writable(path.parent)}")
    if options.rotation is None:
        return f"{path}, {path.stat().st_size} bytes" if path.exists() else f"{path}, to be created"
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise SinkUnavailable(f"cannot rotate {path}: {why_not_writable(path.parent)} in the folder {path.parent}")
    written = f"{path.stat().st_size} bytes" if path.exists() else "to be created"
    return f"{path}, {written}; {counted(len(parts_of(path)), 'closed part')}"


def expect_rotatable(path: Path) -> None:
    """Raises WrongOption unless the path is a regular file, or free. Renaming a link would close no file."""
    if path == STANDARD_OUTPUT:
        raise WrongOption("rotation", "standard output cannot be rotated; leave the option out")
    if path.is_symlink():
        raise WrongOption("rotation", f"{path} is a symbolic link; name the file itself in path")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise WrongOption("rotation", f"{path} is not a regular file and cannot be rotated; leave the option out")
    if len(os.fsencode(path.name)) + SUFFIX_BYTES > _LONGEST_NAME:
        raise WrongOption("rotation", f"parts of {path} would have names of more than {_LONGEST_NAME} bytes")


# ── Onto the disk ────────────────────────────────────────────────────────────

FULL = 1000
"""Lines of a full batch: more are waiting, and one fsync for so many costs little."""
_INTERVAL = 1.0
"""Seconds, where the options have none."""
_force_to_disk = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync.


class Syncing:
    """With ``interval``, the time between two fsyncs is at least that of ``fsync_interval``, except for full
    batches."""

    def __init__(self, options: FileOptions) -> None:
        self.is_on = options.fsync is not Fsync.NEVER
        self._interval = float(options.fsync_interval or _INTERVAL) if options.fsync is Fsync.INTERVAL else 0.0
        self._last = -self._interval
        self._interrupted = threading.Event()

    def begin(self) -> None:
        """Before lines are written."""
        self._interrupted.clear()

    def force(self, fd: int, lines: int) -> None:
        """Returns when the disk has the ``lines`` that were written. Waits for the interval, until ``interrupt``.
        Raises OSError."""
        if not self.is_on:
            return
        if self._interval and lines < FULL:
            self._interrupted.wait(max(0.0, self._last + self._interval - time.monotonic()))
        _force_to_disk(fd)
        self._last = time.monotonic()

    def interrupt(self) -> None:
        """From another thread: the fsync follows at once."""
        self._interrupted.set()


# ── The open file ────────────────────────────────────────────────────────────

_MODE = 0o600
"""Of a file that begins a stream. A file behind another one gets the mode of that file, as with logrotate's
``create``."""
_TORN_BEGINS = b"{\0"
"""A line of a sink begins with a brace. A file system leaves zeros where a power cut took the data."""


def open_pipe(path: Path) -> int | None:
    """A descriptor for a named pipe, a terminal, a device or standard output; None for a regular or missing file.
    Raises OSError, SinkUnavailable."""
    if path == STANDARD_OUTPUT:
        return os.dup(1)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise SinkUnavailable(f"cannot write to {path}: it is a folder")
    return None if stat.S_ISREG(mode) else os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)


class FileConnection:
    """A regular file that is open for appending and holds whole lines only.

    A last line without its newline is the rest of a write that a crash interrupted. Its record was never acknowledged
    and comes again, so the line is cut off: completed with a newline, it would stay as a line that no reader can parse.
    """

    def __init__(self, path: Path, *, sync: bool, follow_links: bool = True) -> None:
        """Opens or creates the file. ``sync``: a new file's entry in its folder is forced onto the disk. Without
        ``follow_links`` a symbolic link is refused. Raises OSError, SinkUnavailable."""
        self._path = path
        self._sync = sync
        self._flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
        self._mode = _MODE
        self._fd = self._open()

    def current(self) -> tuple[int, bool]:
        """The descriptor, and whether the file was opened anew because the former file was moved away (logrotate).
        Raises OSError, SinkUnavailable."""
        if not self._was_moved():
            return self._fd, False
        return self._reopened(), True

    def rotate(self) -> int:
        """Closes the file as a part, in one step for every reader, and returns the descriptor of a new file. Call it
        after ``current``. Raises OSError, SinkUnavailable."""
        first, last = (sequence_in(line) for line in (first_line(self._fd), last_line(self._fd)))
        self._path.rename(name_of_part(self._path, first, last, datetime.now(UTC)))
        return self._reopened()

    def truncate(self, size: int) -> None:
        """Raises OSError."""
        os.ftruncate(self._fd, size)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _reopened(self) -> int:
        if self._fd >= 0:
            self._mode = stat.S_IMODE(os.fstat(self._fd).st_mode)
        self.close()
        self._fd = self._open()
        return self._fd

    def _open(self) -> int:
        existed = self._path.exists()
        # O_RDWR, because the end of the file is read for a torn line.
        fd = os.open(self._path, self._flags, _MODE)
        try:
            self._lock(fd)
            if not existed:
                os.fchmod(fd, self._mode)
            _cut_torn_line(fd, self._path)
            if self._sync and not existed:
                sync_folder(self._path.parent)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _lock(self, fd: int) -> None:
        try:
            # The kernel releases the lock when the process ends, in whichever way.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SinkUnavailable(f"cannot write to {self._path}: another kubedelta sink appends to it") from None

    def _was_moved(self) -> bool:
        if self._fd < 0:
            return True
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._fd))
        except FileNotFoundError:
            return True


def _cut_torn_line(fd: int, path: Path) -> None:
    """Cuts off a last line without a newline. Raises SinkUnavailable when that line cannot be a sink's: then the file
    belongs to somebody else."""
    size = os.fstat(fd).st_size
    end = end_of_last_line(fd, size)
    if end == size:
        return
    if os.pread(fd, 1, end) not in _TORN_BEGINS:
        raise SinkUnavailable(
            f"will not write to {path}: it ends with a line that is not JSON, so it is not a file of deltas; name"
            " another file, or end that line"
        )
    os.ftruncate(fd, end)


def sync_folder(folder: Path) -> None:
    """Forces new, renamed and removed names onto the disk. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
