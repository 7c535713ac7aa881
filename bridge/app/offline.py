"""The state of a bridge that does not run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bridge.app.planning import plan_of
from bridge.app.upkeep import FileUpkeep
from bridge.facts import unheard
from bridge.model.upkeep import Upkeep
from bridge.outbox import Outbox
from config.schema import Settings


@asynccontextmanager
async def open_upkeep(settings: Settings) -> AsyncIterator[Upkeep]:
    """Takes the directory for as long as the context lasts. Raises StateError; a damaged database is left as it is,
    and raises Damaged."""
    plan = plan_of(settings)
    sinks = {sink.name: sink.start for sink in plan.sinks}
    async with await Outbox.open(plan.state, sinks, keeping=plan.keeping, report=unheard, as_it_is=True) as outbox:
        yield FileUpkeep(outbox)
