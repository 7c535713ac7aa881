"""A single object by its name: read, created, updated and watched. Failures are answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus

import httpx

from bridge.kube.errors import CredentialsError
from bridge.kube.transport import NETWORK_ERRORS, not_answered
from bridge.kube.wire.answering import error_of
from bridge.kube.wire.inflate import read_whole
from bridge.kube.wire.status import shortened
from bridge.model.answers import Conflict, ErrorAnswer, Failed, ListerWatcher, WatchAnswer, WatchRequest
from bridge.model.resource import Resource

_LARGEST = 2 << 20
"""Bytes of an answer. The API server takes no larger object."""


class NamedObject:
    """Requests are independent of one another. None has a timeout but for connecting: the caller cancels."""

    def __init__(
        self, http: httpx.AsyncClient, resource: Resource, namespace: str, name: str, watcher: ListerWatcher
    ) -> None:
        """``watcher``: with a scope that has this object alone."""
        self._http = http
        self._collection = resource.path(namespace)
        self._path = resource.path(namespace, name)
        self._watcher = watcher

    async def read(self) -> bytes | ErrorAnswer:
        """The newest state as JSON: a quorum read."""
        answer = await self._ask("GET", self._path)
        return Failed(answer.reason) if isinstance(answer, Conflict) else answer

    async def create(self, body: bytes) -> bytes | Conflict | ErrorAnswer:
        """The created object as JSON. Conflict if it exists."""
        return await self._ask("POST", self._collection, body)

    async def update(self, body: bytes) -> bytes | Conflict | ErrorAnswer:
        """The updated object as JSON. Conflict unless ``body`` has the current resourceVersion."""
        return await self._ask("PUT", self._path, body)

    def watch(self, request: WatchRequest) -> AbstractAsyncContextManager[AsyncIterator[WatchAnswer]]:
        """See ListerWatcher.watch."""
        return self._watcher.watch(request)

    async def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes | Conflict | ErrorAnswer:
        headers = {"Content-Type": "application/json"} if body is not None else None
        try:
            async with self._http.stream(method, path, content=body, headers=headers) as response:
                failure = await error_of(response)
                if failure is None:
                    return await read_whole(response, _LARGEST)
                return Conflict(failure.reason) if response.status_code == HTTPStatus.CONFLICT else failure
        except CredentialsError as error:
            return Failed(shortened(str(error)))
        except NETWORK_ERRORS as error:
            return not_answered(error, self._http.base_url)
