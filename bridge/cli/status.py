"""``kubedelta status``: what is wrong, and the next command to type.

Asks the running bridge; without one, reads the state on disk. The judgement is ``model.diagnosis``; this module adds
what a bridge cannot know of itself: that it does not run, and what became of its file on disk.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from bridge.app.admin.client import AdminClient, CommandFailed, NoAnswer, NotRunning
from bridge.app.admin.commands import AdminOperations
from bridge.cli.admin_access import directory_of, on_files
from bridge.cli.exits import Exit
from bridge.cli.settings import OperatorSettings, operator_settings
from bridge.cli.terminal import plain, say
from bridge.model.admin import About, CursorStatus, UnknownTarget
from bridge.model.diagnosis import Rejected, Trouble, troubles_of, troubles_of_sink
from bridge.model.primitives.printable import counted
from bridge.model.status import BridgeStatus, ConfigurationStatus, SinkState, SinkStatus
from config.document import ConfigurationFile
from config.errors import ConfigError


class _Report(msgspec.Struct, frozen=True):
    """The answer, also as a JSON document."""

    configuration: str
    state: str
    running: bool
    """Whether a bridge answers."""
    ready: bool
    pid: int
    troubles: list[Trouble]
    """The first is the first to look at."""
    status: BridgeStatus | None
    """The bridge's own answer; None without one."""


def status(path: Path, *, as_json: bool) -> int:
    """0: all is well. 1: something is wrong. 69: no bridge runs, or it does not answer."""
    report = asyncio.run(_report(operator_settings(path)))
    say(msgspec.json.encode(report).decode() if as_json else "\n".join(_lines(report, path)))
    if not report.running:
        return Exit.UNAVAILABLE
    return Exit.NO if report.troubles else Exit.OK


async def _report(found: OperatorSettings) -> _Report:
    about = About()
    now: BridgeStatus | None = None
    troubles: list[Trouble] = []
    try:
        async with AdminClient(await directory_of(found)) as admin:
            about = admin.about
            now = await admin.status()
            rejected = await _rejected(admin, now.sinks)
        troubles = [*troubles_of(now, rejected), *_of_file(found, about, now.configuration)]
    except NotRunning:
        what = f"no bridge runs on {found.directory}: nothing is watched or delivered"
        troubles = [Trouble("bridge", what, "see why its log ended, and what a start would find:", "check")]
        troubles += [*_of_file(found, about, None), *await _of_state(found)]
    except (NoAnswer, CommandFailed, UnknownTarget) as error:
        silent = Trouble("bridge", str(error), "look at its log; if it stays so, restart it")
        troubles = [silent, *_of_file(found, about, None)]
    return _Report(
        configuration=str(found.path),
        state=str(found.directory),
        running=now is not None,
        ready=now is not None and now.ready,
        pid=about.pid,
        troubles=troubles,
        status=now,
    )


def _of_file(found: OperatorSettings, about: About, in_effect: ConfigurationStatus | None) -> Iterator[Trouble]:
    """The file on disk, compared with the one in effect. The bridge reports a change that it has refused."""
    if about.file and about.file != found.file:
        what = f"the bridge runs with {about.file}, and not with {found.path}"
        yield Trouble("configuration", what, "name its file with -c, or set KUBEDELTA_CONFIG")
    elif isinstance(found.settings, ConfigError):
        first, *more = map(str, found.settings.problems)
        further = f" (and {len(more)} more)" if more else ""
        effect = "a start would end" if in_effect is None else "the former configuration stays in effect"
        if in_effect is None or not in_effect.refused:
            yield Trouble("configuration", f"invalid, so {effect}: {first}{further}", command="check --offline")
    elif in_effect is not None and not in_effect.refused and _differs(found.path, in_effect):
        yield Trouble("configuration", f"{found.path} has changed, and is not in effect yet", command="reload")


def _differs(path: Path, in_effect: ConfigurationStatus) -> bool:
    return bool(in_effect.digest) and ConfigurationFile(path).digest != in_effect.digest


async def _of_state(found: OperatorSettings) -> list[Trouble]:
    """The troubles of sinks in the files of a stopped bridge."""
    if isinstance(found.settings, ConfigError) or not found.directory.is_dir():
        return []
    from bridge.outbox import Damaged, StateError  # Half of a start, and not needed where a bridge runs.

    try:
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(on_files(found.settings))
            sinks = [await _stopped(admin, each) for each in (await admin.cursors()).sinks]
            rejected = await _rejected(admin, sinks)
    except (StateError, Damaged) as error:
        return [Trouble("state", str(error), command="check")]
    return [trouble for each in sinks for trouble in troubles_of_sink(each, rejected.get(each.name, ()))]


async def _rejected(admin: AdminOperations, sinks: Sequence[SinkStatus]) -> Rejected:
    return {each.name: await admin.dead_letter_chains(each.name, limit=2) for each in sinks if each.dead_letters}


async def _stopped(admin: AdminOperations, cursor: CursorStatus) -> SinkStatus:
    state = SinkState.PAUSED if cursor.paused else SinkState.IDLE
    state = SinkState.GONE if cursor.gone else SinkState.FENCED if cursor.fenced else state
    letters = parked = after = 0
    while cursor.configured and (page := await admin.dead_letters(cursor.sink, after=after)):
        letters, parked, after = letters + len(page), parked + sum(each.parked for each in page), page[-1].number
    return SinkStatus(
        name=cursor.sink,
        type="",
        state=state,
        backlog_records=cursor.backlog_records,
        backlog_seconds=cursor.oldest_seconds,
        dead_letters=letters,
        parked=parked,
    )


# ── For people ───────────────────────────────────────────────────────────────


def _lines(report: _Report, path: Path) -> Iterator[str]:
    yield _summary(report)
    for each in report.troubles:
        command = f"kubedelta {each.command} -c {shlex.quote(str(path))}" if each.command else ""
        yield from ("", plain(each.line), f"  {plain(f'{each.advice} {command}')}")


def _summary(report: _Report) -> str:
    if report.status is None:
        return f"not running: {report.state}"
    status = report.status
    resources = len({each.resource for each in status.informers})
    backlog = sum(each.backlog_records for each in status.sinks)
    parts = [
        "ready" if report.ready else "not ready",
        f"{counted(resources, 'resource')}, {counted(status.ledger_objects, 'object')}",
        f"{counted(len(status.sinks), 'sink')}, {counted(backlog, 'record')} waiting",
        counted(len(report.troubles), "problem") if report.troubles else "all is well",
    ]
    return " · ".join(parts)
