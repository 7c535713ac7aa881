"""Who looks after the state now: the bridge that runs on it, or, where none does, this process on its files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bridge.admin.client import AdminClient, NobodyThere
from bridge.model.admin import AdminOperations
from config.schema import Settings


@dataclass(frozen=True, slots=True)
class Reached:
    admin: AdminOperations
    running: bool
    """False where what a sink is to be told waits for the next start."""
    retains: bool = True
    """Records that every sink has settled are kept for a while (``state.retain``)."""


@asynccontextmanager
async def admin_of(settings: Settings) -> AsyncIterator[Reached]:
    """Raises NoAnswer where a bridge may be running and cannot be asked, StateError where the files cannot be used."""
    retain = settings.state.retain
    retains = bool(retain.age or retain.bytes)
    async with AsyncExitStack() as held:
        try:
            running = await held.enter_async_context(AdminClient(settings.state.directory))
        except NobodyThere:
            yield Reached(await held.enter_async_context(on_files(settings)), running=False, retains=retains)
        else:
            yield Reached(running, running=True, retains=retains)


def on_files(settings: Settings) -> AbstractAsyncContextManager[AdminOperations]:
    from bridge.admin.offline import open_admin

    return open_admin(settings)
