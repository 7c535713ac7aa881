"""An access token that is requested when it is first needed, and renewed before its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sinks.errors import SinkUnavailable

_EARLY = 0.1
"""Share of a token's lifetime before its end in which it is renewed."""
_EARLIEST = 60.0
"""Seconds before its end; a token is renewed no sooner than that."""
_RETRY = 10.0
"""Seconds between two attempts to renew a token that is still valid."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    text: str
    lifetime: float
    """Seconds, counted from the request for it. Infinite for a token without a known end."""


class TokenCache:
    """Makes one request at a time, whoever waits: all get its token, or its error."""

    def __init__(self, request: Callable[[], Awaitable[AccessToken]]) -> None:
        """``request`` raises SinkUnavailable."""
        self._request = request
        self._now = asyncio.get_running_loop().time
        self._token: str | None = None
        self._renew_at = 0.0
        self._ends_at = 0.0
        self._requesting = asyncio.Lock()
        self._requests = 0
        self._error: SinkUnavailable | None = None
        """The error of the last request; None if it succeeded."""

    async def get(self) -> str:
        """A token that is valid now. Raises the error of ``request``, unless the present token has not ended."""
        if self._token is not None and self._now() < self._renew_at:
            return self._token
        if self._is_valid and self._requesting.locked():
            return self._present
        requests = self._requests
        async with self._requesting:
            if self._requests != requests:
                # The request of another caller has ended meanwhile. Its result is as good as that of a new request.
                if self._is_valid:
                    return self._present
                if self._error is not None:
                    raise self._error
            return await self._renewed()

    def reject(self, token: str) -> None:
        """The endpoint refuses this token: the next ``get`` requests another, unless another is there already."""
        if token == self._token:
            self._token = None

    @property
    def _is_valid(self) -> bool:
        return self._token is not None and self._now() < self._ends_at

    @property
    def _present(self) -> str:
        return self._token or ""

    async def _renewed(self) -> str:
        began = self._now()
        try:
            found = await self._request()
        except SinkUnavailable as error:
            self._requests += 1
            self._error = error
            if not self._is_valid:
                raise
            self._renew_at = self._now() + _RETRY
            return self._present
        self._requests += 1
        self._error = None
        self._token = found.text
        self._ends_at = began + found.lifetime
        self._renew_at = self._ends_at - min(found.lifetime * _EARLY, _EARLIEST)
        return found.text
