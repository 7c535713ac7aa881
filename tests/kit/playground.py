"""A playground that misbehaves on request: ``server.misbehave``."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from bridge import playground
from bridge.playground.http.streams import Faults
from tests.cluster.servers.ports import hold_port
from tests.kit.deadlines import BUSY
from tests.kit.misbehaviour import Misbehaviour


class Playground(playground.Playground):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        kinds = self.catalogue
        self.misbehave.attach(self._state.store, self.watches, lambda name: kinds.named(name).collection)
        self._held: socket.socket | None = None

    async def __aenter__(self) -> Self:
        self._held = hold_port()
        self._port = self._held.getsockname()[1]
        return await super().__aenter__()

    async def __aexit__(self, *raised: object) -> None:
        await super().__aexit__(*raised)
        if self._held is not None:
            self._held.close()

    @asynccontextmanager
    async def refusing_connections(self) -> AsyncIterator[None]:
        """Takes the server down during the block: open connections are dropped, new connections refused. Objects,
        history and port stay."""
        await self._close()
        try:
            yield
        finally:
            await self._listen()

    def open_watches(self, resource: str | None = None) -> int:
        """The number of open watches of a resource (None: of all resources)."""
        return len(self.watches.of(resource))

    async def until(self, holds: Callable[[], bool], timeout: float = 10.0 * BUSY) -> None:
        await super().until(holds, timeout)

    async def until_watched(self, resource: str, *, count: int = 1, timeout: float = 10.0 * BUSY) -> None:
        """Waits until ``count`` watches of the resource are open. Raises TimeoutError after ``timeout`` seconds."""
        await self.until(lambda: self.open_watches(resource) >= count, timeout)

    def _faults(self) -> Faults:
        self.misbehave = Misbehaviour()
        return self.misbehave
