"""``kubedelta run --profile-stages``: prints CPU time by stage, and wake-ups by thread."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable

from bridge.app.profiling import Profile, Row, Thread, profiled
from bridge.cli.terminal import complain, table


async def with_profile(running: Awaitable[int]) -> int:
    """Prints the profile since the last table at each SIGUSR1, and the profile of the whole run at the end."""
    loop = asyncio.get_running_loop()
    with profiled() as clocks:
        seen = clocks.profile()

        def print_profile() -> None:
            nonlocal seen
            before, seen = seen, clocks.profile()
            _print("Since the last profile", seen - before)

        loop.add_signal_handler(signal.SIGUSR1, print_profile)
        try:
            return await running
        finally:
            loop.remove_signal_handler(signal.SIGUSR1)
            _print("The whole run", clocks.profile())


def _print(title: str, profile: Profile) -> None:
    complain(rendered(title, profile))


def rendered(title: str, profile: Profile) -> str:
    """Two tables: CPU by stage, and wake-ups by thread."""
    records, seconds = profile.records, profile.elapsed / 1e9
    stages = table(_STAGES, [_of_stage(row, profile.cpu) for row in profile.rows])
    threads = table(_THREADS, [_of_thread(thread, records) for thread in (*profile.threads, _sum(profile.threads))])
    line = f"{profile.cpu / 1e9:.2f} s of CPU in {seconds:.1f} s, {records} records, {records / seconds:.0f} a second"
    return f"{title}: {line}\n{stages}\n{threads}"


_STAGES = ("STAGE", "µs/RECORD", "SHARE", "CALLS", "RECORDS")
_THREADS = ("THREAD", "WAKE-UPS", "WAKE-UPS/RECORD", "µs/RECORD")


def _of_stage(row: Row, cpu: int) -> list[str]:
    each = f"{row.cpu / row.records / 1000:.1f}" if row.records else "-"
    return [row.name, each, f"{row.cpu / max(cpu, 1):.1%}", str(row.calls or "-"), str(row.records or "-")]


def _of_thread(thread: Thread, records: int) -> list[str]:
    return [thread.name, str(thread.wake_ups), _each(thread.wake_ups, records), _each(thread.cpu / 1000, records)]


def _each(value: float, records: int) -> str:
    return f"{value / records:.2f}" if records else "-"


def _sum(threads: tuple[Thread, ...]) -> Thread:
    return Thread(0, "all threads", sum(each.wake_ups for each in threads), sum(each.cpu for each in threads))
