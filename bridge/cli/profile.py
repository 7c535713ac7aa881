"""``kubedelta run --profile-stages``: the table of where the CPU goes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable

from bridge.cli.terminal.output import complain
from bridge.cli.terminal.text import table
from bridge.profiling.figures import Profile, Row
from bridge.profiling.hooks import profiled


async def with_profile(running: Awaitable[int]) -> int:
    """Print what happened since the last table whenever SIGUSR1 comes, and at the end the table of the whole run."""
    loop = asyncio.get_running_loop()
    with profiled() as clocks:
        seen = clocks.profile()

        def tell() -> None:
            nonlocal seen
            before, seen = seen, clocks.profile()
            _print("Since the last profile", seen - before)

        loop.add_signal_handler(signal.SIGUSR1, tell)
        try:
            return await running
        finally:
            loop.remove_signal_handler(signal.SIGUSR1)
            _print("The whole run", clocks.profile())


def _print(what: str, profile: Profile) -> None:
    complain(rendered(what, profile))


def rendered(what: str, profile: Profile) -> str:
    header = ("STAGE", "µs/RECORD", "SHARE", "CALLS", "RECORDS")
    title = f"{what}: {profile.cpu / 1e9:.2f} s of CPU in {profile.elapsed / 1e9:.1f} s"
    return f"{title}\n{table(header, [_line(row, profile.cpu) for row in profile.rows])}"


def _line(row: Row, cpu: int) -> list[str]:
    each = f"{row.cpu / row.records / 1000:.1f}" if row.records else "-"
    return [row.name, each, f"{row.cpu / max(cpu, 1):.1%}", str(row.calls or "-"), str(row.records or "-")]
