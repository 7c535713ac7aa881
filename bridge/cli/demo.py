"""``kubedelta demo``: shows a bridge at work on a small simulated cluster inside the process.

The bridge watches the playground and delivers to two sinks: ``ScreenSink``, whose destination is the terminal, with a
line for each delta above the page's address and a summary at the bottom; and ``HistorySink``, which keeps a history for
commands in another terminal. State and history are in a temporary folder that goes at the end.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kubedelta_reader import structured
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from bridge.app.bridge import Bridge
from bridge.cli.console import ScreenConsole
from bridge.cli.exits import Exit
from bridge.cli.process import ENDING, handle_signals
from bridge.cli.terminal import colour_of
from bridge.history.recorder import HistoryBounds, Recorder
from bridge.kube import ClusterAccess
from bridge.model.change import Evidence, Op
from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.primitives.printable import escaped
from bridge.model.record import Delta, Record
from bridge.model.status import BridgeStatus
from bridge.plan.plan import PagePlan, Plan, SinkPlan, Wanted
from bridge.playground import Playground
from bridge.playground.simulation import ClusterSimulation
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.process import PageOpened
from sinks.base import ALL_STORED, Receipt, SinkContext

_CLUSTER = "playground"


def demo(*, seconds: float | None, rate: float) -> int:
    """Runs for ``seconds``, or until SIGINT, SIGTERM or a closed pipe. ``rate``: changes per second. Prints totals at
    the end."""
    with TemporaryDirectory(prefix="kubedelta-demo-") as folder:
        asyncio.run(_run(Path(folder), seconds, rate))
    return Exit.OK


async def _run(folder: Path, seconds: float | None, rate: float) -> None:
    ended = asyncio.Event()
    console = ScreenConsole(ended.set)
    state, history = folder / "state", folder / "k8s.db"
    state.mkdir()
    screen = Screen(console, history)
    async with Playground(bookmark_interval=5.0) as cluster:
        bridge = Bridge(_plan(cluster.url, state, screen, history, page=console.is_terminal), report=screen.report)
        handle_signals(
            lambda _: ended.set(),
            ending=(*ENDING, signal.SIGHUP),  # The terminal was closed.
            # The second signal ends the process without the end of this context, which deletes the folder.
            at_once=partial(shutil.rmtree, folder, ignore_errors=True),
        )
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(ClusterSimulation(cluster, rate=rate).run())
            summary = tasks.create_task(screen.keep_summary(bridge.status))
            running = tasks.create_task(bridge.run())
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await ended.wait()
            life.cancel()
            bridge.stop()
            await running
            summary.cancel()
        console.print(screen.totals(), soft_wrap=True)


def _plan(server: str, state: Path, screen: Screen, history: Path, *, page: bool) -> Plan:
    sinks = (
        SinkPlan(name="screen", type="screen", make=lambda: ScreenSink(screen), max_batch=100),
        SinkPlan(name="history", type="history", make=lambda: HistorySink(history), max_batch=1000),
    )
    return Plan(
        cluster=_CLUSTER,
        access=ClusterAccess(server=server),
        wanted=(Wanted("*"),),
        sinks=sinks,
        discovery_seconds=1.0,
        state=state,
        grace_seconds=5.0,
        page=PagePlan("127.0.0.1", 0) if page else None,
    )


# ── The display ──────────────────────────────────────────────────────────────


class Screen:
    """Prints deltas above commands to try, the page's address and a summary; without a terminal, only the deltas."""

    def __init__(self, console: Console, history: Path) -> None:
        """``history``: the file that the commands to try read."""
        self._console = console
        self._to_try = Text(
            f"try in another terminal:\nexport KUBEDELTA_HISTORY={history}\n"
            "kubedelta history deploy/web -n shop · kubedelta diff 10s now",
            "dim",
            overflow="fold",
        )
        self._began = asyncio.get_running_loop().time()
        self._page = ""
        self.counts: Counter[Op] = Counter()

    def report(self, fact: Fact) -> None:
        """For the bridge, which chooses the page's port."""
        if isinstance(fact, PageOpened):
            self._page = f"page: http://{fact.address}/\n"

    def show(self, delta: Delta) -> None:
        self.counts[delta.op] += 1
        line = Text.assemble(
            (f"{delta.time[11:23]} ", "dim"),
            (f"{delta.op.sign} {delta.op:<8}", colour_of(delta.op)),
            (f"{escaped(delta.resource.name):<32} ", "cyan"),
            escaped(delta.key),
            (f"  @{escaped(delta.resource_version)}", "dim"),
        )
        if delta.evidence is not Evidence.WATCHED:
            line.append(f"  {delta.evidence}", "dim italic")
        if self._console.is_terminal:
            self._console.print(line, no_wrap=True, overflow="ellipsis")
        else:
            # Without a terminal rich assumes 80 columns, and would cut longer lines in two.
            self._console.print(line, soft_wrap=True)

    def totals(self) -> str:
        """Number of deltas since the start."""
        by_op = " ".join(f"{op} {self.counts[op]}" for op in Op if not op.is_copy)
        return f"{self._rate()}  ·  {by_op}"

    def _rate(self) -> str:
        seconds = max(asyncio.get_running_loop().time() - self._began, 0.001)
        total = sum(self.counts.values())
        return f"{total} deltas, {total / seconds:.1f}/s"

    def summary(self, status: BridgeStatus) -> Text:
        """The page's address, and below it rates and queues, in 80 columns."""
        live = sum(informer.live for informer in status.informers)
        queued = sum(informer.queued for informer in status.informers)
        backlog = sum(sink.backlog_records for sink in status.sinks)
        parts = [
            self._rate(),
            f"queued {queued}",
            f"outbox {status.outbox_records}",
            f"backlog {backlog}",
            f"{live} of {len(status.informers)} watches live",
        ]
        return Text(self._page + " · ".join(parts), "bold reverse", no_wrap=True, overflow="ellipsis")

    async def keep_summary(self, status: Callable[[], BridgeStatus]) -> None:
        """Redraws the summary four times a second, until cancelled. Without a terminal, only waits."""
        if not self._console.is_terminal:
            await asyncio.Event().wait()
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(Group(self._to_try, self.summary(status())), refresh=True)
                await asyncio.sleep(0.25)


class _DemoSink:
    """A sink whose destination is at hand."""

    async def open(self, context: SinkContext) -> None:
        return

    async def check(self) -> str:
        return "the demo"

    async def close(self) -> None:
        return


class ScreenSink(_DemoSink):
    """A sink whose destination is the screen."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        for record in batch:
            if isinstance(record, Delta):
                self._screen.show(record)
        return ALL_STORED


class HistorySink(_DemoSink):
    """A sink whose destination is a history."""

    def __init__(self, path: Path) -> None:
        self._events = CloudEvents(_CLUSTER)
        self._recorder = Recorder(path, "the demo", HistoryBounds(keep=86_400.0, max_bytes=1 << 30))

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        with self._recorder.batch(str(batch[-1].sequence).encode()):
            for record in batch:
                self._recorder.record(structured(self._events.structured(record)))
        return ALL_STORED

    async def close(self) -> None:
        self._recorder.close()
