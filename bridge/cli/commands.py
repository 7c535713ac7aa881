"""One function for each command; each returns its exit code."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

from bridge.app.bridge import Bridge
from bridge.app.check import Verdict, check_all
from bridge.app.plan import Plan
from bridge.app.planning import plan_of
from bridge.app.preflight import preflight
from bridge.cli.exits import Exit
from bridge.cli.output import complain, say
from bridge.cli.settings import load_settings, sink_options
from bridge.cli.signals import WITHOUT_MEANING, heed_signals, ignore_early
from bridge.kube import CredentialsError
from bridge.outbox.errors import Damaged, StateError
from bridge.telemetry.log_stream import set_up_logging
from bridge.telemetry.logs import Logs
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.observers import Telemetry
from bridge.web.access import TokenFile
from bridge.web.server import WebServer
from config.errors import ConfigError
from config.reference import json_schema
from config.reference import reference as reference_file
from config.schema import TelemetrySettings
from sinks import registry

_EXIT_OF = {Verdict.RIGHT: Exit.OK, Verdict.UNREACHABLE: Exit.UNAVAILABLE, Verdict.WRONG: Exit.CONFIG}


def run(path: Path, *, profile_stages: bool = False) -> int:
    """Watch and deliver until SIGTERM or SIGINT."""
    ignored = [each for each in WITHOUT_MEANING if not (profile_stages and each is signal.SIGUSR1)]
    ignore_early(ignored)
    try:
        settings = load_settings(path)
        plan = plan_of(settings)
    except ConfigError as error:
        return _refuse(error)
    if mistakes := preflight(plan):
        complain("\n".join(f"{path}: {where}: {reason}" for where, reason in mistakes))
        return Exit.CONFIG
    gc.freeze()  # What is there by now lives as long as the process: no collection needs to look at it again.
    set_up_logging(settings.telemetry.log_level, settings.telemetry.log_format, sys.stderr)
    running = _run(plan, settings.telemetry, ignored)
    if profile_stages:
        from bridge.cli.stages import with_profile

        running = with_profile(running)
    return asyncio.run(running)


async def _run(plan: Plan, settings: TelemetrySettings, ignored: Collection[signal.Signals]) -> int:
    telemetry = Telemetry(Logs())
    metrics = Metrics(version=version("kubedelta"), failures=telemetry.failures)
    metrics.expect_sinks(*(sink.name for sink in plan.sinks))
    telemetry.add(metrics)
    bridge = Bridge(plan, telemetry.report)
    heed_signals(bridge.stop, ignored=ignored, report=telemetry.report)
    listen, token = (
        settings.listen,
        None if settings.details_token_file is None else TokenFile(settings.details_token_file),
    )
    web = WebServer(listen.host, listen.port, status=bridge, metrics=metrics, token=token, report=telemetry.report)
    try:
        if token is not None:
            token.read()
        await web.start()
    except ValueError as error:
        complain(f"telemetry.details_token_file: {error}")
        return Exit.CONFIG
    except OSError as error:
        complain(f"telemetry.listen: cannot listen on {listen}: {error.strerror or error}")
        return Exit.CONFIG
    try:
        await bridge.run()
    except CredentialsError as error:
        complain(of_cluster(error))
        return Exit.CONFIG
    except StateError as error:
        complain(error)
        return Exit.CONFIG
    except Damaged as error:
        complain(f"state.directory: {error}")
        return Exit.DAMAGED
    finally:
        await web.stop()
    return Exit.OK


def check(path: Path, *, offline: bool) -> int:
    """Try everything that can be tried without delivering a record."""
    try:
        plan = plan_of(load_settings(path))
    except ConfigError as error:
        return _refuse(error)
    say(f"{Verdict.RIGHT:<11} {path}: every option is known and in its range")
    return Exit.OK if offline else asyncio.run(_check(plan))


async def _check(plan: Plan) -> int:
    worst = Exit.OK
    async for finding in check_all(plan):
        say(str(finding))
        worst = max(worst, _EXIT_OF[finding.verdict])
    return worst


def schema(*, reference: bool) -> int:
    """Print what can be written in a configuration file."""
    types = sink_options()
    say(reference_file(types).rstrip("\n") if reference else json.dumps(json_schema(types), indent=2))
    return Exit.OK


def sinks() -> int:
    """Print the types of sinks that are installed."""
    for name, kind in registry.types().items():
        say(f"{name:<10} {kind.summary}")
    for point, why in registry.unusable().items():
        say(f"{point:<10} cannot be used: {why}")
    return Exit.OK


def of_cluster(error: CredentialsError) -> str:
    """What is wrong, behind the option that is meant; what was found elsewhere is of the cluster as a whole."""
    return str(error) if str(error).startswith("cluster.") else f"cluster: {error}"


def _refuse(error: ConfigError) -> int:
    complain(error)
    return Exit.CONFIG
