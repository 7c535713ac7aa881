"""Makes single requests to the API server: JSON in, JSON out, ApiError for every failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import msgspec

from bridge.kube.errors import ApiError, CredentialsError
from bridge.kube.transport import NETWORK_ERRORS, not_answered
from bridge.kube.wire.answering import error_of, read_whole
from bridge.kube.wire.objects import UNREADABLE
from bridge.kube.wire.status import shortened
from bridge.model.answers import Failed

TIMEOUT = 30.0
"""Seconds without a byte."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    """Looked up regardless of case."""
    body: bytes


class Api:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(
        self, method: str, path: str, *, json: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        """Sends a request and reads the whole answer: JSON with a 2xx status, or a 304 if ``headers`` ask for it.

        Raises ApiError for every other answer, for a body beyond LARGEST_DOCUMENT bytes, and for network errors."""
        asked = f"{method} {path}"
        timeout = httpx.Timeout(TIMEOUT, connect=self._http.timeout.connect)
        try:
            async with self._http.stream(method, path, json=json, headers=headers, timeout=timeout) as response:
                if response.status_code != httpx.codes.NOT_MODIFIED and (answer := await error_of(response)):
                    raise ApiError(asked, answer)
                return Answered(response.status_code, response.headers, await read_whole(response))
        except CredentialsError as error:
            raise ApiError(asked, Failed(shortened(str(error)))) from error
        except NETWORK_ERRORS as error:
            raise ApiError(asked, not_answered(error, self._http.base_url)) from error

    async def ask_for(self, kind: type[T], method: str, path: str, *, json: Any = None) -> T:
        """The answer's JSON as a ``kind``. Raises ApiError, also for JSON of another shape."""
        response = await self.ask(method, path, json=json)
        try:
            return msgspec.json.decode(response.body, type=kind)
        except UNREADABLE as error:
            raise ApiError(f"{method} {path}", Failed(shortened(f"the answer could not be read: {error}"))) from error
