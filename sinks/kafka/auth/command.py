"""Runs a command without a shell and a terminal, with bounds on its time and its output. Blocks."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

MOST_PRINTED = 64 * 1024
"""Bytes of standard output. Tokens have a few thousand."""
MOST_COMPLAINED = 4096
"""Bytes kept from the end of standard error."""

_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class EndedCommand:
    printed: bytes | None
    """Standard output; None beyond MOST_PRINTED bytes."""
    code: int
    """The exit code; negative for a signal."""


def run_command(command: Sequence[str], *, timeout: float, complain: Callable[[str], None]) -> EndedCommand:
    """Kills the command and its children after ``timeout`` seconds, or too much output. ``complain`` gets the end of
    standard error, also before an error is raised. Raises TimeoutError, and OSError if the command cannot be run."""
    deadline = time.monotonic() + timeout
    process = subprocess.Popen(  # noqa: S603  # The operator's own command, without a shell.
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    complaint = bytearray()
    with process:
        try:
            printed = _read(process, complaint, deadline)
            code = 0 if printed is None else process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            if process.returncode is None:
                # The whole group: children of the command hold the pipes open.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            if text := complaint.decode(errors="replace").strip():
                complain(text)
    return EndedCommand(printed, code)


def _read(process: subprocess.Popen[bytes], complaint: bytearray, deadline: float) -> bytes | None:
    """Standard output until both pipes end; None beyond MOST_PRINTED bytes. Raises TimeoutError."""
    assert process.stdout is not None  # noqa: S101 (they are pipes)
    assert process.stderr is not None  # noqa: S101
    printed = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    printed += piece
                else:
                    complaint += piece
                    del complaint[:-MOST_COMPLAINED]
            if len(printed) > MOST_PRINTED:
                return None
    return bytes(printed)
