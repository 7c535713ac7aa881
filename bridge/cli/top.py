"""``kubedelta top``: asks the running bridge again and again, and shows its answers.

``top_figures`` makes two answers into tables; here they become lines that fit the terminal, on the whole screen until
``q`` is typed, or once. Single keys are read from the terminal without waiting for a line. A bridge that does not
answer is named in the first line, above the figures as they were last.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.live import Live
from rich.text import Text

from bridge.app.admin.client import AdminClient, CommandFailed, NoAnswer, NotRunning
from bridge.cli.admin_access import directory_of, fetched
from bridge.cli.console import ScreenConsole
from bridge.cli.exits import Exit
from bridge.cli.settings import operator_settings
from bridge.cli.terminal import plain
from bridge.cli.top_figures import (
    Answer,
    Cell,
    Column,
    Counts,
    Figures,
    Order,
    Table,
    figures_of,
    resource_table,
    sink_table,
    summary,
)
from bridge.model.admin import UnknownTarget

_FIXED_LINES = 4
"""Lines beside the two tables."""


def top(path: Path, *, once: bool, seconds: float, order: str) -> int:
    """Shows resources and sinks until ``q``; prints them ``once`` where standard output is no terminal. Rates are
    those of the last ``seconds``."""
    found = operator_settings(path)
    found.warn()
    console = ScreenConsole()
    directory = asyncio.run(directory_of(found))
    if once or not console.is_terminal or console.is_dumb_terminal:
        return asyncio.run(_print_once(console, directory, seconds, Order(order)))
    return asyncio.run(_Screen(directory, seconds, Order(order)).run())


async def _answer(directory: Path) -> Answer:
    """Of the bridge on this state directory. Raises NoAnswer, NotRunning, CommandFailed and UnknownTarget."""
    # A new connection each time: another bridge may run by now.
    async with AdminClient(directory) as admin:
        status = await admin.status()
        return Answer(time.monotonic(), status, await _counts(admin.about.listen))


async def _counts(listen: str) -> Counts | None:
    """``listen``: the address of /metrics. None if it does not answer."""
    try:
        body = await fetched(listen, "/metrics")
        return None if body is None else Counts.parsed(body.decode(errors="replace"))
    except (ValueError, KeyError):
        return None


async def _print_once(console: ScreenConsole, directory: Path, seconds: float, order: Order) -> int:
    before = await _answer(directory)
    await asyncio.sleep(seconds)
    figures = figures_of(await _answer(directory), before)
    width = console.width if console.is_terminal else None
    for line in _lines(figures, order, width, None):
        console.print(line, soft_wrap=True)
    return Exit.OK


class _Screen:
    """The whole terminal, until ``q``."""

    def __init__(self, directory: Path, seconds: float, order: Order) -> None:
        self._console = ScreenConsole(self._end)
        self._directory = directory
        self._seconds = seconds
        self._order = order
        self._figures: Figures | None = None
        self._failure = "asking the bridge"
        self._changed = asyncio.Event()
        self._quit = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError, RuntimeError, ValueError):  # Outside of the main thread.
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self._end)
            loop.add_signal_handler(signal.SIGWINCH, self._changed.set)
        with (
            Live(console=self._console, screen=True, auto_refresh=False, redirect_stdout=False) as live,
            reading_keys(self._press),
        ):
            while not self._quit.is_set():
                await self._ask()
                until = loop.time() + self._seconds
                while not self._quit.is_set() and loop.time() < until:
                    live.update(self._drawn(), refresh=True)
                    self._changed.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(until):
                            await self._changed.wait()
        return Exit.OK

    async def _ask(self) -> None:
        try:
            answer = await _answer(self._directory)
        except (NoAnswer, NotRunning, CommandFailed, UnknownTarget) as error:
            self._failure = plain(str(error))
        else:
            before = None if self._figures is None else self._figures.answer
            self._figures = figures_of(answer, before)
            self._failure = ""

    def _press(self, key: str) -> None:
        if key in ("q", "Q", "\x1b"):
            self._end()
        elif key in ("s", "S"):
            self._order = self._order.next()
            self._changed.set()

    def _end(self) -> None:
        self._quit.set()
        self._changed.set()

    def _drawn(self) -> Group:
        width, height = self._console.size
        shown = Text(self._failure, "bold red", no_wrap=True, overflow="ellipsis", end="")
        lines = [shown] if self._figures is None else _lines(self._figures, self._order, width, height - 1)
        if self._failure:
            lines[0] = shown  # The rest is as it was last.
        keys = Text(f"q quit  s sort by {self._order.next()} (now by {self._order})", "dim", no_wrap=True, end="")
        lines += [Text() for _ in range(height - len(lines) - 1)]
        for line in lines:
            line.no_wrap, line.overflow, line.end = True, "crop", "\n"
        return Group(*lines[: height - 1], keys)


def _lines(figures: Figures, order: Order, width: int | None, height: int | None) -> list[Text]:
    resources, sinks = resource_table(figures, order), sink_table(figures, order)
    most_resources = most_sinks = None
    if height is not None:
        left = max(4, height - _FIXED_LINES)
        most_resources = max(left // 2, left - len(sinks.rows) - 1)
        most_sinks = left - min(most_resources, len(resources.rows) + 1)
    return [
        summary_line(summary(figures.answer.status, figures), width),
        Text(),
        *table_lines(resources, width, most_resources),
        Text(),
        *table_lines(sinks, width, most_sinks),
    ]


# ── Tables as lines ──────────────────────────────────────────────────────────

_GAP = 2
"""Blanks between two columns."""
_NARROWEST = 8
"""Cells of a column that is cut."""


def summary_line(cells: Sequence[Cell], width: int | None) -> Text:
    """As many of the first cells as fit."""
    line = Text()
    for cell in cells:
        part = " · " if line.plain else ""
        if width is not None and line.plain and cell_len(line.plain + part + cell.text) > width:
            break
        line.append(part, "dim").append(cell.text, cell.style or None)
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    return line


def table_lines(table: Table, width: int | None, most: int | None) -> list[Text]:
    """At most ``width`` cells wide: columns that matter less are left out, then the widest are cut. At most ``most``
    lines: the last tells how many rows are left out. None for no bound."""
    columns = _fitting(table, width)
    widths = _widths(table, columns)
    if width is not None:
        _cut(widths, width)
    rows = table.rows
    hidden = 0
    if most is not None and len(rows) + 1 > most:
        hidden = len(rows) - max(0, most - 2)
        rows = rows[: len(rows) - hidden]
    header = _line([Cell(table.columns[each].name, "bold") for each in columns], table, columns, widths)
    lines = [header, *(_line([row[each] for each in columns], table, columns, widths) for row in rows)]
    return [*lines, Text(f"and {hidden} more", "dim")] if hidden else lines


def _fitting(table: Table, width: int | None) -> list[int]:
    columns = [
        index for index, column in enumerate(table.columns) if column.name or any(row[index].text for row in table.rows)
    ]
    if width is None:
        return columns
    while _total(_least(table, columns)) > width:
        dropped = max(columns, key=lambda each: table.columns[each].drop)
        if not table.columns[dropped].drop:
            break
        columns.remove(dropped)
    return columns


def _least(table: Table, columns: Sequence[int]) -> list[int]:
    """Widths with texts cut; notes, which have no name, stay long enough to tell something."""
    return [
        width if column.right else min(width, 3 * _NARROWEST if column.name else 5 * _NARROWEST)
        for width, column in zip(_widths(table, columns), [table.columns[each] for each in columns], strict=True)
    ]


def _widths(table: Table, columns: Sequence[int]) -> list[int]:
    return [max(map(cell_len, [table.columns[each].name, *(row[each].text for row in table.rows)])) for each in columns]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _cut(widths: list[int], width: int) -> None:
    while (excess := _total(widths) - width) > 0:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] = max(_NARROWEST, widths[widest] - excess)


def _line(cells: Sequence[Cell], table: Table, columns: Sequence[int], widths: Sequence[int]) -> Text:
    line = Text(no_wrap=True, overflow="crop", end="")
    for place, (cell, index, width) in enumerate(zip(cells, columns, widths, strict=True)):
        line.append(" " * _GAP if place else "").append(
            _sized(cell.text, table.columns[index], width), cell.style or None
        )
    line.rstrip()
    return line


def _sized(text: str, column: Column, width: int) -> str:
    length = cell_len(text)
    if length > width and not column.name:
        # A reason ends with what tells most.
        tail = (width - 1) * 2 // 3
        return set_cell_size(text, width - 1 - tail) + "…" + set_cell_size(text[::-1], tail)[::-1]
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    blanks = " " * (width - length)
    return blanks + text if column.right else text + blanks


# ── Keys ─────────────────────────────────────────────────────────────────────

_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.")
"""An arrow, or the like: no key of ours."""
_MOST = 64
"""Bytes of a read: a pasted text is no command."""


@contextmanager
def reading_keys(press: Callable[[str], None]) -> Iterator[None]:
    """Inside the context, ``press`` gets each key that is typed, on the event loop, and the terminal shows none.
    Without effect where standard input is no terminal, or belongs to another job."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, termios.error):
        yield
        return
    if _in_background(descriptor):
        yield
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        typed = os.read(descriptor, _MOST)
        if not typed:
            loop.remove_reader(descriptor)
        for key in _SEQUENCE.sub("", typed.decode(errors="replace")):
            press(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _in_background(descriptor: int) -> bool:
    """A change of the terminal would stop the process."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:  # It is no terminal of this session.
        return False
