"""``kubedelta reload``: the running bridge reads its configuration again. Nobody else can put it into effect."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from bridge.admin.client import AdminClient, CommandFailed, NoAnswer, NotRunning
from bridge.cli.exits import Exit
from bridge.cli.settings import load_settings
from bridge.cli.terminal.output import complain, say
from bridge.cli.terminal.text import plain
from bridge.model.admin import Reloaded, ReloadRequest, UnknownTarget
from bridge.model.primitives.printable import counted
from config.errors import ConfigError


def reload(path: Path, *, allow_deletes: int, as_json: bool) -> int:
    """Finds the bridge by the file's ``state.directory``. 1: the bridge refuses the change."""
    try:
        state = load_settings(path).state.directory
        done = asyncio.run(_ask(state, ReloadRequest(allow_deletes)))
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
        say(msgspec.json.encode(done).decode())
    elif done.problems:
        complain("\n".join(["refused; the former configuration stays in effect:", *map(plain, done.problems)]))
    else:
        say("\n".join(map(plain, _lines(done))))
    return Exit.NO if done.problems else Exit.OK


async def _ask(state: Path, request: ReloadRequest) -> Reloaded:
    async with AdminClient(state) as running:
        return await running.reload(request)


def _lines(done: Reloaded) -> list[str]:
    deletes = [f"{what}: {counted(count, 'object')} exported as deleted" for what, count in done.deletes.items()]
    return [*done.changes, *deletes, f"{done.configuration} is in effect" + ("" if done.changes else ", as before")]
