"""``kubedelta run --profile-stages``: prints CPU time by stage."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable

from bridge.cli.terminal.output import complain
from bridge.cli.terminal.text import table
from bridge.profiling.figures import Profile, Row
from bridge.profiling.hooks import profiled


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
    header = ("STAGE", "µs/RECORD", "SHARE", "CALLS", "RECORDS")
    line = f"{title}: {profile.cpu / 1e9:.2f} s of CPU in {profile.elapsed / 1e9:.1f} s"
    return f"{line}\n{table(header, [_line(row, profile.cpu) for row in profile.rows])}"


def _line(row: Row, cpu: int) -> list[str]:
    each = f"{row.cpu / row.records / 1000:.1f}" if row.records else "-"
    return [row.name, each, f"{row.cpu / max(cpu, 1):.1%}", str(row.calls or "-"), str(row.records or "-")]
