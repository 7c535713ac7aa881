"""The server's hooks for faults, and its open watches. The tests' server overrides the hooks (``tests.kit``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from bridge.playground.http.handlers import WholeResponse

DISCOVERY = ""
"""The resource name of requests for discovery, version and health."""


class OpenWatch(Protocol):
    """An open watch of a client."""

    resource: str

    def hang_up(self) -> None:
        """Ends the watch cleanly."""

    def reset(self) -> None:
        """Drops the connection."""

    def inject(self, raw: bytes) -> None:
        """Sends these bytes between two lines."""

    def wake(self) -> None:
        """Makes the watch look for news and faults."""


class OpenWatches:
    """The watches that clients have open now."""

    def __init__(self) -> None:
        self._watches: set[OpenWatch] = set()

    @contextmanager
    def opened(self, watch: OpenWatch) -> Iterator[None]:
        """Counts the watch as open during the block."""
        self._watches.add(watch)
        try:
            yield
        finally:
            self._watches.discard(watch)

    def of(self, resource: str | None = None) -> list[OpenWatch]:
        """The open watches of a resource (None: of all resources)."""
        return [watch for watch in self._watches if resource in (None, watch.resource)]


class Faults:
    """A server without faults. ``resource`` is kubectl's name, or DISCOVERY; ``verb`` is RBAC's."""

    async def instead(self, resource: str, verb: str) -> WholeResponse | None:
        """The answer that replaces the right answer, or None. May wait, and may raise StatusError."""
        return None

    def forbids(self, resource: str, verb: str, namespace: str, *, spend: bool) -> bool:
        """Whether RBAC refuses the request. ``spend`` counts it; a SelfSubjectAccessReview does not."""
        return False

    def content_type(self, resource: str, verb: str) -> str | None:
        """A wrong content type for the right answer."""
        return None

    def ends_at_once(self, resource: str) -> bool:
        """Whether a new watch ends without a line."""
        return False

    def is_silent(self, resource: str) -> bool:
        """Whether open watches hold their lines back."""
        return False

    def cuts_line(self, resource: str) -> bool:
        """Whether the next line of a watch breaks off in its middle, with its connection."""
        return False
