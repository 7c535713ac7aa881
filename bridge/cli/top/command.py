"""``kubedelta top``: asks the running bridge again and again, and shows its answers."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.text import Text

from bridge.admin.client import AdminClient, CommandFailed, NoAnswer, NotRunning
from bridge.cli.admin.whereabouts import directory_of, fetched
from bridge.cli.exits import Exit
from bridge.cli.settings import operator_settings
from bridge.cli.terminal.console import ScreenConsole
from bridge.cli.terminal.output import complain
from bridge.cli.terminal.text import plain
from bridge.cli.top.figures import Answer, Counts, Figures, figures_of
from bridge.cli.top.keys import reading_keys
from bridge.cli.top.layout import summary_line, table_lines
from bridge.cli.top.rows import Order, resource_table, sink_table, summary
from bridge.model.admin import UnknownTarget
from config.errors import ConfigError

_FIXED_LINES = 4
"""Lines beside the two tables."""


def top(path: Path, *, once: bool, seconds: float, order: str) -> int:
    """Shows resources and sinks until ``q``; prints them ``once`` where standard output is no terminal. Rates are
    those of the last ``seconds``."""
    try:
        found = operator_settings(path)
    except ConfigError as error:
        complain(error)
        return Exit.CONFIG
    found.warn()
    console = ScreenConsole(highlight=False)
    source = _Source(asyncio.run(directory_of(found)))
    if once or not console.is_terminal or console.is_dumb_terminal:
        return asyncio.run(_print_once(console, source, seconds, Order(order)))
    return asyncio.run(_Screen(console, source, seconds, Order(order)).run())


class _Source:
    """Raises NoAnswer, NotRunning, CommandFailed and UnknownTarget."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def answer(self) -> Answer:
        # A new connection each time: another bridge may run by now.
        async with AdminClient(self._directory) as admin:
            status = await admin.status()
            return Answer(time.monotonic(), status, await _counts(admin.about.listen))


async def _counts(listen: str) -> Counts | None:
    """``listen``: the address of /metrics. None if it does not answer."""
    try:
        body = await fetched(listen, "/metrics")
        return None if body is None else Counts.parsed(body.decode(errors="replace"))
    except (ValueError, KeyError):
        return None


async def _print_once(console: ScreenConsole, source: _Source, seconds: float, order: Order) -> int:
    try:
        before = await source.answer()
        await asyncio.sleep(seconds)
        figures = figures_of(await source.answer(), before)
    except (NoAnswer, NotRunning) as error:
        complain(error)
        return Exit.UNAVAILABLE
    except (CommandFailed, UnknownTarget) as error:
        complain(plain(str(error)))
        return Exit.SOFTWARE
    width = console.width if console.is_terminal else None
    for line in _lines(figures, order, width, None):
        console.print(line, soft_wrap=True)
    return Exit.OK


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


class _Screen:
    """The whole terminal, until ``q``."""

    def __init__(self, console: ScreenConsole, source: _Source, seconds: float, order: Order) -> None:
        self._console = console
        self._source = source
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
        self._console.when_left = self._end
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
            answer = await self._source.answer()
        except (NoAnswer, NotRunning, CommandFailed, UnknownTarget) as error:
            self._failure = plain(str(error))
        else:
            before = None if self._figures is None else self._figures.answer
            self._figures, self._failure = figures_of(answer, before), ""

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
