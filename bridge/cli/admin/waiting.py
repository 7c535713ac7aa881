"""Waits for what a command has begun, with its progress on the terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from bridge.cli.terminal.output import complain
from bridge.cli.terminal.progress import progress
from bridge.cli.terminal.text import plain
from bridge.model.admin import AdminOperations
from bridge.model.diagnosis import troubles_of_sink
from bridge.model.status import SinkStatus, SnapshotState, SnapshotStatus

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


class _HeldUp:
    """Says once on standard error why a sink does not move, each time that it stops: nobody waits for a paused or
    failing sink without knowing."""

    def __init__(self, sink: str) -> None:
        self._sink = sink
        self._said = False

    async def look(self, admin: AdminOperations) -> Sequence[SinkStatus]:
        """The sinks of the running bridge."""
        sinks = (await admin.status()).sinks
        here = (msgspec.structs.replace(each, dead_letters=0, parked=0) for each in sinks if each.name == self._sink)
        trouble = next((found for each in here for found in troubles_of_sink(each)), None)
        if trouble is not None and not self._said:
            complain(f"waiting for {plain(trouble.line)} (see kubedelta status)")
        self._said = trouble is not None
        return sinks


async def replayed(admin: AdminOperations, sink: str, records: int, *, quiet: bool) -> None:
    """Returns when the running bridge has delivered the records of a replay, however often it must try."""
    with progress(quiet=quiet) as line:
        held_up = _HeldUp(sink)
        while True:
            [left] = [
                each.backfill_left if each.backfill == _REPLAY else 0
                for each in await held_up.look(admin)
                if each.name == sink
            ] or [0]
            if not left:
                return
            line.show(f"{sink}: records delivered again", max(0, records - left), records)
            await asyncio.sleep(_LOOK_EVERY)


async def snapshot_delivered(admin: AdminOperations, begun: SnapshotStatus, *, quiet: bool) -> SnapshotStatus:
    """Returns the status at the end of a snapshot in the running bridge: it is delivered, or cancelled."""
    with progress(quiet=quiet) as line:
        held_up = _HeldUp(begun.sink)
        while True:
            now = next((each for each in await admin.snapshots() if each.sink == begun.sink), begun)
            if now.number != begun.number or now.state is not SnapshotState.DELIVERING:
                return now
            await held_up.look(admin)
            line.show(f"{begun.sink}: objects delivered", now.objects - now.left, now.objects)
            await asyncio.sleep(_LOOK_EVERY)
