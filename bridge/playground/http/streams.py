"""Serves watches: chooses and makes the lines of a watch, and sends them to its client, until its timeout, the client's
end, or a fault.

A ``Watch`` makes the lines, from its position in the changes of a collection. A ``WatchStream`` sends them when the
collection changes or a bookmark is due. ``Faults`` are the server's hooks for faults, which the tests' server overrides
(``tests.kit``); it also ends or disturbs streams that are open.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import Iterable, Iterator
from itertools import chain
from random import random

from aiohttp import web

from bridge.playground.http.errors import StatusError, encode, expired
from bridge.playground.http.handlers import ListOptions, WholeResponse
from bridge.playground.http.requests import Target
from bridge.playground.objects.catalogue import Kind
from bridge.playground.objects.columns import TableForm
from bridge.playground.objects.objects import MEMBERS, body
from bridge.playground.objects.store import Event, Forgotten, ObjectStore, Range, StoredObject

# ── Hooks for faults ─────────────────────────────────────────────────────────

DISCOVERY = ""
"""The resource name of requests for discovery, version and health."""


class Faults:
    """A server without faults. ``resource`` is kubectl's name, or DISCOVERY; ``verb`` is RBAC's."""

    async def instead(self, resource: str, verb: str) -> WholeResponse | None:
        """The answer that replaces the right answer, or None. May wait, and may raise StatusError."""
        return None

    def forbids(self, resource: str, verb: str, *, spend: bool) -> bool:
        """Whether RBAC refuses the request. ``spend`` counts it; a SelfSubjectAccessReview does not."""
        return False

    def content_type(self, resource: str, verb: str) -> str | None:
        """A wrong content type for the right answer."""
        return None

    def is_silent(self, resource: str) -> bool:
        """Whether open watches hold their lines back."""
        return False

    def cuts_line(self, resource: str) -> bool:
        """Whether the next line of a watch breaks off in its middle, with its connection."""
        return False


# ── The lines of a watch ─────────────────────────────────────────────────────

_ADDED = b'{"type":"ADDED","object":'
_MODIFIED = b'{"type":"MODIFIED","object":'
_DELETED = b'{"type":"DELETED","object":'
_BOOKMARK = b'{"type":"BOOKMARK","object":'
_END = b"}\n"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Watch:
    """The progress of a client's watch through a collection. It returns the lines, and sends none."""

    def __init__(
        self,
        store: ObjectStore,
        target: Target,
        options: ListOptions,
        form: TableForm | None,
    ) -> None:
        """``store`` has reached ``wanted_version``; ``form`` is None for plain JSON.

        Raises StatusError (410) for a resourceVersion that is older than the history.
        """
        self.kind = target.kind
        self.collection = store.collection(target.kind.collection)
        self.bookmarks = options.bookmarks
        self._store = store
        self._version = target.version
        self._namespace = target.namespace
        self._selection = options.selection
        self._form = form
        self._has_headers = False
        asked = options.version_number()
        from_state = not asked or bool(options.initial_events)
        self._begins_after = self._now() if from_state else asked
        """Changes and bookmarks up to this version are not sent. The version may lie in the future."""
        try:
            self._position = self.collection.watch_position(self._begins_after)
        except Forgotten as forgotten:
            raise expired(f"too old resource version: {asked} ({forgotten.oldest})") from None
        ahead = self.collection.since(self._position)
        self._marked = ahead[-1].version if ahead else self._begins_after
        """The version that the client knows from events; bookmarks are only sent for later versions."""
        sends_state = from_state and options.initial_events is not False
        self.opening: Iterable[bytes] = self._state() if sends_state else ()
        """The first lines, of the current state, each made when it is sent."""

    def news(self) -> list[bytes]:
        """Lines for what has changed since the last call. Raises Forgotten for a watch that fell behind."""
        events = self.collection.since(self._position)
        self._position += len(events)
        return [line for event in events if event.version > self._begins_after and (line := self._event_line(event))]

    def bookmark(self) -> bytes:
        """A bookmark for all changes until now; empty if the client knows that version."""
        if self._now() <= self._marked:
            return b""
        return self._line(_BOOKMARK, bookmark(self.kind, self._version, self._now()))

    def _now(self) -> int:
        return self._store.version_of(self.kind.collection)

    def _state(self) -> Iterator[bytes]:
        everything = Range(self.collection.keys, self.collection.objects).under(self._namespace)
        chosen = [each for each in everything if self._selection(each)]
        lines = (self._object_line(_ADDED, each) for each in chosen)
        if not self.bookmarks:
            return lines
        # Kubernetes 1.34 and newer send this bookmark also to a watch without sendInitialEvents and resourceVersion.
        end = bookmark(self.kind, self._version, self._begins_after, initial_events_end=True)
        return chain(lines, (self._line(_BOOKMARK, each) for each in [end]))

    def _event_line(self, event: Event) -> bytes | None:
        # An object that enters or leaves the selection is ADDED or DELETED for this watch, whatever happened to it.
        before = event.before if event.before and self._concerns(event.before) else None
        after = event.after if event.after and self._concerns(event.after) else None
        if after:
            return self._object_line(_MODIFIED if before else _ADDED, after)
        # The last state, with the version of the delete, as kube-apiserver sends it.
        return self._object_line(_DELETED, before, event.version) if before else None

    def _concerns(self, stored: StoredObject) -> bool:
        return (not self._namespace or stored.namespace == self._namespace) and self._selection(stored)

    def _object_line(self, opening: bytes, stored: StoredObject, at: int | None = None) -> bytes:
        return self._line(opening, body(self.kind, stored, self._version, at))

    def _line(self, opening: bytes, text: bytes) -> bytes:
        if self._form is not None:
            text = self._form.of_one(text, headers=not self._has_headers)
            self._has_headers = True
        return b"".join((opening, text, _END))


