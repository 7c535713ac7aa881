"""The status of an informer, for readiness, for the page and for tests."""

from __future__ import annotations

import asyncio

from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.reflector.reflector import Reflector


class RunningStatus:
    """Reads the parts of an informer, which the subclass sets."""

    _fifo: DeltaFIFO
    _reflector: Reflector
    _synced: asyncio.Event

    @property
    def has_synced(self) -> bool:
        """The first list was read, compared and delivered, before this start or since."""
        return self._synced.is_set()

    @property
    def live(self) -> bool:
        return self.has_synced and self._reflector.live

    @property
    def last_contact(self) -> float:
        """The time of the server's last data, on the event loop's clock (seconds)."""
        return self._reflector.last_contact

    @property
    def last_answer(self) -> float:
        """The time of the last outcome of a request, failures included, on the event loop's clock (seconds)."""
        return self._reflector.last_answer

    @property
    def last_error(self) -> str | None:
        return self._reflector.last_error

    @property
    def refused(self) -> bool:
        return self._reflector.refused

    @property
    def queued(self) -> int:
        """Deltas in the queue."""
        return len(self._fifo)

    @property
    def caught_up(self) -> bool:
        """All changes that were read are delivered."""
        return self._fifo.is_processed
