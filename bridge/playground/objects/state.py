"""What the server serves: the store, the kinds, the one writer, and the wait for a version."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from bridge.playground.http.errors import version_too_large
from bridge.playground.objects.catalogue import Catalogue
from bridge.playground.objects.store import Store
from bridge.playground.objects.writes import Writes

VERSION_INFO = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.3+playground",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}


@dataclass(frozen=True, slots=True)
class State:
    store: Store
    catalogue: Catalogue
    writes: Writes
    version_info: dict[str, Any]
    patience: float
    """Seconds that a request waits for a version that is not there yet."""

    async def reached(self, version: int) -> None:
        """Wait until the store is there. Raises ApiError (504) when that takes too long."""
        if self.store.version >= version:
            return
        arrived = asyncio.Event()

        def look() -> None:
            if self.store.version >= version:
                arrived.set()

        self.store.listeners.add(look)
        try:
            async with asyncio.timeout(self.patience):
                await arrived.wait()
        except TimeoutError:
            raise version_too_large(version, self.store.version) from None
        finally:
            self.store.listeners.discard(look)
