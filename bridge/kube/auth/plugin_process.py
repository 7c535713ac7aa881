"""Runs a credential plugin's process, with bounds on its time and its output."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

MOST_PRINTED = 1 << 20
"""Bytes that a plugin may print. A token has some thousand, a certificate with its key ten thousand."""
MOST_COMPLAINED = 4096
"""Bytes kept from the end of the plugin's standard error."""

_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class EndedProcess:
    printed: bytes | None
    """Standard output; None beyond MOST_PRINTED bytes."""
    code: int | None
    """The exit code; negative for a signal."""
    complained: bool
    """Whether it wrote to its standard error."""


async def run_process(
    command: Sequence[str], environment: Mapping[str, str], *, timeout: float, complain: Callable[[str], None]
) -> EndedProcess:
    """Runs the command without a terminal, and kills it after ``timeout`` seconds or too much output.

    ``complain`` receives the end of its standard error, also before an error is raised. Raises TimeoutError, and
    OSError if the command cannot be run."""
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    complaint = _Tail(MOST_COMPLAINED)
    try:
        async with asyncio.timeout(timeout):
            printed = await _communicate(process, complaint)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):  # It may end at this moment.
                # The whole group: children of the plugin hold our pipes open.
                os.killpg(process.pid, signal.SIGKILL)
            await _ended(process)
        if complaint.text:
            complain(complaint.text)
    return EndedProcess(printed, process.returncode, bool(complaint.text))


class _Tail:
    """The last bytes of a plugin's standard error."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = b""

    def add(self, text: bytes) -> None:
        self._kept = (self._kept + text)[-self._most :]

    @property
    def text(self) -> str:
        return self._kept.decode(errors="replace").strip()


async def _communicate(process: Process, complaint: _Tail) -> bytes | None:
    """The plugin's whole standard output; None beyond MOST_PRINTED bytes."""
    assert process.stdout is not None  # noqa: S101 (they are pipes)
    assert process.stderr is not None  # noqa: S101
    async with asyncio.TaskGroup() as group:
        complaining = group.create_task(_read_to_end(process.stderr, complaint.add))
        printed = bytearray()
        while len(printed) <= MOST_PRINTED and (piece := await process.stdout.read(_PIECE)):
            printed += piece
        if len(printed) > MOST_PRINTED:
            complaining.cancel()
            return None
    await process.wait()
    return bytes(printed)


async def _ended(process: Process) -> None:
    """Returns when a killed plugin has ended and its pipes are closed, after a second at most."""
    with suppress(TimeoutError):  # A child may have left the process group, and write on.
        async with asyncio.timeout(1):
            # Drain the pipes before wait(), which never returns while an unread pipe has data in it.
            for pipe in (process.stdout, process.stderr):
                while pipe is not None and await pipe.read(_PIECE):
                    pass
            await process.wait()
    process._transport.close()  # type: ignore[attr-defined]  # asyncio has no public method for it.


async def _read_to_end(stream: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    while piece := await stream.read(_PIECE):
        take(piece)
