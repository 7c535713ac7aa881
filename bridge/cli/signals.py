"""Signal handlers of processes that run until a signal (``run``, ``demo``)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from types import FrameType

from bridge.facts import Report, SignalReaction, SignalReceived, discard

ENDING = (signal.SIGTERM, signal.SIGINT)
WITHOUT_MEANING = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def ignore_early(ignored: Collection[signal.Signals] = WITHOUT_MEANING) -> None:
    """Ignores signals that would end the process, until logging is set up."""
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def handle_signals(
    stop: Callable[[signal.Signals], None],
    *,
    ending: Collection[signal.Signals] = ENDING,
    ignored: Collection[signal.Signals] = (),
    reloading: Callable[[], None] | None = None,
    at_once: Callable[[], None] = lambda: None,
    report: Report = discard,
) -> None:
    """Installs the handlers; call it from the main thread, on the running loop. The first signal of ``ending`` calls
    ``stop`` on the loop. The second calls ``at_once`` and ends the process with 143 or 130 (128 + signal), also while
    the loop is stuck. It exits instead of raising the signal anew, which process 1 of a container would ignore. Each
    SIGHUP calls ``reloading``, if given."""
    loop = asyncio.get_running_loop()
    stopping = False

    def schedule(*calls: Callable[[], None]) -> None:
        """Calls on the loop, since a handler could interrupt a log line that is being written."""
        with suppress(RuntimeError):  # The loop is closed: the process ends anyway.
            for call in calls:
                loop.call_soon_threadsafe(call)

    def end(number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        name = signal.Signals(number).name
        if stopping:
            with suppress(Exception):
                report(SignalReceived(name, SignalReaction.AT_ONCE))
                at_once()
            os._exit(128 + number)
        stopping = True
        schedule(partial(report, SignalReceived(name, SignalReaction.STOP)), partial(stop, signal.Signals(number)))

    def ignore(number: int, _frame: FrameType | None) -> None:
        schedule(partial(report, SignalReceived(signal.Signals(number).name, SignalReaction.IGNORED)))

    def reload(number: int, _frame: FrameType | None) -> None:
        if reloading is not None:
            schedule(partial(report, SignalReceived(signal.Signals(number).name, SignalReaction.RELOAD)), reloading)

    if reloading is not None:
        signal.signal(signal.SIGHUP, reload)
    for number in ending:
        signal.signal(number, end)
    for number in ignored:
        signal.signal(number, ignore)
