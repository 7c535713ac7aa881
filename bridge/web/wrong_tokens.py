"""Wrong tokens of each client, so that nobody fills the log with them. Pure."""

from __future__ import annotations

MOST = 10
"""Wrong tokens of a client within ``WINDOW`` that are counted one by one."""
WINDOW = 60.0
"""Seconds."""
_MOST_CLIENTS = 1000


class WrongTokens:
    """Clients are addresses. Beyond a thousand of them, the client whose window began first is forgotten."""

    def __init__(self) -> None:
        self._clients: dict[str, tuple[float, int]] = {}
        """Client → the beginning of its window, and its wrong tokens since."""

    def wait_of(self, client: str, now: float) -> float:
        """Seconds until wrong tokens of the client are counted again; 0 for at once. ``now``: on a monotonic clock."""
        began, count = self._clients.get(client, (now, 0))
        return max(0.0, began + WINDOW - now) if count >= MOST else 0.0

    def add(self, client: str, now: float) -> None:
        """The client has sent a wrong token."""
        began, count = self._clients.get(client, (now, 0))
        if now - began >= WINDOW:
            began, count = now, 0
            del self._clients[client]
        self._clients[client] = began, count + 1
        if len(self._clients) > _MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]
