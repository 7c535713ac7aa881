"""``kubedelta reload``: the running bridge reads its configuration again. Nobody else can put it into effect."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bridge.admin.client import AdminClient, CommandFailed, NoAnswer, NotRunning
from bridge.cli.admin.whereabouts import directory_of
from bridge.cli.exits import Exit
from bridge.cli.settings import OperatorSettings, operator_settings
from bridge.cli.terminal.output import complain, say
from bridge.cli.terminal.text import plain
from bridge.model.admin import Reloaded, ReloadRequest, UnknownTarget
from bridge.model.diagnosis import Trouble, troubles_of
from bridge.model.primitives.printable import counted
from config.errors import ConfigError

_SETTLES_WITHIN = 10.0
"""Seconds for the first answers to new informers and new sinks. A long list takes longer, and is no failure."""
_LOOK_EVERY = 0.25


def reload(path: Path, *, allow_deletes: int, as_json: bool) -> int:
    """Finds the bridge by the file's ``state.directory``; the file itself is for the bridge to judge. 1: the bridge
    refuses the change, or a part of the change fails."""
    try:
        done, since = asyncio.run(_ask(operator_settings(path), ReloadRequest(allow_deletes)))
    except ConfigError as error:
        complain(error)
        return Exit.CONFIG
    except (NoAnswer, NotRunning) as error:
        complain(error)
        return Exit.UNAVAILABLE
    except UnknownTarget as error:
        complain(plain(str(error)))
        return Exit.NO
    except CommandFailed as error:
        complain(f"the running bridge failed: {plain(str(error))}")
        return Exit.SOFTWARE
    if as_json:
        say(msgspec.json.encode({**msgspec.to_builtins(done), "troubles": since}).decode())
    elif done.problems:
        complain("\n".join(["refused; the former configuration stays in effect:", *map(plain, done.problems)]))
    else:
        say("\n".join(map(plain, _lines(done))))
        for each in since:
            complain(f"{'under way' if each.under_way else 'fails since'}: {plain(each.line)}")
    return Exit.NO if done.problems or not all(each.under_way for each in since) else Exit.OK


async def _ask(found: OperatorSettings, request: ReloadRequest) -> tuple[Reloaded, Sequence[Trouble]]:
    """The answer, and the troubles that begin with the change, or belong to a part of it."""
    async with AdminClient(await directory_of(found)) as running:
        before = {each.subject for each in troubles_of(await running.status())}
        done = await running.reload(request)
        if done.problems or not done.changes:
            return done, ()
        until = asyncio.get_running_loop().time() + _SETTLES_WITHIN
        while True:
            # Readiness is steady over a change, which would hide new resources for the first seconds.
            status = msgspec.structs.replace(await running.status(), changing=False)
            since = [
                each
                for each in troubles_of(status)
                if each.subject not in before or any(_concerns(change, each.subject) for change in done.changes)
            ]
            unanswered = any(
                each.backlog_records and not each.delivered and not each.fails
                for each in status.sinks
                if any(_concerns(change, f"sinks.{each.name}") for change in done.changes)
            )
            settled = not unanswered and not any(each.under_way for each in since)
            if settled or asyncio.get_running_loop().time() >= until:
                return done, since
            await asyncio.sleep(_LOOK_EVERY)


def _concerns(change: str, subject: str) -> bool:
    """``sinks.audit: added``, or ``resources: changed: pods, secrets``."""
    section, _, name = subject.partition(".")
    words = change.replace(",", ":").split(": ")
    return words[0] == subject or (words[0] == section == "resources" and name in words)


def _lines(done: Reloaded) -> list[str]:
    deletes = [f"{what}: {counted(count, 'object')} exported as deleted" for what, count in done.deletes.items()]
    return [*done.changes, *deletes, f"{done.configuration} is in effect" + ("" if done.changes else ", as before")]
