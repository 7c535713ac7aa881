"""Appends lines to a file, a pipe, a terminal or a device. All methods block, and are called by a single thread."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Sequence

from bridge.model.primitives.printable import escaped
from sinks.file.closed_parts import ClosedParts
from sinks.file.connection import FileConnection, Syncing, expect_rotatable, open_pipe
from sinks.file.options import STANDARD_OUTPUT, FileOptions
from sinks.file.parts import Age
from sinks.receipt import SinkUnavailable


class AppendFailed(Exception):
    """Not all lines were stored. The message says why, for the operator."""

    def __init__(self, reason: str, kept: int) -> None:
        super().__init__(reason)
        self.kept = kept
        """Lines, from the first, that are stored."""


def open_writer(options: FileOptions, *, name: str = "file") -> FileWriter | PipeWriter:
    """``name``: of the sink. Raises SinkUnavailable."""
    try:
        if options.rotation is not None:
            expect_rotatable(options.path)
        pipe = open_pipe(options.path)
        if pipe is None:
            return FileWriter(options, name=name)
        return PipeWriter(pipe, "standard output" if options.path == STANDARD_OUTPUT else str(options.path))
    except OSError as error:
        raise SinkUnavailable(f"cannot write to {options.path}: {error.strerror}") from error


class FileWriter:
    """Appends to a regular file: all lines of an ``append``, or none. With ``rotation`` the file is closed as a part
    before it would become too large or too old, so a part has whole lines only."""

    def __init__(self, options: FileOptions, *, name: str) -> None:
        """``name``: of the sink. Raises OSError, SinkUnavailable."""
        self._path = options.path
        self._syncing = Syncing(options)
        self._truncate_to: int | None = None
        """The size before a failed append that is still to be taken back, in bytes."""
        self._connection = FileConnection(options.path, sync=self._syncing.is_on, follow_links=options.rotation is None)
        self._rotation = options.rotation
        self._age = Age(options.rotation.age if options.rotation else 0)
        self._age.begin(self._connection.current()[0])
        self._parts = None if options.rotation is None else ClosedParts(options.path, options.rotation, name)

    def append(self, lines: Sequence[bytes]) -> None:
        """Raises AppendFailed."""
        self._syncing.begin()
        try:
            self._append(b"".join(lines), len(lines))
        except (OSError, SinkUnavailable) as error:
            with contextlib.suppress(OSError):  # The next append begins with it.
                self._take_back()
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise AppendFailed(f"{self._path}: {reason}", kept=0) from error

    def interrupt(self) -> None:
        """From another thread: ends a wait for the next fsync. A write to a disk cannot be interrupted."""
        self._syncing.interrupt()

    def due_in(self) -> float | None:
        """Seconds until ``run_due`` has something to do; None if that depends on the next ``append``."""
        return self._age.left()

    def run_due(self) -> None:
        """Closes a file that is old enough."""
        with contextlib.suppress(OSError, SinkUnavailable):  # The next append meets the same obstacle, and reports it.
            self._current(0)

    def close(self) -> None:
        if self._parts is not None:
            self._parts.close()
        self._connection.close()

    def _append(self, text: bytes, lines: int) -> None:
        fd = self._current(len(text))
        self._truncate_to = os.fstat(fd).st_size
        view = memoryview(text)
        while view:
            view = view[os.write(fd, view) :]
        self._syncing.force(fd, lines)
        self._truncate_to = None
        self._age.written()

    def _current(self, more: int) -> int:
        """The descriptor of a file of whole lines, with room for so many bytes more."""
        fd, is_new = self._connection.current()
        # The part of an earlier append is in the file that was moved away.
        if is_new:
            self._truncate_to = None
            self._age.begin(fd)
        self._take_back()
        size = os.fstat(fd).st_size
        if self._rotation is None or not size or (size + more <= self._rotation.bytes and self._age.left() != 0):
            return fd
        fd = self._connection.rotate()
        self._age.begin(fd)
        if self._parts is not None:
            self._parts.wake()
        return fd

    def _take_back(self) -> None:
        """Removes the part of its lines that a failed append has written. Raises OSError."""
        if self._truncate_to is not None:
            self._connection.truncate(self._truncate_to)
            self._truncate_to = None


class PipeWriter:
    """Writes to a pipe, a terminal or a device: a write cannot be taken back, and the reader may be slow or gone.

    Each write is of a size that the pipe takes at once after poll() reported room, so that no thread blocks in write().
    """

    idle_timeout = 10.0
    """Seconds without progress before the reader counts as stuck."""

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self._name = name
        self._rest = b""
        """The rest of a torn line, which is written before the next line."""
        self._is_terminal = os.isatty(fd)
        self._interrupted = threading.Event()

    def append(self, lines: Sequence[bytes]) -> None:
        """Keeps the lines that were written. The next append completes a torn line, whose record then comes again as a
        duplicate. A terminal gets escapes in place of control characters; in JSON they mean the same. Raises
        AppendFailed."""
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
        """From another thread: an ``append`` that waits for a reader gives up."""
        self._interrupted.set()

    def due_in(self) -> None:
        return

    def run_due(self) -> None:
        """Has no effect: a pipe is not rotated."""

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, text: bytes) -> None:
        """Writes all of the text, or keeps its unwritten part in ``_rest`` and raises OSError."""
        waiter = select.poll()
        waiter.register(self._fd, select.POLLOUT)
        deadline = time.monotonic() + self.idle_timeout
        view = memoryview(text)
        try:
            while view:
                if self._interrupted.is_set() or time.monotonic() > deadline:
                    raise TimeoutError
                # Milliseconds: an interrupt is noticed within this time.
                if not waiter.poll(100):
                    continue
                try:
                    view = view[os.write(self._fd, view[: select.PIPE_BUF]) :]
                except BlockingIOError:
                    continue
                deadline = time.monotonic() + self.idle_timeout
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
