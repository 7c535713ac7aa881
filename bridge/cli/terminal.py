"""Prints the output of commands: results on standard output, errors on standard error, and on a terminal the progress
of what takes long, which is a line of standard error.

Both are escaped, so that text from strangers cannot control the terminal. Colours are for a terminal alone; aligned
text is the same on a terminal and in a pipe. JSON is indented for people, whatever its depth.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TextIO

from bridge.cli.exits import CommandEnds, Exit
from bridge.model.change import Op
from bridge.model.primitives.printable import escaped


def prepare_streams() -> None:
    """Escapes characters that the terminal's encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def say(text: str) -> None:
    """Prints to standard output. Raises BrokenPipeError if the reader closed the pipe, and CommandEnds where the output
    cannot be written, as on a full disk."""
    say_escaped(escaped(text, keep="\n"))


def say_escaped(text: str) -> None:
    """Prints a text whose parts were escaped, and then coloured. Raises as ``say`` does."""
    try:
        print(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _not_written(error) from error


def complain(text: object) -> None:
    """Prints to standard error."""
    with suppress(BrokenPipeError):
        print(escaped(str(text), keep="\n"), file=sys.stderr, flush=True)


def flush() -> None:
    """Flushes standard output. With a closed pipe the rest is discarded, since Python would print an error at exit.
    Raises CommandEnds as ``say`` does."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        raise _not_written(error) from error


def _not_written(error: OSError) -> CommandEnds:
    """What was not written is discarded, too."""
    discard_output()
    return CommandEnds(Exit.UNAVAILABLE, f"standard output: {error.strerror}")


def discard_output() -> None:
    """Redirects standard output to /dev/null."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


# ── Colours ──────────────────────────────────────────────────────────────────

_OPS: dict[str, str] = {Op.ADDED: "green", Op.UPDATED: "yellow", Op.DELETED: "red", Op.SYNC: "blue"}
_CODES = {"dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def colour_of(op: str) -> str:
    """The terminal's own for an op that is not known."""
    return _OPS.get(op, "default")


class Colours:
    """Escapes control characters, and colours the rest."""

    def __init__(self, *, on: bool) -> None:
        self._on = on

    @classmethod
    def of_output(cls) -> Colours:
        """On if standard output is a terminal that takes them, unless NO_COLOR is set (https://no-color.org)."""
        environ = os.environ
        takes = sys.stdout.isatty() and environ.get("TERM") != "dumb" and not environ.get("NO_COLOR")
        return cls(on=takes)

    def paint(self, text: str, colour: str) -> str:
        """``colour``: a name of this module; the terminal's own for any other."""
        shown = escaped(text)
        code = _CODES.get(colour) if self._on else None
        return f"\x1b[{code}m{shown}\x1b[0m" if code and shown else shown


# ── Tables, numbers and times ────────────────────────────────────────────────

_LONGEST_CELL = 1000
"""Characters."""
_BYTES = 1024
_UNITS = ("KiB", "MiB", "GiB", "TiB")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their longest cell, without trailing blanks. A very long cell is cut: all others of its column
    would be as long."""
    lines = [[shortened(plain(cell), _LONGEST_CELL) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def pairs(named: Sequence[tuple[str, str]]) -> str:
    """A line for each name and its text, aligned."""
    width = max(len(name) for name, _ in named)
    return "\n".join(f"{name:<{width}}  {plain(text)}".rstrip() for name, text in named)


def plain(text: str) -> str:
    """The text in a single line, escaped for a terminal, since reasons may come from strangers."""
    return escaped(" ".join(text.split()))


def shortened(text: str, length: int) -> str:
    """At most ``length`` characters, cut in the middle: a reason ends with what tells most (``Connection refused``)."""
    if len(text) <= length:
        return text
    head = (length - 1) // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


def size(count: int) -> str:
    """``1.5 MiB``."""
    if count < _BYTES:
        return f"{count} B"
    scaled, units = count / _BYTES, iter(_UNITS)
    unit = next(units)
    # 1023.96 KiB would be printed as 1024.0 KiB.
    while scaled >= _BYTES - 0.05 and (larger := next(units, None)):
        scaled, unit = scaled / _BYTES, larger
    return f"{scaled:.1f} {unit}"


def age(seconds: float) -> str:
    """In the largest unit that fits: ``40s``, ``3m``, ``2h``, ``5d``."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"


# ── JSON ─────────────────────────────────────────────────────────────────────

DEEPEST = 32
"""Levels that are indented. Deeper levels stand on a single line: fully indented, an object of 9,000 levels would take
160 MB."""
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{}\[\],:]|[^\s{}\[\],:"]++')
_INDENT = "  "


def pretty(document: str) -> str:
    """A line for each member of the outer levels. ``document`` is JSON, whose strings and numbers stay unchanged."""
    return "".join(_pieces(_TOKEN.findall(document)))


def _pieces(tokens: list[str]) -> Iterator[str]:
    depth = 0
    for piece, before in zip(tokens, ["", *tokens], strict=False):
        if piece in ("}", "]"):
            depth -= 1
            if before not in ("{", "[") and depth < DEEPEST:
                yield _line(depth)
        elif before in ("{", "[") and depth <= DEEPEST:
            yield _line(depth)
        yield piece
        if piece in ("{", "["):
            depth += 1
        elif piece == ",":
            yield _line(depth) if depth <= DEEPEST else " "
        elif piece == ":":
            yield " "


def _line(depth: int) -> str:
    return "\n" + _INDENT * depth


# ── Progress ─────────────────────────────────────────────────────────────────

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

    def close(self) -> None:
        """Python calls it when the line is collected. The stream is another's, and may be closed."""

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
