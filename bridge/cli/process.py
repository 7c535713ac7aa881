"""Prepares the process of a command: core dumps, memory, foreign packages, signals.

Core dumps are forbidden, because they would put objects, keys and credentials on a disk, or into a crash reporter. That
is a limit on cores and not PR_SET_DUMPABLE, which would also take py-spy and gdb from the bridge's own user, who can
read the state anyway. ``tune_memory`` sets how the process takes memory and gives it back. ``shadowed`` warns of
foreign packages that hide ours, since our top-level packages have common names. ``handle_signals`` is for processes
that run until a signal (``run``, ``demo``).
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
import signal
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.process import SignalReaction, SignalReceived

_NOT_EVEN_INTO_A_PIPE = 1
"""Byte. With a limit of 0, Linux writes no file, but still feeds a core_pattern that is a pipe (core(5)). With 1, Linux
does neither."""


def forbid_core_dumps() -> None:
    """For this process and its children. A debugger or profiler of the same user may still attach: that user can read
    the state anyway, and PR_SET_DUMPABLE would lock out py-spy and gdb."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard != 0:
        resource.setrlimit(resource.RLIMIT_CORE, (_NOT_EVEN_INTO_A_PIPE, _NOT_EVEN_INTO_A_PIPE))


COLLECTIONS = (20_000, 20, 10)
"""Thresholds of the garbage collector. By default it runs after every 700 new objects, the objects of some
dozen events, and finds little: reference counts free the objects of a batch."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE = 512 << 10
"""Bytes. Bodies and pages of ordinary objects are smaller."""
_SPARE = 8 << 20
"""Bytes at the end of the heap that are kept for the next batch."""


def tune_memory() -> None:
    """Collects garbage less often, and returns the memory of large objects to the system as soon as they are freed.

    Once a block above its threshold was freed, glibc takes blocks of that size from the heap (mallopt(3), "dynamic mmap
    threshold"): after a list of objects of a megabyte, the holes between them stayed with the process, more than
    100 MiB. The system's pages for such a block cost some 5 ms of CPU for an object of a megabyte; smaller objects pay
    nothing. Other C libraries keep their ways.
    """
    gc.freeze()  # Objects so far live as long as the process: collections skip them from now on.
    gc.set_threshold(*COLLECTIONS)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        libc.mallopt(_M_TRIM_THRESHOLD, _SPARE)


OURS = ("config", "sinks")
"""``bridge`` itself is ours once this module runs."""


def shadowed() -> list[str]:
    """A warning for each of our packages that a foreign package hides, with the path of that package."""
    root = Path(__file__).resolve().parents[2]
    return [
        f"kubedelta: another package called {name} ({found}) hides kubedelta's: install kubedelta into an environment "
        "of its own (its image, pipx, a venv), and unset PYTHONPATH"
        for name in OURS
        if (found := _place(name)) != root / name
    ]


def _place(name: str) -> Path | None:
    spec = find_spec(name)
    if spec is None:
        return None
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    path = Path(places[0]).resolve() if places else None
    return path.parent if path and path.name == "__init__.py" else path


ENDING = (signal.SIGTERM, signal.SIGINT)
WITHOUT_MEANING = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def ignore_early(ignored: Collection[signal.Signals]) -> None:
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

    def install(number: signal.Signals, handler: Callable[[int, FrameType | None], None]) -> None:
        # The loop is woken up by signals of its own alone: one that comes just before it waits would wait with it.
        loop.add_signal_handler(number, lambda: None)
        signal.signal(number, handler)

    if reloading is not None:
        received = partial(report, SignalReceived(signal.SIGHUP.name, SignalReaction.RELOAD))
        install(signal.SIGHUP, lambda _number, _frame: schedule(received, reloading))
    for number in ending:
        install(number, end)
    for number in ignored:
        install(number, ignore)
