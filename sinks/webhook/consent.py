"""Abuse protection of CloudEvents' HTTP WebHooks (section 4): an endpoint agrees to deliveries before the first one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from sinks.webhook.http.client import HttpResponse
from sinks.webhook.http.endpoint import RequestFailed

ORIGIN = "webhook-request-origin"
"""The header that names the sender, in the validation request and in each delivery."""

Ask: TypeAlias = Callable[[Mapping[str, str]], Awaitable[HttpResponse]]


class Consent:
    """Sends one validation request, whoever waits for it. The permission holds until the sink is closed."""

    def __init__(self, origin: str, endpoint: str, ask: Ask, *, per_minute: float | None) -> None:
        """``endpoint``: its name in messages. ``ask``: sends an OPTIONS request with further headers. ``per_minute``:
        the rate to ask for; None to ask for none."""
        self._origin = origin
        self._endpoint = endpoint
        self._ask = ask
        self._per_minute = per_minute
        self._asking = asyncio.Lock()
        self._granted = False
        self.allowed_per_second: float | None = None
        """The rate that the endpoint permits; None if it sets no limit."""

    async def obtain(self) -> bool:
        """Returns True when this call has brought the permission. Raises RequestFailed: the endpoint did not answer, or
        does not agree."""
        if self._granted:
            return False
        async with self._asking:
            if self._granted:
                return False
            headers = {ORIGIN: self._origin}
            if self._per_minute is not None:
                headers["webhook-request-rate"] = str(max(1, int(self._per_minute)))
            response = await self._ask(headers)
            self.allowed_per_second = self._permission_in(response)
            self._granted = True
            return True

    def _permission_in(self, response: HttpResponse) -> float | None:
        """The status says nothing: a server that does not know the protocol may answer OPTIONS with 200."""
        allowed = response.headers.get("webhook-allowed-origin", "").strip()
        if allowed != "*" and allowed.lower() != self._origin.lower():
            found = "for another origin only" if allowed else "without WebHook-Allowed-Origin"
            raise self._refused(
                f"answers {response.status} to OPTIONS {found}; permission by callback is not supported"
            )
        rate = response.headers.get("webhook-allowed-rate", "*").strip()
        if rate == "*":
            return None
        if not re.fullmatch("[0-9]{1,9}", rate) or not int(rate):
            raise self._refused("answers OPTIONS with a WebHook-Allowed-Rate that is no number of requests per minute")
        return int(rate) / 60

    def _refused(self, reason: str) -> RequestFailed:
        return RequestFailed(
            f"{self._endpoint} does not agree to deliveries (request_origin): it {reason}", unavailable=True
        )
