"""Shows the progress of the first lists of ``kubedelta run``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bridge.cli.terminal.progress import ProgressLine
from bridge.model.status import InformerState, StatusSnapshot

_LOOK_EVERY = 0.25
"""Seconds."""
_WAITS_FOR_OTHERS = (InformerState.UNKNOWN, InformerState.REFUSED)


async def show_first_lists(snapshot: Callable[[], StatusSnapshot], line: ProgressLine) -> None:
    """Returns when every resource that can be listed was listed once."""
    while True:
        informers = snapshot().informers
        expected = [each for each in informers if each.state not in _WAITS_FOR_OTHERS]
        synced = sum(each.synced for each in expected)
        if expected and synced == len(expected):
            line.clear()
            return
        if expected:
            note = f"{synced} of {len(expected)} resources"
            line.show("objects listed", sum(each.objects for each in expected), note=note)
        await asyncio.sleep(_LOOK_EVERY)
