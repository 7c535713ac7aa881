"""What signals mean to a process that runs until it is told to end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from types import FrameType

from bridge.facts import Heed, Report, SignalReceived, unheard

ENDING = (signal.SIGTERM, signal.SIGINT)
WITHOUT_MEANING = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def ignore_early(ignored: Collection[signal.Signals] = WITHOUT_MEANING) -> None:
    """Before there is a log: a signal that would end the process without a word does nothing."""
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def heed_signals(
    stop: Callable[[signal.Signals], None],
    *,
    ending: Collection[signal.Signals] = ENDING,
    ignored: Collection[signal.Signals] = (),
    at_once: Callable[[], None] = lambda: None,
    report: Report = unheard,
) -> None:
    """From the main thread, in the running loop: the first signal of ``ending`` goes to ``stop`` there. The second one
    calls ``at_once`` and ends the process, also while the loop is stuck: with 143 or 130, as a shell would tell it.
    A process that is number 1 of its container cannot end by the signal itself."""
    loop = asyncio.get_running_loop()
    stopping = False

    def tell(*calls: Callable[[], None]) -> None:
        """In the loop: a log line that is being written must not be interrupted by another one."""
        with suppress(RuntimeError):  # The loop is closed: the process ends anyway.
            for call in calls:
                loop.call_soon_threadsafe(call)

    def end(number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        name = signal.Signals(number).name
        if stopping:
            with suppress(Exception):
                report(SignalReceived(name, Heed.AT_ONCE))
                at_once()
            os._exit(128 + number)
        stopping = True
        tell(partial(report, SignalReceived(name, Heed.STOP)), partial(stop, signal.Signals(number)))

    def ignore(number: int, _frame: FrameType | None) -> None:
        tell(partial(report, SignalReceived(signal.Signals(number).name, Heed.IGNORED)))

    for number in ending:
        signal.signal(number, end)
    for number in ignored:
        signal.signal(number, ignore)
