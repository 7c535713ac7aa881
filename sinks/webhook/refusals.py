"""Whether a refusal is a verdict on the event. Pure."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 10_000
"""Events. An older one needs a further attempt."""


class EndpointRefusals:
    """**Another event is the witness.** A refusal counts as a verdict on an event when the endpoint has accepted
    another one between two refusals of this one. Until then the destination may be at fault: 400 is also the answer of
    a proxy that misses a client certificate, of a gateway with a wrong route, and to an option that is wrong for every
    event, and would make dead letters of all events. So an endpoint that refuses everything is a destination that is
    away."""

    def __init__(self) -> None:
        self._accepted = 0
        """Requests."""
        self._refused: dict[str, int] = {}
        """Event → requests that had been accepted at its first refusal."""

    def accepted(self, events: Iterable[str]) -> None:
        """The endpoint has accepted a request with these events."""
        self._accepted += 1
        if self._refused:
            for event in events:
                self._refused.pop(event, None)

    def is_verdict(self, event: str) -> bool:
        """The endpoint has refused a request with this event alone."""
        if self._refused.setdefault(event, self._accepted) < self._accepted:
            del self._refused[event]
            return True
        if len(self._refused) > _MOST:
            del self._refused[next(iter(self._refused))]
        return False