def wanted_version(options: ListOptions) -> int:
    """The version that the server must have reached before it answers; 0 for any. A plain watch may begin in the
    future, and is silent until then. Raises StatusError (500) for a malformed version."""
    version = options.version_number()
    return version if options.initial_events else 0


def bookmark(kind: Kind, version: str, at: int, *, initial_events_end: bool = False) -> bytes:
    """The object of a bookmark."""
    annotations = {"annotations": {INITIAL_EVENTS_END: "true"}} if initial_events_end else {}
    object_ = {
        "kind": kind.kind,
        "apiVersion": kind.api_version(version),
        "metadata": {"resourceVersion": str(at), **annotations},
    }
    text = encode(object_, sort=kind.custom)
    if members := MEMBERS.get(f"{kind.name}/{version}") or MEMBERS.get(kind.name):
        return b"%b,%b" % (text[:-1], members[1:])
    return text


def error_line(error: StatusError) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % encode(error.status())


# ── The stream of a watch ────────────────────────────────────────────────────

_BATCH = 256 * 1024
"""Bytes of lines that are written at once, and that wait in memory for a slow client."""
_SHORTEST_WATCH = 1800.0
"""Seconds that a watch without timeoutSeconds lasts at least; at most twice that."""
_LAST_BOOKMARK = 2.0
"""Seconds before the end of a watch at which it sends a bookmark, so that the next watch can begin close to its end."""


class WatchStream:
    """An open watch. ``run`` returns at its end; the other methods may be called while it runs."""

    def __init__(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        watch: Watch,
        faults: Faults,
        compress: bool,
    ) -> None:
        self.resource = watch.kind.name
        self._request = request
        self._response = response
        self._watch = watch
        self._faults = faults
        self._compress = compress
        self._woken = asyncio.Event()
        self._injected: list[bytes] = []
        self._over = False
        self._bookmark_due = False

    def hang_up(self) -> None:
        """Ends the watch cleanly."""
        self._over = True
        self.wake()

    def reset(self) -> None:
        """Drops the connection."""
        if self._request.transport is not None:
            self._request.transport.abort()

    def inject(self, raw: bytes) -> None:
        """Sends these bytes between two lines."""
        self._injected.append(raw)
        self.wake()

    def wake(self) -> None:
        """Makes the watch look for news and faults."""
        self._woken.set()

    async def run(self, timeout: float, bookmark_interval: float) -> None:
        """Sends events for ``timeout`` seconds (0: for a random time), and a bookmark every ``bookmark_interval``
        seconds."""
        timeout = timeout or _SHORTEST_WATCH * (1 + random())
        with contextlib.ExitStack() as ending:
            self._watch.collection.listeners.add(self.wake)
            ending.callback(self._watch.collection.listeners.discard, self.wake)
            self._schedule(ending, timeout, bookmark_interval)
            try:
                await self._audible()
                await self._send(self._watch.opening)
                self.wake()  # The history may have news already.
                await self._follow()
            except ConnectionResetError:
                return
            await self._response.write_eof()

    async def _audible(self) -> None:
        while self._faults.is_silent(self.resource):
            await self._woken.wait()
            self._woken.clear()

    async def _follow(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self._audible()
            try:
                lines = self._watch.news()
            except Forgotten:
                return  # The real server also ends the watch of a slow client without an ERROR event.
            if self._bookmark_due and not self._over:
                # Made before the first await: a later bookmark would cover changes that arrive during the sending.
                lines.append(self._watch.bookmark())
                self._bookmark_due = False
            await self._send(lines)
            raw, self._injected = self._injected, []
            await self._write(b"".join(raw))
            if self._over or self._watch.collection.ended:
                return

    async def _send(self, lines: Iterable[bytes]) -> None:
        batch: list[bytes] = []
        size = 0
        for line in lines:
            if line and self._faults.cuts_line(self.resource):
                await self._write(b"".join(batch) + line[: len(line) // 2])
                await self._break_off()
            batch.append(line)
            size += len(line)
            if size >= _BATCH:
                await self._write(b"".join(batch))
                batch, size = [], 0
        await self._write(b"".join(batch))

    async def _write(self, text: bytes) -> None:
        if not text:
            return
        # A gzip member for each write, as Kubernetes 1.37 compresses watch lists.
        await self._response.write(gzip.compress(text, 1) if self._compress else text)

    async def _break_off(self) -> None:
        """Closes the connection after the written bytes are sent: a reset would drop the half line."""
        if self._request.transport is not None:
            self._request.transport.close()
        raise ConnectionResetError("cut in the middle of a line")

    def _schedule(self, ending: contextlib.ExitStack, timeout: float, bookmark_interval: float) -> None:
        loop = asyncio.get_running_loop()

        ending.callback(loop.call_later(timeout, self.hang_up).cancel)
        if not self._watch.bookmarks:
            return
        timers: dict[str, asyncio.TimerHandle] = {}

        def bookmark(again: float | None = None) -> None:
            self._bookmark_due = True
            self.wake()
            if again is not None:
                timers["regular"] = loop.call_later(again, bookmark, again)

        timers["regular"] = loop.call_later(bookmark_interval, bookmark, bookmark_interval)
        if timeout > _LAST_BOOKMARK:
            timers["last"] = loop.call_later(timeout - _LAST_BOOKMARK, bookmark)

        def cancel_all() -> None:
            for timer in timers.values():
                timer.cancel()

        ending.callback(cancel_all)
