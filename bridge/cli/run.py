"""``kubedelta run``: loads the configuration, runs the bridge, and logs the end with its reason.

On a terminal it shows the progress of the first lists. A configuration that cannot be used ends the process before
anything is watched; so does a taken port, since the web server starts before the bridge.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from bridge.app.bridge import Bridge
from bridge.app.endpoints import WebServer
from bridge.app.reloader import Reloader
from bridge.cli.exits import CommandEnds, Exit, of_cluster
from bridge.cli.process import WITHOUT_MEANING, handle_signals, ignore_early, tune_memory
from bridge.cli.settings import load_settings
from bridge.cli.terminal import ProgressLine, complain, table
from bridge.http.access import TokenFile
from bridge.kube import CredentialsError
from bridge.model.status import BridgeStatus, InformerState
from bridge.outbox import Damaged, StateError
from bridge.plan.plan import Plan, PlanRefused
from bridge.plan.plan_from_settings import plan_of
from bridge.plan.preflight import preflight
from bridge.telemetry.facts.process import BridgeBroke, BridgeEnded, BridgeStarted, ConfigurationRefused
from bridge.telemetry.logs import Logs, set_log_level, set_up_logging
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.observers import Telemetry
from config.document import ConfigurationFile
from config.errors import ConfigError
from config.schema import Settings, TelemetrySettings

if TYPE_CHECKING:
    from bridge.app.profiling import Profile, Row, Thread


def run(path: Path, *, profile_stages: bool = False) -> int:
    """Watches and delivers until SIGTERM or SIGINT. The last line of the log has the reason of the end."""
    ignored = [each for each in WITHOUT_MEANING if not (profile_stages and each is signal.SIGUSR1)]
    ignore_early(ignored)
    file = ConfigurationFile(path.absolute())  # Before it is read: a later change counts as one.
    try:
        settings = load_settings(path)
        plan = plan_of(settings, path)
    except ConfigError as error:
        return _refuse(path, [str(problem) for problem in error.problems])
    if mistakes := preflight(plan):
        return _refuse(path, [f"{path}: {where}: {reason}" for where, reason in mistakes])
    tune_memory()
    line = ProgressLine(sys.stderr)
    line.on = line.on and settings.telemetry.log_format != "json"
    set_up_logging(
        settings.telemetry.log_level,
        settings.telemetry.log_format,
        cast("TextIO", line) if line.on else sys.stderr,
        shard="" if plan.shard is None else plan.shard.name,
    )
    running = _run(file, settings, plan, [each for each in ignored if each is not signal.SIGHUP], line)
    return asyncio.run(_with_profile(running) if profile_stages else running)


def _refuse(path: Path, problems: Sequence[str]) -> int:
    """Reports mistakes in the configuration, whose log options may be unknown: plain lines on a terminal, JSON
    elsewhere."""
    if sys.stderr.isatty():
        complain("\n".join(problems))
        return Exit.CONFIG
    set_up_logging("info", "json", sys.stderr)
    logs = Logs()
    logs.observe(ConfigurationRefused(str(path), tuple(problems)))
    logs.observe(BridgeEnded("the configuration cannot be used", Exit.CONFIG, 0.0, {}))
    return Exit.CONFIG


async def _run(
    file: ConfigurationFile, settings: Settings, plan: Plan, ignored: Collection[signal.Signals], line: ProgressLine
) -> int:
    now = asyncio.get_running_loop().time
    began = now()
    telemetry = Telemetry(Logs())
    metrics = Metrics(version=version("kubedelta"), failures=telemetry.failures)
    metrics.expect_sinks(*(sink.name for sink in plan.sinks))
    telemetry.add(metrics)
    telemetry.report(
        BridgeStarted(
            version=version("kubedelta"),
            configuration=str(file.path),
            cluster=plan.cluster,
            resources=tuple(wanted.name for wanted in plan.wanted),
            sinks={sink.name: sink.type for sink in plan.sinks},
            address=str(settings.telemetry.listen),
            state=str(plan.state),
        )
    )
    reloader = Reloader(
        file,
        settings,
        load=partial(load_settings, file.path),
        use=lambda changed: set_log_level(changed.telemetry.log_level),
        report=telemetry.report,
    )
    bridge = Bridge(plan, telemetry.report, reloader)
    reload = partial(reloader.request, signal.SIGHUP.name)
    async with AsyncExitStack() as stack:
        if plan.tracing is not None:
            from bridge.app.tracing import traced

            stack.enter_context(traced(plan.tracing, plan.cluster, telemetry.report))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        showing = tasks.create_task(show_first_lists(bridge.status, line)) if line.on else None
        end = await _until_the_end(bridge, settings.telemetry, telemetry, metrics, ignored, reload)
        if showing is not None:
            showing.cancel()
    line.clear()
    telemetry.report(BridgeEnded(str(end), end.code, now() - began, bridge.backlog))
    return end.code


async def _until_the_end(
    bridge: Bridge,
    settings: TelemetrySettings,
    telemetry: Telemetry,
    metrics: Metrics,
    ignored: Collection[signal.Signals],
    reload: Callable[[], None],
) -> CommandEnds:
    signalled = ""

    def stop(number: signal.Signals) -> None:
        nonlocal signalled
        signalled = number.name
        bridge.stop()

    handle_signals(stop, ignored=ignored, reloading=reload, report=telemetry.report)
    try:
        token = None if settings.details_token_file is None else TokenFile(settings.details_token_file)
        web = WebServer(
            *settings.listen,
            status=bridge.status,
            alive=bridge.alive,
            metrics=metrics.render,
            token=token,
            report=telemetry.report,
        )
        # Before the bridge: a port that is taken ends the start before any list.
        await web.start()
    except OSError as error:
        return CommandEnds(
            Exit.CONFIG, f"telemetry.listen: cannot listen on {settings.listen}: {error.strerror or error}"
        )
    try:
        await bridge.run()
    except CredentialsError as error:
        return CommandEnds(Exit.CONFIG, of_cluster(error))
    except (StateError, PlanRefused) as error:
        return CommandEnds(Exit.CONFIG, str(error))
    except Damaged as error:
        return CommandEnds(Exit.DAMAGED, f"state.directory: {error}")
    except Exception as error:
        telemetry.report(BridgeBroke(error))
        return CommandEnds(Exit.SOFTWARE, f"a bug: {type(error).__name__}")
    finally:
        await web.stop()
    return CommandEnds(Exit.OK, signalled)


_LOOK_EVERY = 0.25
"""Seconds."""
_WAITS_FOR_OTHERS = (InformerState.UNKNOWN, InformerState.REFUSED)


async def show_first_lists(status: Callable[[], BridgeStatus], line: ProgressLine) -> None:
    """Returns when every resource that can be listed was listed once."""
    while True:
        informers = status().informers
        expected = [each for each in informers if each.state not in _WAITS_FOR_OTHERS]
        synced = sum(each.synced for each in expected)
        if expected and synced == len(expected):
            line.clear()
            return
        if expected:
            note = f"{synced} of {len(expected)} resources"
            line.show("objects listed", sum(each.objects for each in expected), note=note)
        await asyncio.sleep(_LOOK_EVERY)


# ── --profile-stages ─────────────────────────────────────────────────────────


async def _with_profile(running: Awaitable[int]) -> int:
    """Prints the profile since the last table at each SIGUSR1, and the profile of the whole run at the end."""
    from bridge.app.profiling import profiled

    loop = asyncio.get_running_loop()
    with profiled() as clocks:
        seen = clocks.profile()

        def print_profile() -> None:
            nonlocal seen
            before, seen = seen, clocks.profile()
            complain(profile_tables("Since the last profile", seen - before))

        loop.add_signal_handler(signal.SIGUSR1, print_profile)
        try:
            return await running
        finally:
            loop.remove_signal_handler(signal.SIGUSR1)
            complain(profile_tables("The whole run", clocks.profile()))


def profile_tables(title: str, profile: Profile) -> str:
    """Two tables: CPU by stage, and wake-ups by thread."""
    records, seconds = profile.records, profile.elapsed / 1e9
    stages = table(_STAGES, [_of_stage(row, profile.cpu) for row in profile.rows])
    threads = table(_THREADS, [_of_thread(each, records) for each in (*profile.threads, profile.all_threads)])
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
