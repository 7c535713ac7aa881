"""A playground that misbehaves on request: ``server.misbehave``.

A rule applies to a resource (``"pods"``), to discovery and other documents (``DISCOVERY``) or to all (None), for a
number of ``times`` or until it is stopped (None). Every method that makes a rule returns the rule; ``rule.stop()`` and
the end of ``with rule:`` stop it.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Self, TypeAlias

from bridge import playground
from bridge.playground.http.errors import StatusError
from bridge.playground.http.handlers import WholeResponse
from bridge.playground.http.streams import Faults, WatchStream, error_line
from bridge.playground.objects.store import ObjectStore, StoredObject
from tests.cluster.servers.ports import hold_port
from tests.kit.deadlines import until


class Playground(playground.Playground):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        kinds = self.catalogue
        self.misbehave.attach(self._state.store, self.watches, lambda name: kinds.named(name).collection)
        self._held: socket.socket | None = None

    async def __aenter__(self) -> Self:
        self._held = hold_port()
        self._port = self._held.getsockname()[1]
        return await super().__aenter__()

    async def __aexit__(self, *raised: object) -> None:
        await super().__aexit__(*raised)
        if self._held is not None:
            self._held.close()

    @asynccontextmanager
    async def refusing_connections(self) -> AsyncIterator[None]:
        """Takes the server down during the block: open connections are dropped, new connections refused. Objects,
        history and port stay."""
        await self._close()
        try:
            yield
        finally:
            await self._listen()

    def open_watches(self, resource: str | None = None) -> int:
        """The number of open watches of a resource (None: of all resources)."""
        return len(self.misbehave.watches_of(resource))

    async def until_watched(self, resource: str) -> None:
        """Waits until a watch of the resource is open. Raises TimeoutError."""
        await until(lambda: self.open_watches(resource) > 0)

    def _faults(self) -> Faults:
        self.misbehave = Misbehaviour()
        return self.misbehave


class _Act(Enum):
    FORBID = auto()
    """Answers 403, and denies SelfSubjectAccessReviews."""
    MISLABEL = auto()
    """Answers with the right body and the content type of a text."""
    CUT = auto()
    """Sends the first half of the next line of a watch, and drops the connection."""
    SILENCE = auto()
    """Keeps watches open without sending anything, their end included."""


Act: TypeAlias = StatusError | WholeResponse | _Act
"""What happens; an error or a response is the answer to the request."""


@dataclass(slots=True, eq=False)
class FaultRule:
    """A misbehaviour in force."""

    act: Act
    resource: str | None
    times: int | None
    """The remaining number of requests; None for no limit."""
    verbs: Collection[str] | None = None
    _changed: Callable[[], None] = field(default=lambda: None)

    def concerns(self, resource: str, verb: str) -> bool:
        return self.times != 0 and self.resource in (None, resource) and (self.verbs is None or verb in self.verbs)

    def spend(self) -> None:
        if self.times is not None:
            self.times -= 1

    def stop(self) -> None:
        """Ends the misbehaviour. Silent watches send their held lines."""
        self.times = 0
        self._changed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Misbehaviour(Faults):
    """The rules in force, and methods that act at once."""

    def __init__(self) -> None:
        self._rules: list[FaultRule] = []
        self._to_lose: Counter[str] = Counter()

    def attach(self, store: ObjectStore, watches: set[WatchStream], collection_of: Callable[[str], str]) -> None:
        self._store = store
        self._watches = watches
        self._collection_of = collection_of
        self._commit = store.commit
        setattr(store, "commit", self._commit_and_lose)  # noqa: B010 (a method is replaced)

    # ── Answers ──────────────────────────────────────────────────────────────

    def fail(self, error: StatusError, resource: str | None = None, *, times: int | None = None) -> FaultRule:
        """Answers with the Status of ``error``."""
        return self._add(error, resource, times)

    def forbid(self, resource: str | None = None, *, times: int | None = None) -> FaultRule:
        """Answers 403, and denies access reviews."""
        return self._add(_Act.FORBID, resource, times)

    def reply(
        self,
        body: bytes,
        resource: str | None = None,
        *,
        status: int = 200,
        content_type: str = "application/json",
        verbs: Collection[str] | None = None,
        times: int | None = None,
    ) -> FaultRule:
        """Answers with these bytes. For a watch they are the whole stream."""
        return self._add(WholeResponse(body, status, content_type), resource, times, verbs)

    def wrong_content_type(self, resource: str, *, times: int | None = None) -> FaultRule:
        """Answers with the right body, as plain text."""
        return self._add(_Act.MISLABEL, resource, times)

    # ── Watches ──────────────────────────────────────────────────────────────

    def cut_line(self, resource: str) -> FaultRule:
        """Cuts the next line of an open or new watch in its middle, and drops the connection."""
        return self._add(_Act.CUT, resource, times=1)

    def go_silent(self, resource: str) -> FaultRule:
        """Keeps watches open and sends no bytes: no events, no bookmarks, no end. Held lines follow when it stops."""
        return self._add(_Act.SILENCE, resource, times=None)

    def hang_up(self, resource: str | None = None) -> int:
        """Ends all open watches cleanly. Returns their number."""
        return self._each(resource, lambda watch: watch.hang_up())

    def reset(self, resource: str | None = None) -> int:
        """Drops the connections of all open watches. Returns their number."""
        return self._each(resource, lambda watch: watch.reset())

    def inject(self, raw: bytes, resource: str) -> int:
        """Sends bytes between the lines of all open watches. Returns their number."""
        return self._each(resource, lambda watch: watch.inject(raw))

    def break_watches(self, error: StatusError, resource: str) -> int:
        """Sends an ERROR event on all open watches and ends them. Returns their number."""
        self.inject(error_line(error), resource)
        return self.hang_up(resource)

    # ── The store ────────────────────────────────────────────────────────────

    def lose_event(self, resource: str) -> None:
        """Hides the next change of the resource from watches."""
        self._to_lose[self._collection_of(resource)] += 1

    def restart(self) -> None:
        """Empties the watch cache, and resets all watches; lists at earlier versions go on, as etcd has them."""
        self._store.empty_watch_cache()
        self.reset()

    def expire_history(self) -> None:
        """Forgets all changes until now: older versions and continue tokens get 410."""
        self._store.compact()

    # ── For the server ───────────────────────────────────────────────────────

    async def instead(self, resource: str, verb: str) -> WholeResponse | None:
        for rule in self._in_force(resource, verb):
            if isinstance(rule.act, StatusError):
                rule.spend()
                raise rule.act
            if isinstance(rule.act, WholeResponse):
                rule.spend()
                return rule.act
        return None

    def forbids(self, resource: str, verb: str, *, spend: bool) -> bool:
        return self._does(_Act.FORBID, resource, verb, spend=spend)

    def content_type(self, resource: str, verb: str) -> str | None:
        return "text/plain" if self._does(_Act.MISLABEL, resource, verb) else None

    def is_silent(self, resource: str) -> bool:
        return self._does(_Act.SILENCE, resource, "watch")

    def cuts_line(self, resource: str) -> bool:
        return self._does(_Act.CUT, resource, "watch")

    def _does(self, act: _Act, resource: str, verb: str, *, spend: bool = True) -> bool:
        found = next((rule for rule in self._in_force(resource, verb) if rule.act is act), None)
        if found is not None and spend:
            found.spend()
        return found is not None

    def _in_force(self, resource: str, verb: str) -> Iterator[FaultRule]:
        return (rule for rule in self._rules if rule.concerns(resource, verb))

    def _add(
        self, act: Act, resource: str | None, times: int | None, verbs: Collection[str] | None = None
    ) -> FaultRule:
        rule = FaultRule(act, resource, times, verbs, _changed=self._wake)
        self._rules.append(rule)
        self._wake()
        return rule

    def _wake(self) -> None:
        for watch in self.watches_of():
            watch.wake()

    def watches_of(self, resource: str | None = None) -> list[WatchStream]:
        return [watch for watch in self._watches if resource in (None, watch.resource)]

    def _each(self, resource: str | None, act: Callable[[WatchStream], None]) -> int:
        concerned = self.watches_of(resource)
        for watch in concerned:
            act(watch)
        return len(concerned)

    def _commit_and_lose(self, name: str, key: str, before: StoredObject | None, after: StoredObject | None) -> int:
        version = self._commit(name, key, before, after)
        if self._to_lose[name]:
            self._to_lose[name] -= 1
            self._store.collection(name).events.pop()  # Watches read the events after this method only.
        return version
