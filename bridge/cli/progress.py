"""Shows the progress of what takes long, on standard error, on a terminal alone."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TextIO

from bridge.cli.terminal import age, shortened
from bridge.model.primitives.printable import escaped

_DRAW_EVERY = 0.1
"""Seconds."""
_BAR = 20
"""Characters."""
_CLEAR = "\r\x1b[2K"


def progress_text(what: str, done: int, total: int | None, seconds: float, first: int = 0) -> str:
    """``records read  ━━━━━╌╌╌╌╌  50%  1,000 of 2,000  100/s  10s left``. ``seconds``: since ``first`` were done."""
    rate = (done - first) / seconds if seconds >= 1 else 0.0
    speed = f"  {rate:,.0f}/s" if rate >= 1 else ""
    if not total:
        return f"{what}  {done:,}{speed}" if done else f"{what}  {age(seconds)}"
    share = min(1.0, done / total)
    full = int(_BAR * share)
    left = f"  {age((total - done) / rate)} left" if rate > 0 and done < total else ""
    return f"{what}  {'━' * full}{'╌' * (_BAR - full)}  {share:4.0%}  {done:,} of {total:,}{speed}{left}"


class ProgressLine(io.TextIOBase):
    """A line at the bottom of the terminal, which is drawn over and over. As a stream, it writes other lines above."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._lock = Lock()  # A library's thread may log.
        self._what = ""
        self._began = 0.0
        self._first = 0
        self._drawn_at = float("-inf")
        self._is_drawn = False
        self.on = stream.isatty() and os.environ.get("TERM") != "dumb"

    def show(self, what: str, done: int, total: int | None = None, *, note: str = "") -> None:
        """Draws the line ten times a second at most, and always another ``what``. Rates are of the time since a
        ``what`` was shown first. ``note`` stands at the end."""
        if not self.on:
            return
        now = self._clock()
        if what != self._what:
            self._what, self._began, self._first, self._drawn_at = what, now, done, float("-inf")
        if now - self._drawn_at < _DRAW_EVERY:
            return
        self._drawn_at = now
        text = progress_text(escaped(what), done, total, now - self._began, self._first)
        if note:
            text += f"  {escaped(note)}"
        with self._lock, suppress(OSError):
            self._stream.write(_CLEAR + shortened(text, self._width() - 1))
            self._stream.flush()
            self._is_drawn = True

    def clear(self) -> None:
        """Takes the line away."""
        with self._lock, suppress(OSError):
            self._erase()
            self._stream.flush()
        self._what = ""

    def write(self, text: str) -> int:
        with self._lock:
            self._erase()
            return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def _erase(self) -> None:
        if self._is_drawn:
            self._stream.write(_CLEAR)
            self._is_drawn = False

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[ProgressLine]:
    """Standard error's line, which goes at the end of the block. ``quiet``: draws none, for output of programs."""
    line = ProgressLine(sys.stderr)
    line.on = line.on and not quiet
    try:
        yield line
    finally:
        line.clear()
