"""An API server with a single Lease, in the process: its answers are late, lost or refused on request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from bridge.model.answers import (
    Announced,
    Conflict,
    ErrorAnswer,
    EventType,
    Failed,
    HungUp,
    Opened,
    Refused,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.object import ApiObject

KEY = "apps/kubedelta"


class LeaseStore:
    def __init__(self) -> None:
        self.body: dict[str, Any] | None = None
        self.version = 100
        self.log: list[tuple[int, EventType, dict[str, Any]]] = []
        self.changed = asyncio.Event()
        self.restores = 0

    @property
    def holder(self) -> str:
        return "" if self.body is None else str(self.body["spec"].get("holderIdentity") or "")

    def annotation(self, name: str) -> str:
        return "" if self.body is None else str(self.body["metadata"]["annotations"].get(name, ""))

    def write(self, body: dict[str, Any]) -> bytes:
        kind = EventType.ADDED if self.body is None else EventType.MODIFIED
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.body = body
        self._announce(kind, body)
        return json.dumps(body).encode()

    def delete(self) -> None:
        assert self.body is not None
        self.version += 1
        last, self.body = self.body, None
        last["metadata"]["resourceVersion"] = str(self.version)
        self._announce(EventType.DELETED, last)

    def restore(self, body: dict[str, Any] | None, version: int) -> None:
        """Everything is as it was at this version, and watches end."""
        self.body, self.version, self.restores = body, version, self.restores + 1
        self.log = [each for each in self.log if each[0] <= version]
        self.changed.set()
        self.changed = asyncio.Event()

    def annotate(self, name: str, value: str) -> None:
        assert self.body is not None
        changed = json.loads(json.dumps(self.body))
        changed["metadata"].setdefault("annotations", {})[name] = value
        self.write(changed)

    def _announce(self, kind: EventType, body: dict[str, Any]) -> None:
        self.log.append((self.version, kind, json.loads(json.dumps(body))))
        self.changed.set()
        self.changed = asyncio.Event()


class FakeLeaseApi:
    """The connection of one elector."""

    def __init__(self, store: LeaseStore) -> None:
        self.store = store
        self.requests: list[str] = []
        self._reachable = asyncio.Event()
        self._reachable.set()
        self.watchable = True
        self.lose_answers = 0
        """Of the next writes, which happen."""
        self.fail: Callable[[str], ErrorAnswer | None] = lambda _verb: None
        self.delay = 0.001
        """Seconds until the server acts, and again until the answer."""

    @property
    def reachable(self) -> bool:
        return self._reachable.is_set()

    @reachable.setter
    def reachable(self, reachable: bool) -> None:
        """Requests to a server that is out of reach hang until it is back."""
        self._reachable.set() if reachable else self._reachable.clear()

    async def read(self) -> bytes | ErrorAnswer:
        await self._reach("get")
        if failure := self.fail("get"):
            return failure
        body = self.store.body
        answer = None if body is None else json.dumps(body).encode()
        await asyncio.sleep(self.delay)
        return Refused(404, "404 NotFound") if answer is None else answer

    async def create(self, body: bytes) -> bytes | Conflict | ErrorAnswer:
        await self._reach("create")
        if failure := self.fail("create"):
            return failure
        if self.store.body is not None:
            return Conflict("409 AlreadyExists")
        return await self._answer(self.store.write(json.loads(body)))

    async def update(self, body: bytes) -> bytes | Conflict | ErrorAnswer:
        await self._reach("update")
        if failure := self.fail("update"):
            return failure
        if self.store.body is None:
            return Refused(404, "404 NotFound")
        wanted = json.loads(body)
        if wanted["metadata"]["resourceVersion"] != self.store.body["metadata"]["resourceVersion"]:
            return Conflict("409 Conflict")
        return await self._answer(self.store.write(wanted))

    def watch(self, request: WatchRequest) -> Any:
        return self._watch(request)

    @asynccontextmanager
    async def _watch(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[WatchAnswer]]:
        yield self._answers(int(request.version))

    async def _answers(self, after: int) -> AsyncIterator[WatchAnswer]:
        if not self._answers_watches():
            yield Failed("unreachable")
            return
        yield Opened()
        restores = self.store.restores
        while self._answers_watches() and self.store.restores == restores:
            changed = self.store.changed
            for version, kind, body in [each for each in self.store.log if each[0] > after]:
                after = version
                text = json.dumps(body).encode()
                yield Announced([(kind, ApiObject(KEY, "uid", str(version), text))])
            await changed.wait()
            await asyncio.sleep(self.delay)
        yield HungUp("cut", torn=True)

    def _answers_watches(self) -> bool:
        return self.reachable and self.watchable

    async def _reach(self, verb: str) -> None:
        self.requests.append(verb)
        await asyncio.sleep(self.delay)
        await self._reachable.wait()

    async def _answer(self, answer: bytes) -> bytes | ErrorAnswer:
        await asyncio.sleep(self.delay)
        if self.lose_answers:
            self.lose_answers -= 1
            return Failed("the connection broke")
        return answer
