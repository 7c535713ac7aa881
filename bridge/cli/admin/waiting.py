"""Waits for what a command has begun, with its progress on the terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from bridge.cli.terminal.progress import progress
from bridge.model.admin import AdminOperations
from bridge.model.status import SnapshotState, SnapshotStatus

_LOOK_EVERY = 0.25
"""Seconds."""
_REPLAY = "replay"


@contextmanager
def elapsed(what: str, *, quiet: bool) -> Iterator[None]:
    """Shows on the event loop how long the block takes: its end is unknown."""
    loop = asyncio.get_running_loop()

    ended = False

    def show() -> None:
        if not ended:
            line.show(what, 0)
            loop.call_later(_LOOK_EVERY, show)

    with progress(quiet=quiet) as line:
        loop.call_later(_LOOK_EVERY, show)
        try:
            yield
        finally:
            ended = True


async def replayed(admin: AdminOperations, sink: str, records: int, *, quiet: bool) -> None:
    """Returns when the running bridge has delivered the records of a replay, however often it must try."""
    with progress(quiet=quiet) as line:
        while True:
            [left] = [
                each.backfill_left if each.backfill == _REPLAY else 0
                for each in (await admin.status()).sinks
                if each.name == sink
            ] or [0]
            if not left:
                return
            line.show(f"{sink}: records delivered again", max(0, records - left), records)
            await asyncio.sleep(_LOOK_EVERY)


async def snapshot_delivered(admin: AdminOperations, begun: SnapshotStatus, *, quiet: bool) -> SnapshotStatus:
    """Returns the status at the end of a snapshot in the running bridge: it is delivered, or cancelled."""
    with progress(quiet=quiet) as line:
        while True:
            now = next((each for each in await admin.snapshots() if each.sink == begun.sink), begun)
            if now.number != begun.number or now.state is not SnapshotState.DELIVERING:
                return now
            line.show(f"{begun.sink}: objects delivered", now.objects - now.left, now.objects)
            await asyncio.sleep(_LOOK_EVERY)
