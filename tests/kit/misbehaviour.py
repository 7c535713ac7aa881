"""Makes a playground misbehave, by rules and by faults at once.

A rule applies to a resource (``"pods"``), to discovery and other documents (``DISCOVERY``) or to all (None); to some
verbs or all; for a number of ``times`` or until it is stopped (None). Every method that makes a rule returns the rule;
``rule.stop()`` and the end of ``with rule:`` stop it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from bridge.playground.http import errors
from bridge.playground.http.errors import StatusError
from bridge.playground.http.handlers import WholeResponse
from bridge.playground.http.streams import Faults, OpenWatch, OpenWatches, error_line
from bridge.playground.objects.store import ObjectStore, StoredObject
from tests.kit.fault_rules import (
    Act,
    CutLine,
    Delay,
    EndAtOnce,
    Fail,
    FaultRule,
    Forbid,
    Mislabel,
    Reply,
    Silence,
)

A = TypeVar("A", bound=Act)


class Misbehaviour(Faults):
    """The rules in force, and methods that act at once. Available as ``server.misbehave``."""

    def __init__(self) -> None:
        self._rules: list[FaultRule] = []
        self._to_lose: Counter[str] = Counter()

    def attach(self, store: ObjectStore, watches: OpenWatches, collection_of: Callable[[str], str]) -> None:
        self._store = store
        self._watches = watches
        self._collection_of = collection_of
        self._commit = store.commit
        setattr(store, "commit", self._commit_and_lose)  # noqa: B010 (a method is replaced)

    # ── Answers ──────────────────────────────────────────────────────────────

    def too_many_requests(
        self,
        resource: str | None = None,
        *,
        retry_after: int = 1,
        plain: bool = False,
        verbs: Collection[str] | None = None,
        times: int | None = None,
    ) -> FaultRule:
        """Answers 429 with Retry-After in seconds: a Status, as from a watch cache that is not ready, or ``plain``
        text, as from API Priority and Fairness."""
        if plain:
            text, headers = b"Too many requests, please try again later.\n", (("Retry-After", str(retry_after)),)
            return self._add(Reply(429, "text/plain; charset=utf-8", text, headers), resource, verbs, times)
        return self._add(Fail(_too_many_requests(retry_after)), resource, verbs, times)

    def internal_error(
        self, resource: str | None = None, *, verbs: Collection[str] | None = None, times: int | None = None
    ) -> FaultRule:
        """Answers 500."""
        return self._add(Fail(_internal_error("the playground was asked to fail")), resource, verbs, times)

    def gone(
        self, resource: str | None = None, *, verbs: Collection[str] | None = None, times: int | None = None
    ) -> FaultRule:
        """Answers 410 as the HTTP status, also to a watch."""
        return self._add(Fail(errors.expired("too old resource version")), resource, verbs, times)

    def fail(
        self,
        error: StatusError,
        resource: str | None = None,
        *,
        verbs: Collection[str] | None = None,
        times: int | None = None,
    ) -> FaultRule:
        """Answers with the Status of ``error``."""
        return self._add(Fail(error), resource, verbs, times)

    def forbid(
        self,
        resource: str | None = None,
        *,
        verbs: Collection[str] | None = None,
        namespace: str | None = None,
        times: int | None = None,
    ) -> FaultRule:
        """Answers 403, in all namespaces or only in ``namespace``."""
        return self._add(Forbid(namespace), resource, verbs, times)

    def html(
        self,
        resource: str | None = None,
        *,
        status: int = 502,
        verbs: Collection[str] | None = None,
        times: int | None = None,
    ) -> FaultRule:
        """Answers with a proxy's error page."""
        page = b"<html>\r\n<head><title>%d</title></head>\r\n<body><h1>proxy error</h1></body>\r\n</html>\r\n" % status
        return self._add(Reply(status, "text/html", page), resource, verbs, times)

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
        return self._add(Reply(status, content_type, body), resource, verbs, times)

    def wrong_content_type(
        self,
        resource: str | None = None,
        *,
        content_type: str = "text/plain",
        verbs: Collection[str] | None = None,
        times: int | None = None,
    ) -> FaultRule:
        """Answers with the right body and the wrong content type."""
        return self._add(Mislabel(content_type), resource, verbs, times)

    def slow(
        self,
        resource: str | None = None,
        *,
        seconds: float,
        verbs: Collection[str] | None = None,
        times: int | None = None,
    ) -> FaultRule:
        """Delays each answer."""
        return self._add(Delay(seconds), resource, verbs, times)

    # ── Watches ──────────────────────────────────────────────────────────────

    def end_watches_at_once(self, resource: str | None = None, *, times: int | None = None) -> FaultRule:
        """Accepts new watches, and ends them without a line."""
        return self._add(EndAtOnce(), resource, ("watch",), times)

    def cut_line(self, resource: str | None = None, *, times: int | None = 1) -> FaultRule:
        """Cuts the next line of an open or new watch in its middle, and drops the connection."""
        return self._add(CutLine(), resource, ("watch",), times)

    def go_silent(self, resource: str | None = None) -> FaultRule:
        """Keeps watches open and sends no bytes: no events, no bookmarks, no end. Held lines follow when it stops."""
        return self._add(Silence(), resource, ("watch",), None)

    def hang_up(self, resource: str | None = None) -> int:
        """Ends all open watches cleanly. Returns their number."""
        return self._each(resource, lambda watch: watch.hang_up())

    def reset(self, resource: str | None = None) -> int:
        """Drops the connections of all open watches. Returns their number."""
        return self._each(resource, lambda watch: watch.reset())

    def inject(self, raw: bytes, resource: str | None = None) -> int:
        """Sends bytes between the lines of all open watches. Returns their number."""
        return self._each(resource, lambda watch: watch.inject(raw))

    def break_watches(self, error: StatusError, resource: str | None = None) -> int:
        """Sends an ERROR event on all open watches and ends them. Returns their number."""

        def broken(watch: OpenWatch) -> None:
            watch.inject(error_line(error))
            watch.hang_up()

        return self._each(resource, broken)

    # ── The store ────────────────────────────────────────────────────────────

    def lose_event(self, resource: str, *, times: int = 1) -> None:
        """Hides the next changes of the resource from watches."""
        self._to_lose[self._collection_of(resource)] += times

    def restart(self) -> None:
        """Empties the watch cache, and resets all watches; lists at earlier versions go on, as etcd has them."""
        self._store.empty_watch_cache()
        self.reset()

    def expire_history(self) -> None:
        """Forgets all changes until now: older versions and continue tokens get 410."""
        self._store.compact()

    # ── For the server ───────────────────────────────────────────────────────

    async def instead(self, resource: str, verb: str) -> WholeResponse | None:
        if delay := self._take(Delay, resource, verb):
            await asyncio.sleep(delay.seconds)
        if fail := self._take(Fail, resource, verb):
            raise fail.error
        if reply := self._take(Reply, resource, verb):
            return WholeResponse(reply.body, reply.status, reply.content_type, reply.headers)
        return None

    def forbids(self, resource: str, verb: str, namespace: str, *, spend: bool) -> bool:
        for rule in self._in_force(Forbid, resource, verb):
            if isinstance(rule.act, Forbid) and rule.act.namespace in (None, namespace):
                if spend:
                    rule.spend()
                return True
        return False

    def content_type(self, resource: str, verb: str) -> str | None:
        mislabel = self._take(Mislabel, resource, verb)
        return mislabel.content_type if mislabel else None

    def ends_at_once(self, resource: str) -> bool:
        return self._take(EndAtOnce, resource, "watch") is not None

    def is_silent(self, resource: str) -> bool:
        return any(self._in_force(Silence, resource, "watch"))

    def cuts_line(self, resource: str) -> bool:
        return self._take(CutLine, resource, "watch") is not None

    def _take(self, act: type[A], resource: str, verb: str) -> A | None:
        """The act of the first rule of that kind for the request, with its count reduced."""
        for rule in self._in_force(act, resource, verb):
            rule.spend()
            found: A = rule.act  # type: ignore[assignment]
            return found
        return None

    def _in_force(self, act: type[A], resource: str, verb: str) -> Iterator[FaultRule]:
        return (rule for rule in self._rules if isinstance(rule.act, act) and rule.concerns(resource, verb))

    def _add(self, act: Act, resource: str | None, verbs: Collection[str] | None, times: int | None) -> FaultRule:
        rule = FaultRule(act, resource, verbs, times, _changed=self._wake)
        self._rules = [*(each for each in self._rules if each.in_force), rule]
        self._wake()
        return rule

    def _wake(self) -> None:
        for watch in self._watches.of():
            watch.wake()

    def _each(self, resource: str | None, act: Callable[[OpenWatch], None]) -> int:
        concerned = self._watches.of(resource)
        for watch in concerned:
            act(watch)
        return len(concerned)

    def _commit_and_lose(self, name: str, key: str, before: StoredObject | None, after: StoredObject | None) -> int:
        version = self._commit(name, key, before, after)
        if self._to_lose[name]:
            self._to_lose[name] -= 1
            self._store.collection(name).events.pop()  # Watches read the events after this method only.
        return version


def _too_many_requests(retry_after: int) -> StatusError:
    message = "storage is (re)initializing"
    return StatusError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_after}, retry_after)


def _internal_error(why: str) -> StatusError:
    message = f"Internal error occurred: {why}"
    return StatusError(500, "InternalError", message, {"causes": [{"message": why}]})
