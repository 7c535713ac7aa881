"""Gets tokens for OAUTHBEARER from a command that prints them: a cloud's identity, without a library of that cloud.

The command runs without a shell and a terminal, with bounds on its time and its output (``run_command``), and blocks
its thread. Its output is in no error and no log, except standard error at level debug.
"""

from __future__ import annotations

import logging
import os
import re
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import msgspec

from sinks.receipt import WrongOption

# ── The command ──────────────────────────────────────────────────────────────

MAX_OUTPUT_BYTES = 64 * 1024
"""Bytes of standard output. Tokens have a few thousand."""
MAX_ERROR_BYTES = 4096
"""Bytes kept from the end of standard error."""

_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class EndedCommand:
    printed: bytes | None
    """Standard output; None beyond MAX_OUTPUT_BYTES bytes."""
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
    """Standard output until both pipes end; None beyond MAX_OUTPUT_BYTES bytes. Raises TimeoutError."""
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
                    del complaint[:-MAX_ERROR_BYTES]
            if len(printed) > MAX_OUTPUT_BYTES:
                return None
    return bytes(printed)


# ── Its tokens ───────────────────────────────────────────────────────────────

_OPTION = "token_command"
_FRESH = 0.8
"""Share of a token's lifetime after which librdkafka asks for another."""
_TOKEN = re.compile(r"[\x21-\x7e]+")
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
_debug_logger = logging.getLogger("kubedelta.token_command")

LibrdkafkaToken: TypeAlias = tuple[str, float, str, dict[str, str]]
"""Token, its end in seconds since 1970, principal, SASL extensions: the result of an ``oauth_cb``."""


class _Printed(msgspec.Struct, frozen=True):
    token: str | None = None
    access_token: str | None = None
    expires_at: datetime | float | None = None
    expires_in: float | None = None
    principal: str = ""


def check_program(command: Sequence[str]) -> None:
    """Raises WrongOption if the program cannot be found."""
    if shutil.which(command[0]) is None:
        raise WrongOption(_OPTION, f"there is no program {command[0]} here that can be run")


class CommandTokens:
    """Runs the command when there is no token, or the token is near its end. All clients of a sink share the token;
    threads that ask at once share a run."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        extensions: Mapping[str, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``clock``: returns seconds since 1970."""
        self._command = command
        self._timeout = timeout
        self._extensions = dict(extensions)
        self._clock = clock
        self._running = threading.Lock()
        self._token: tuple[str, float, str] | None = None
        self._fresh_until = float("-inf")
        self.error: WrongOption | None = None
        """Of the last run; None if it printed a token."""

    def read(self) -> LibrdkafkaToken:
        """A token that is fresh. Blocks while the command runs. Raises WrongOption, without the command's output."""
        with self._running:
            if self._token is None or self._clock() >= self._fresh_until:
                self._token, self.error = None, None
                try:
                    self._token = self._read(self._run())
                except WrongOption as error:
                    self.error = error
                    raise
            token, end, principal = self._token
            return token, end, principal, self._extensions

    def refresh(self, _settings: str) -> LibrdkafkaToken:
        """``read`` as librdkafka calls it, in a thread of its own. It reports an exception in other words, so see
        ``error``."""
        return self.read()

    def _run(self) -> bytes:
        try:
            ended = run_command(self._command, timeout=self._timeout, complain=self._complained)
        except TimeoutError:
            raise self._failed(f"did not end within {self._timeout:g} s") from None
        except OSError as error:
            raise self._failed(f"cannot be run: {error.strerror}") from error
        if ended.printed is None:
            raise self._failed(f"printed more than {MAX_OUTPUT_BYTES >> 10} KiB")
        if ended.code:
            raise self._failed(f"ended with {ended.code}; its standard error is logged at level debug")
        return ended.printed

    def _read(self, printed: bytes) -> tuple[str, float, str]:
        now = self._clock()
        try:
            found = msgspec.json.decode(printed, type=_Printed)
        except _UNREADABLE:
            # The decoder's words may repeat a part of the token.
            raise self._failed(
                "printed no JSON object with token and expires_at, or access_token and expires_in"
            ) from None
        token = found.token or found.access_token or ""
        if not _TOKEN.fullmatch(token):
            raise self._failed("printed no token of printable ASCII (token, or access_token)")
        if isinstance(found.expires_at, datetime):
            end = found.expires_at.timestamp() if found.expires_at.tzinfo else None
        else:
            end = found.expires_at
        if end is None and found.expires_in is not None:
            end = now + found.expires_in
        if end is None:
            raise self._failed(
                "printed no end of the token: expires_at (RFC 3339 with its zone) or expires_in (seconds)"
            )
        if not now < end < float("inf"):
            ago = f" {now - end:.0f} s ago" if end <= now else ""
            raise self._failed(
                f"printed a token that has ended{ago}: see this machine's clock, and the command's cache"
            )
        self._fresh_until = now + (end - now) * _FRESH
        return token, end, found.principal

    def _complained(self, text: str) -> None:
        _debug_logger.debug("%s: %s", self._command[0], text)

    def _failed(self, reason: str) -> WrongOption:
        return WrongOption(_OPTION, f"{self._command[0]} {reason}")
