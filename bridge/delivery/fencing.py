"""A destination that knows another leader: nothing is sent to it until the Lease says who leads."""

from __future__ import annotations

from typing import Protocol

from bridge.facts import LeadershipDoubted, Report
from sinks.base import AsksToSend, RetryLater, Sink

_MOST_FENCES = 3
"""In a term. More of them come from a process outside of the election, which would go on for ever."""


class HeldLease(Protocol):
    """The Lease with which this replica leads."""

    @property
    def is_valid(self) -> bool:
        """Asked before each request; where the answer is no, the worker is about to be cancelled."""
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
        self._in_doubt = 0
        """Attempts that met another leader and wait for the Lease."""

    def may_send(self) -> bool:
        """Whether this replica leads for certain, and no destination doubts it. Asked before each request."""
        return not self._in_doubt and (self._lease is None or self._lease.is_valid)

    def join(self, sink: Sink) -> None:
        """Before the sink is opened: it asks before each request, too."""
        if self._lease is not None and isinstance(sink, AsksToSend):
            sink.may_send = self.may_send

    async def until_certain(self) -> None:
        """Returns when ``may_send`` says yes. Another attempt may have met the fence, at any time."""
        while self._lease is not None and not self.may_send():
            await self._lease.confirmed()

    def withheld(self, failure: RetryLater) -> bool:
        """The destination has no part in the failure: the next attempt waits ``until_certain``."""
        return self._lease is not None and failure.withheld

    async def cleared(self, failure: RetryLater) -> bool:
        """Whether this replica leads, all the same, and may try again. Meanwhile no request of the sink begins. False
        for a failure that is no fence, and where the election does not know the other process."""
        if self._lease is None or not (failure.fenced or failure.doubted):
            return False
        self._fences += failure.fenced
        if self._fences > _MOST_FENCES:
            return False
        self._report(LeadershipDoubted(self._sink, failure.reason))
        self._in_doubt += 1
        try:
            await self._lease.confirmed()
        finally:
            self._in_doubt -= 1
        return True
