"""Follows what the running bridge commits, through its admin socket, until the reader leaves."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from bridge.admin.client import AdminClient, CommandFailed, NoAnswer, NotRunning
from bridge.cli.admin.whereabouts import directory_of
from bridge.cli.exits import Exit
from bridge.cli.settings import OperatorSettings
from bridge.cli.tail.printer import Printer
from bridge.cli.terminal.output import complain
from bridge.cli.terminal.text import plain
from bridge.model.admin import Followed, UnknownTarget
from bridge.model.primitives.printable import counted
from bridge.model.versions.record_forms import record_in

_RETRY_EVERY = 0.5
"""Seconds between two looks for a bridge."""


def follow_bridge(found: OperatorSettings, sink: str | None, printer: Printer) -> int:
    """``sink``: the sink in whose form records are shown; None for the form in which they are stored. Goes on with the
    next bridge when one ends."""
    return asyncio.run(_follow(found, sink, printer))


async def _follow(found: OperatorSettings, sink: str | None, printer: Printer) -> int:
    directory = await directory_of(found)
    while True:
        try:
            async with AdminClient(directory) as admin, aclosing(admin.follow(sink)) as followed:
                async for each in followed:
                    _print(each, printer)
        except UnknownTarget as error:
            complain(plain(str(error)))
            return Exit.NO
        except CommandFailed as error:
            complain(f"the running bridge failed: {plain(str(error))}")
            return Exit.SOFTWARE
        except (NoAnswer, NotRunning):
            pass
        printer.wait_for(f"a bridge on {directory}")
        await asyncio.sleep(_RETRY_EVERY)


def _print(found: Followed, printer: Printer) -> None:
    printer.print(filter(printer.chosen, map(record_in, map(bytes, found.records))))
    for reason in found.rejected:
        complain(f"no event: {plain(reason)}")
    if found.dropped:
        complain(f"{counted(found.dropped, 'record')} left out: they came faster than they were read")
