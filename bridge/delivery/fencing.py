"""A destination that knows another leader: nothing is sent to it until the Lease says who leads."""

from __future__ import annotations

from typing import Protocol

from bridge.facts import LeadershipDoubted, Report
from sinks.base import RetryLater

_MOST_FENCES = 3
"""In a term. More of them come from a process outside of the election, which would go on for ever."""


class HeldLease(Protocol):
    """The Lease with which this replica leads."""

    @property
    def is_valid(self) -> bool:
        """Asked before each delivery; where the answer is no, the worker is about to be cancelled."""
        ...

    async def confirmed(self) -> None:
        """Returns once the Lease was renewed by a request that began after this call. A replica that has lost it is
        cancelled in here."""
        ...


class Fencing:
    """Of a sink, in a term."""

    def __init__(self, sink: str, lease: HeldLease | None, report: Report) -> None:
        """``lease``: None without an election. Then a fence is for the operator."""
        self._sink = sink
        self._lease = lease
        self._report = report
        self._fences = 0
        self.waits = False
        """For the Lease."""

    async def cleared(self, failure: RetryLater) -> bool:
        """Whether this replica leads, all the same, and may try again. False for a failure that is no fence, and where
        the election does not know the other process."""
        if self._lease is None or not (failure.fenced or failure.doubted):
            return False
        self._fences += failure.fenced
        if self._fences > _MOST_FENCES:
            return False
        self._report(LeadershipDoubted(self._sink, failure.reason))
        self.waits = True
        try:
            await self._lease.confirmed()
        finally:
            self.waits = False
        return True
