"""``kubedelta demo``: a small simulated cluster inside the process, and a bridge on it."""

from __future__ import annotations

import asyncio
import shutil
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bridge.app.bridge import Bridge
from bridge.cli.demo.view import Screen, ScreenSink
from bridge.cli.exits import Exit
from bridge.cli.signals import ENDING, handle_signals
from bridge.cli.terminal.console import ScreenConsole
from bridge.facts import discard
from bridge.kube import ClusterAccess
from bridge.plan.plan import Plan, SinkPlan, Wanted
from bridge.playground import Playground
from bridge.playground.simulation.life import ClusterSimulation


def demo(*, seconds: float | None, rate: float) -> int:
    """Runs for ``seconds``, or until SIGINT, SIGTERM or a closed pipe. ``rate``: changes per second. Prints totals at
    the end."""
    console = ScreenConsole(highlight=False)
    asyncio.run(_demo(console, seconds, rate))
    return Exit.OK


async def _demo(console: ScreenConsole, seconds: float | None, rate: float) -> None:
    screen = Screen(console)
    with TemporaryDirectory(prefix="kubedelta-demo-") as state:
        await _run(console, screen, Path(state), seconds, rate)


async def _run(console: ScreenConsole, screen: Screen, state: Path, seconds: float | None, rate: float) -> None:
    async with Playground(bookmark_interval=5.0) as cluster:
        bridge = Bridge(_plan(cluster.url, state, screen), report=discard)
        console.when_left = bridge.stop
        handle_signals(
            lambda _: bridge.stop(),
            ending=(*ENDING, signal.SIGHUP),  # The terminal was closed.
            # The second signal ends the process without the end of this context, which deletes the folder.
            at_once=partial(shutil.rmtree, state, ignore_errors=True),
        )
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(ClusterSimulation(cluster, rate=rate).run())
            summary = tasks.create_task(screen.keep_summary(bridge.snapshot))
            running = tasks.create_task(bridge.run())
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    # The timeout ends the wait only; ``stop`` below lets the sink finish.
                    await asyncio.shield(running)
            life.cancel()
            bridge.stop()
            await running
            summary.cancel()
        console.print(screen.totals(), soft_wrap=True)


def _plan(server: str, state: Path, screen: Screen) -> Plan:
    sink = SinkPlan(name="screen", type="screen", make=lambda: ScreenSink(screen), max_batch=100)
    return Plan(
        cluster="playground",
        access=ClusterAccess(server=server),
        wanted=(Wanted("*"),),
        sinks=(sink,),
        discovery_seconds=1.0,
        state=state,
        grace_seconds=5.0,
    )
