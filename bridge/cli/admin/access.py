"""Access to the state: through the running bridge, or through its files if no bridge runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bridge.admin.client import AdminClient, NotRunning
from bridge.cli.admin.whereabouts import directory_of
from bridge.cli.settings import OperatorSettings
from bridge.model.admin import AdminOperations
from config.schema import Settings


@dataclass(frozen=True, slots=True)
class StateAccess:
    """The operations on the state, and where they run."""

    admin: AdminOperations
    running: bool
    """False if commands take effect at the next start."""


@asynccontextmanager
async def admin_of(found: OperatorSettings) -> AsyncIterator[StateAccess]:
    """Yields the operations, and warns of an invalid file. Raises NoAnswer if a bridge may be running and does not
    answer, StateError if the files cannot be used, and ConfigError for files behind an invalid configuration."""
    async with AsyncExitStack() as held:
        try:
            running = await held.enter_async_context(AdminClient(await directory_of(found)))
        except NotRunning:
            yield StateAccess(await held.enter_async_context(on_files(found.required())), running=False)
        else:
            found.warn()
            yield StateAccess(running, running=True)


def on_files(settings: Settings) -> AbstractAsyncContextManager[AdminOperations]:
    from bridge.admin.offline import open_admin

    return open_admin(settings)
