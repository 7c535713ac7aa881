"""Joins the state of the server: the store, the kinds, the only writer, and the wait for a version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from bridge.playground.http.errors import version_too_large
from bridge.playground.objects.catalogue import ServedKinds
from bridge.playground.objects.store import ObjectStore
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
    store: ObjectStore
    catalogue: ServedKinds
    writes: Writes
    version_wait: float
    """Seconds that a request waits for a version from the future."""
    now: Callable[[], datetime]

    async def reached(self, version: int) -> None:
        """Waits until the store has reached the version. Raises StatusError (504) after ``version_wait`` seconds."""
        if self.store.version >= version:
            return
        arrived = asyncio.Event()

        def look() -> None:
            if self.store.version >= version:
                arrived.set()

        self.store.listeners.add(look)
        try:
            async with asyncio.timeout(self.version_wait):
                await arrived.wait()
        except TimeoutError:
            raise version_too_large(version, self.store.version) from None
        finally:
            self.store.listeners.discard(look)
