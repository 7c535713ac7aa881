"""Readiness over a change of the configuration, which replaces informers for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from bridge.model.status import StatusSnapshot

SETTLING = 10.0
"""Seconds behind a change in which the new informers may open their watches: the kubelet's time between two probes."""


class SteadyReadiness:
    """A bridge that was ready before a change counts as ready until all its informers are live again, for at most
    ``SETTLING`` behind the change."""

    def __init__(self) -> None:
        self._until = float("-inf")
        """On the event loop's clock."""

    @contextmanager
    def changing(self, before: StatusSnapshot) -> Iterator[None]:
        """Surrounds a change."""
        was_ready = before.ready
        self._until = float("inf") if was_ready else float("-inf")
        try:
            yield
        finally:
            if was_ready:
                self._until = asyncio.get_running_loop().time() + SETTLING

    def covers(self, now: StatusSnapshot) -> bool:
        """Whether ``now``, which says nothing of the change, counts as ready because of the change."""
        if asyncio.get_running_loop().time() >= self._until:
            return False
        if now.ready and self._until != float("inf"):
            self._until = float("-inf")  # A watch that ends from now on is no matter of the change.
        return True
